"""Runner that answers a person's message with a run of the task assistant, and turns the run's
events into a reply. Runs share no state.

agent.py defines the agent, replies.py and words.py the wording, view.py the event filter. Entry
point: `AgentRunner`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
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
from treadle.apps.assistant.confirmation_records import AnsweredConfirmations
from treadle.apps.assistant.context import (
    AgentContext,
    AgentResult,
    ToolCallRecord,
    earlier,
)
from treadle.apps.assistant.held_calls import HeldCalls
from treadle.apps.assistant.replies import FAILURE, UNCLEAR
from treadle.apps.assistant.server import MCPToolServer, log_failure
from treadle.apps.assistant.view import ReplyView
from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.messages.metrics import RunMetrics
from treadle.models.model import Model
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.service.application import Reply
from treadle.service.database.database import Database
from treadle.service.database.scope import Identity, Proof, Scope
from treadle.types import Limits, Outcome, new_id, now

logger: Final = logging.getLogger("treadle")

LOOK: Final = AnsweredConfirmations("void")
"""Marker for an answer that the runner must look up itself."""


class TimedOut(TimeoutError):
    """Raised when a run takes longer than 30 seconds. Effects of its calls remain."""

    def __init__(self, result: AgentResult) -> None:
        super().__init__(
            "the task assistant did not answer within 30 seconds; changes it made before that "
            "remain"
        )
        self.result: Final = result
        """Partial result of the run, with a `response` fit for display."""

    @property
    def tool_calls(self) -> tuple[ToolCallRecord, ...]:
        return self.result.tool_calls


class _Begun(NamedTuple):
    """Run that has been started but is not followed yet."""

    before: list[Event]
    """Events already in the journal."""
    stream: RunStream[str] | None
    """Live stream; None if the run has ended."""


class ReplyStream:
    """Reply to a message as it is produced: `async with … as reply: async for event in reply: …`,
    then `reply.result`.

    The run begins with the block. Leaving the block early cancels the run. Events can be iterated
    once.
    """

    def __init__(self, begin: Callable[[AsyncExitStack], Any], run_id: str, user_id: str) -> None:
        self.run_id: Final = run_id
        self._begin = begin
        self._view = ReplyView(user_id)
        self._stack = AsyncExitStack()
        self._begun = _Begun([], None)

    @property
    def result(self) -> AgentResult:
        """Result of the run. Raises TimedOut after a timeout, and AgentError(invalid) before the
        end.
        """
        if self._view.result is None:
            raise AgentError(
                "invalid", "this reply is not complete: read its events to the end first"
            )
        if self._view.outcome is Outcome.TIMEOUT:
            raise TimedOut(self._view.result)
        return self._view.result

    @property
    def reply(self) -> Reply:
        """Result for the service, which also exists after a timeout."""
        try:
            result, late = self.result, False
        except TimedOut as e:
            result, late = e.result, True
        calls = tuple(asdict(record) for record in result.tool_calls)
        return Reply(result.response, calls, late=late)

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the run; None before its end."""
        return self._view.outcome

    @property
    def metrics(self) -> RunMetrics:
        """Usage of the run, for accounting. Empty for a run that had already ended."""
        return RunMetrics() if self._begun.stream is None else self._begun.stream.result.metrics

    def cancel(self) -> None:
        """Cancel the run, which ends its events. Idempotent."""
        if self._begun.stream is not None:
            self._begun.stream.cancel()

    async def __aenter__(self) -> Self:
        """Start the run. Raises AgentError for errors before that."""
        async with AsyncExitStack() as stack:
            begun: _Begun = await self._begin(stack)
            if begun.stream is not None:
                await stack.enter_async_context(begun.stream)
            # Only now, because a run that has not begun cannot be cancelled.
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
    """Runner for messages of any number of users concurrently, without per-user state."""

    def __init__(
        self,
        session_factory: Callable[[], Session] | Database,
        mcp_server: MCPToolServer,
        model: str | Model | None = None,
        *,
        runtime: Runtime | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """Create a runner. `model`: None selects the rule-based model, which needs no key.

        The caller owns and closes `runtime`. Without one, each run has its own in-memory runtime, which
        is closed with the run.
        """
        self._database = (
            session_factory if isinstance(session_factory, Database) else Database(session_factory)
        )
        self._runtime, self._clock = runtime, clock
        self.agent: Final[Agent[ToolUser, str]] = task_agent(mcp_server, model, today=self._today)

    async def run(self, context: AgentContext, message: str) -> AgentResult:
        """Run one message to its reply. Raises TimedOut, a TimeoutError with the calls so far,
        after 30 seconds; any other failure is a result.

        Cancellation closes the run first; effects of its calls remain.
        """
        try:
            return await _to_its_end(self.stream(context, message))
        except AgentError as e:
            if not message.strip():
                return AgentResult(success=True, response=UNCLEAR)
            logger.warning("a message could not be answered: %s", e.message)
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
        """Run one message and stream its events. `run_id`: id for the run, if it must be known in
        advance.

        `answered`: resolved confirmations, from a caller that stored them together with the message
        (`confirmations.answered`). `limits` override those of the task assistant.
        """
        run_id = run_id or new_id("run")
        return ReplyStream(
            partial(self._new, context, message, run_id, answered, limits), run_id, context.user_id
        )

    async def resume(self, run_id: str, context: AgentContext) -> AgentResult:
        """Resume a run whose process died, or return the result of a finished one. Needs a runtime
        with the run's journal.

        Raises TimedOut as `run` does, and AgentError: invalid for an unknown run or one of another
        user, busy if a living process drives it.
        """
        return await _to_its_end(self.resume_stream(run_id, context))

    def resume_stream(self, run_id: str, context: AgentContext) -> ReplyStream:
        """Resume a run and stream its events: those in the journal, then live ones. Entering raises
        what `resume` raises.
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
            raise AgentError("invalid", f"unknown run {run_id!r}")
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
        """Return the agent for a message. To carry out a confirmation it uses no model, because the
        calls are known.
        """
        return (
            self.agent
            if answered is None or not answered.calls
            else replace(self.agent, model=HeldCalls(answered.calls))
        )

    def _today(self) -> date:
        """Return today's date in this process's time zone."""
        return self._clock().astimezone().date()

    async def _entered(self, stack: AsyncExitStack) -> Runtime:
        return (
            self._runtime
            if self._runtime is not None
            else await stack.enter_async_context(Runtime.open())
        )


def _scope(context: AgentContext, proof: Proof) -> Scope:
    """Build the scope by which a run reaches a user's tasks. This is the only such place; the
    creator of the context has verified the user.
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
