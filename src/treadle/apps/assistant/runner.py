"""A person's message becomes a run of the task assistant, and its events a reply. Nothing is kept
between two runs.

What the agent is stands in agent.py, what is said in replies.py and words.py, which events a chat
sees in view.py. Entry: `AgentRunner`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from datetime import date, datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from sqlmodel import Session

from treadle._internal.terminal_text import plain
from treadle.agents.agent import Agent
from treadle.apps.assistant import confirmations
from treadle.apps.assistant.agent import inputs_of, task_agent
from treadle.apps.assistant.caller import ToolUser
from treadle.apps.assistant.confirmations import AnsweredConfirmations
from treadle.apps.assistant.context import AgentContext, AgentResult, MessageHistory, ToolCallRecord
from treadle.apps.assistant.held_calls import HeldCalls
from treadle.apps.assistant.replies import FAILURE, UNCLEAR
from treadle.apps.assistant.server import MCPToolServer, log_failure
from treadle.apps.assistant.view import ReplyView
from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.messages.message import Message
from treadle.messages.metrics import RunMetrics
from treadle.models.model import Model
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.service.application import Reply
from treadle.service.database.database import Database
from treadle.service.database.scope import Identity, Proof, Scope
from treadle.types import Limits, Outcome, new_id, now

logger: Final = logging.getLogger("treadle")

HISTORY_MOST: Final = 20
HISTORY_CHARS: Final = 8_000
"""Of the last messages a model is told so many, and no more of them than fit in whole."""
LOOK: Final = AnsweredConfirmations("void")
"""In place of an answer: it is looked up."""


class TimedOut(TimeoutError):
    """A run had its 30 seconds. What its calls did stays done."""

    def __init__(self, result: AgentResult) -> None:
        super().__init__(
            "the task assistant did not answer within 30 seconds; what it had done stays done"
        )
        self.result: Final = result
        """`response` is fit to be shown."""

    @property
    def tool_calls(self) -> tuple[ToolCallRecord, ...]:
        return self.result.tool_calls


class _Begun(NamedTuple):
    """A run that is about to be followed."""

    before: list[Event]
    """What its journal has of it."""
    stream: RunStream[str] | None
    """None: it is over."""


class ReplyStream:
    """One run as a chat sees it: `async with … as reply: async for event in reply: …`, then
    `reply.result`.

    The run begins with the block; leaving the block before its end cancels it. Events come once, to
    one reader.
    """

    def __init__(self, begin: Callable[[AsyncExitStack], Any], run_id: str, user_id: str) -> None:
        self.run_id: Final = run_id
        self._begin = begin
        self._view = ReplyView(user_id)
        self._stack = AsyncExitStack()
        self._begun = _Begun([], None)

    @property
    def result(self) -> AgentResult:
        """Raises TimedOut where the run took too long, and AgentError(invalid) before its end."""
        if self._view.result is None:
            raise AgentError("invalid", "this reply is not whole: read its events to the end first")
        if self._view.outcome is Outcome.TIMEOUT:
            raise TimedOut(self._view.result)
        return self._view.result

    @property
    def reply(self) -> Reply:
        """The same for the service, also where the run took too long."""
        try:
            result, late = self.result, False
        except TimedOut as e:
            result, late = e.result, True
        calls = tuple(asdict(record) for record in result.tool_calls)
        return Reply(result.response, calls, late=late)

    @property
    def outcome(self) -> Outcome | None:
        """None before the end."""
        return self._view.outcome

    @property
    def metrics(self) -> RunMetrics:
        """What the run took: for whoever counts tokens and money.

        Of a run that was over before, nothing.
        """
        return RunMetrics() if self._begun.stream is None else self._begun.stream.result.metrics

    def cancel(self) -> None:
        """Ends the run as `cancelled`; its events close. Idempotent."""
        if self._begun.stream is not None:
            self._begun.stream.cancel()

    async def __aenter__(self) -> Self:
        """Raises AgentError for what is wrong before the run starts."""
        async with AsyncExitStack() as stack:
            begun: _Begun = await self._begin(stack)
            if begun.stream is not None:
                await stack.enter_async_context(begun.stream)
            # only now: what has not begun cannot be cancelled
            self._begun, self._stack = begun, stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in self._begun.before:
            for seen in self._view.take(event):
                yield seen
        if self._begun.stream is not None:
            async for event in self._begun.stream:
                for seen in self._view.take(event):
                    yield seen


class AgentRunner:
    """Runs messages of any number of people, side by side. Holds nothing of any of them."""

    def __init__(
        self,
        session_factory: Callable[[], Session] | Database,
        mcp_server: MCPToolServer,
        model: str | Model | None = None,
        *,
        runtime: Runtime | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """`model` None: the one of rules, which needs no key.

        `runtime` is the caller's, who closes it; without one, each run has its own, in memory,
        which is closed with the run.
        """
        self._database = (
            session_factory if isinstance(session_factory, Database) else Database(session_factory)
        )
        self._runtime, self._clock = runtime, clock
        self.agent: Final[Agent[ToolUser, str]] = task_agent(mcp_server, model, today=self._today)

    async def run(self, context: AgentContext, message: str) -> AgentResult:
        """One message to its reply. Raises TimedOut, a TimeoutError with the records, after 30
        seconds; any other failure is a result.

        Cancellation: the run is closed first; what its calls did stays done.
        """
        try:
            return await _to_its_end(self.stream(context, message))
        except AgentError as e:
            if not message.strip():
                return AgentResult(success=True, response=UNCLEAR)
            logger.warning("a message could not be worked on: %s", e.message)
        except TimedOut:
            raise
        except Exception as e:  # noqa: BLE001  the edge of a message: the database, or a bug
            log_failure("a message", e)
        return AgentResult(success=False, response=FAILURE, error=FAILURE)

    def stream(
        self,
        context: AgentContext,
        message: str,
        *,
        run_id: str | None = None,
        answered: AnsweredConfirmations | None = LOOK,
        limits: Limits | None = None,
    ) -> ReplyStream:
        """The same, its events as they come. `run_id`: of the run, where somebody has to know it
        before it begins.

        `answered`: what the message made of what was pending, from a caller who has kept it
        together with the message (`confirmations.answered`). `limits`: over those of the task
        assistant.
        """
        run_id = run_id or new_id("run")
        return ReplyStream(
            partial(self._new, context, message, run_id, answered, limits), run_id, context.user_id
        )

    async def resume(self, run_id: str, context: AgentContext) -> AgentResult:
        """Goes on with a run whose process died; of a finished one, what it was. Needs the runtime
        that has its journal.

        Raises TimedOut as `run` does, and AgentError: invalid for an unknown run, or one of
        somebody else; busy where a living process drives it.
        """
        return await _to_its_end(self.resume_stream(run_id, context))

    def resume_stream(self, run_id: str, context: AgentContext) -> ReplyStream:
        """The same as it comes: what the journal has of its events, and then those that come.

        What `resume` raises, entering raises.
        """
        return ReplyStream(partial(self._again, context, run_id), run_id, context.user_id)

    # ------------------------------------------------------------ beginnings

    async def _new(
        self,
        context: AgentContext,
        message: str,
        run_id: str,
        answered: AnsweredConfirmations | None,
        limits: Limits | None,
        stack: AsyncExitStack,
    ) -> _Begun:
        scope = _scope(context, "caller")
        if answered is LOOK:
            answered = await self._database.run(
                scope, partial(self._answered, scope, context.conversation_id, message, run_id)
            )
        stream = (await self._entered(stack)).stream(
            self._agent(answered),
            plain(message),
            deps=_caller(scope, context, answered),
            run_id=run_id,
            user_id=context.user_id,
            messages=earlier(context.message_history),
            inputs=inputs_of(self._today()),
            limits=limits or Limits(),
        )
        return _Begun([], stream)

    async def _again(self, context: AgentContext, run_id: str, stack: AsyncExitStack) -> _Begun:
        runtime, scope = await self._entered(stack), _scope(context, "journal")
        state = await runtime.journal.load(run_id)
        if state.started is None or state.started.user_id != context.user_id:
            raise AgentError("invalid", f"there is no run {run_id!r}")
        before = await runtime.events(run_id)
        if state.finished is not None:
            return _Begun(before, None)
        answered = await self._database.run(scope, partial(_granted, scope, run_id))
        return _Begun(
            before,
            runtime.resume_stream(
                run_id, self._agent(answered), deps=_caller(scope, context, answered)
            ),
        )

    def _answered(
        self, scope: Scope, conversation_id: str, message: str, run_id: str, session: Session
    ) -> AnsweredConfirmations | None:
        return confirmations.answered(
            session, scope, conversation_id, message, run_id, clock=self._clock
        )

    def _agent(self, answered: AnsweredConfirmations | None) -> Agent[ToolUser, str]:
        """Where a person answered what was asked, no model is asked what that means."""
        return (
            self.agent
            if answered is None or not answered.calls
            else replace(self.agent, model=HeldCalls(answered.calls))
        )

    def _today(self) -> date:
        """Where this process runs."""
        return self._clock().astimezone().date()

    async def _entered(self, stack: AsyncExitStack) -> Runtime:
        return (
            self._runtime
            if self._runtime is not None
            else await stack.enter_async_context(Runtime.open())
        )


def _scope(context: AgentContext, proof: Proof) -> Scope:
    """The one place where the tasks of somebody become reachable for a run: whoever made the
    context has verified who it is.
    """
    return Scope(Identity(context.user_id, proof))


def _caller(
    scope: Scope, context: AgentContext, answered: AnsweredConfirmations | None
) -> ToolUser:
    return ToolUser(
        scope, context.conversation_id, answered.grant if answered is not None else None
    )


def _granted(scope: Scope, run_id: str, session: Session) -> AnsweredConfirmations | None:
    return confirmations.granted(session, scope, run_id)


async def _to_its_end(stream: ReplyStream) -> AgentResult:
    async with stream as reply:
        async for _ in reply:
            pass
    return reply.result


# ---------------------------------------------------------------- what was said before


def earlier(history: tuple[MessageHistory, ...]) -> list[Message]:
    """The last messages as a model is told them, oldest first.

    Their words alone: no result of a tool, and no confirmation, comes back this way.
    """
    kept: list[Message] = []
    left = HISTORY_CHARS
    for one in _last_said(history):
        left -= len(one.content)
        if left < 0:
            break
        text = plain(one.content)
        kept.append(Message.user(text) if one.role == "user" else Message.assistant(text))
    return kept[::-1]


def _last_said(history: tuple[MessageHistory, ...]) -> Iterator[MessageHistory]:
    """Newest first."""
    said = [
        one
        for one in history[-HISTORY_MOST:]
        if one.role in ("user", "assistant") and plain(one.content).strip()
    ]
    return reversed(said)
