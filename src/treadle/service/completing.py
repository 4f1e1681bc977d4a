"""Completion by an agent, in the format of OpenAI's chat completions. See also: request validation
(openai_api.py).

The service owns the run and cancels it if the client disconnects. An agent can retract its text
until the run ends, which this protocol cannot express, so a stream sends keep-alive chunks and then
the whole answer. Entry points: `CompletionOptions`, `completed`, `completed_stream`.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import anyio
import msgspec
from starlette.responses import Response
from starlette.types import Receive

from treadle._internal.terminal_text import plain
from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.messages.events import RunEnd
from treadle.messages.message import Message
from treadle.messages.metrics import RunMetrics
from treadle.runtime.run_stream import RunStream
from treadle.service.answering import LATE
from treadle.service.application import ChatTurn, PastMessage, ReplyStream
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Scope
from treadle.service.fan_out import BEAT, HEARTBEAT_S
from treadle.service.live import LiveRun
from treadle.service.problems import HttpProblem, unavailable
from treadle.service.running import CANNOT_RUN, deps_of, finish, info_of, served_agent
from treadle.service.spending import RunSpending, measurable
from treadle.service.sse import SseResponse, until_gone
from treadle.service.state import Service
from treadle.types import Limits, Outcome, new_id

Running: TypeAlias = RunStream[Any] | ReplyStream
_CUT: Final = frozenset({Outcome.TRUNCATED, Outcome.TOKEN_LIMIT})
_GONE: Final = 499
"""Logged status of a response whose client has disconnected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions:
    """Validated completion request."""

    agent: str
    text: str
    earlier: tuple[tuple[Literal["user", "assistant"], str], ...]
    """Earlier messages with their role, oldest first."""
    conversation_id: str
    with_usage: bool
    """True if the stream ends with a usage chunk."""
    run_id: str = field(default_factory=lambda: new_id("run"))
    created: int = field(default_factory=lambda: int(time.time()))


async def completed(
    service: Service, scope: Scope, asked: CompletionOptions, receive: Receive
) -> Response:
    """Return the finished completion. Raises Problem: 504 if the run timed out, 503 if it
    failed.
    """
    answering = await _started(service, scope, asked)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(until_gone, receive, group.cancel_scope)
            await answering.live.over.wait()
            group.cancel_scope.cancel()
    finally:
        answering.leave()
    if not answering.live.over.is_set():
        return Response(status_code=_GONE)
    end = answering.ended()
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": end.text, "refusal": None},
        "logprobs": None,
        "finish_reason": _reason(end),
    }
    body = {**_head(asked, "chat.completion"), "choices": [choice], "usage": answering.used()}
    return Response(msgspec.json.encode(body), media_type="application/json")


async def completed_stream(service: Service, scope: Scope, asked: CompletionOptions) -> Response:
    """Return a streamed completion. Errors before the run begins are plain responses; later errors
    are sent in the stream.
    """
    async with AsyncExitStack() as held:
        await held.enter_async_context(service.limits.stream(scope))
        answering = await _started(service, scope, asked)
        held.callback(answering.leave)
        await answering.live.begun.wait()
        if answering.live.error is not None:
            answering.ended()
        return SseResponse(Chunks(answering), over=held.pop_all().aclose)


async def _started(service: Service, scope: Scope, asked: CompletionOptions) -> Answering:
    """Start the run. Raises Problem if it may not begin."""
    async with AsyncExitStack() as held:
        spending = await held.enter_async_context(
            service.limits.run(scope, asked.run_id, _agent(service, asked))
        )
        await service.database.run(
            scope,
            lambda session: ConversationStore(session, scope).add_run(asked.run_id, asked.agent),
        )
        return Answering(service, scope, asked, held.pop_all(), spending)


class Answering:
    """A run that answers one completion request."""

    def __init__(
        self,
        service: Service,
        scope: Scope,
        asked: CompletionOptions,
        held: AsyncExitStack,
        spending: RunSpending,
    ) -> None:
        """Start the run in a task of the service. `held` is closed when the run ends."""
        self.asked = asked
        self._service = service
        self._client = anyio.CancelScope()
        self._end: RunEnd | None = None
        self._metrics = RunMetrics()
        self.live: LiveRun = service.live.start(
            asked.run_id, scope, partial(self._drive, held, spending)
        )

    def leave(self) -> None:
        """Cancel the run unless it has ended. Idempotent."""
        self._client.cancel()

    def ended(self) -> RunEnd:
        """Return the last event of a finished run.

        Raises HttpProblem if the run has no answer: 504 after a timeout, else 503.
        """
        error, end = self.live.error, self._end
        if isinstance(error, AgentError) and error.kind is ErrorKind.INVALID:
            raise unavailable(CANNOT_RUN)
        if error is not None or end is None:
            raise unavailable()
        if end.outcome is Outcome.TIMEOUT:
            raise HttpProblem(504, LATE)
        if end.outcome is Outcome.ERROR and not (end.text and self._is_of_chat):
            raise unavailable()
        return end

    @property
    def _is_of_chat(self) -> bool:
        """True if the chat's application answers, which may have its own text for a failure."""
        return self.asked.agent == self._service.application.name

    def used(self) -> dict[str, Any]:
        usage = self._metrics.total.usage
        asked = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        return {
            "prompt_tokens": asked,
            "completion_tokens": usage.output_tokens,
            "total_tokens": asked + usage.output_tokens,
        }

    async def _drive(self, held: AsyncExitStack, spending: RunSpending, live: LiveRun) -> None:
        async with held:
            agent = _agent(self._service, self.asked)
            limits = await measurable(self._service.runtime, agent, spending.limits)
            running = _stream(self._service, live.scope, self.asked, limits)
            try:
                with self._client:
                    await self._follow(running, live)
                self._metrics = (
                    running.result.metrics if isinstance(running, RunStream) else running.metrics
                )
                await spending.count_run(self._service.runtime.journal, live.run_id, self._metrics)
                await finish(self._service, live)
            except AgentError:
                if await info_of(self._service, live.run_id) is None:
                    await finish(self._service, live)
                raise

    async def _follow(self, running: Running, live: LiveRun) -> None:
        async with running as events:
            live.begun.set()
            async for event in events:
                live.tell(event)
                if isinstance(event, RunEnd) and event.run_id == live.run_id:
                    self._end = event
                    self._service.metrics.runs.labels(self.asked.agent, event.outcome.value).inc()


class Chunks:
    """Source of a stream's chunks: the role, keep-alive chunks, then the whole answer."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._begun = self._over = False

    async def read(self) -> bytes | None:
        """Return the next chunk, or None at the end."""
        if not self._begun:
            self._begun = True
            return self._chunk({"role": "assistant", "content": ""})
        if self._over:
            return None
        with anyio.move_on_after(HEARTBEAT_S):
            await self._answering.live.over.wait()
        if not self._answering.live.over.is_set():
            return BEAT
        self._over = True
        return self._last()

    def close(self) -> None:
        self._over = True

    def _last(self) -> bytes:
        asked = self._answering.asked
        try:
            end = self._answering.ended()
        except HttpProblem as e:
            return _framed({"error": {"message": e.detail, "type": "server_error", "code": None}})
        said = self._chunk({"content": end.text}) if end.text else b""
        usage = (
            _framed({**self._head(), "choices": [], "usage": self._answering.used()})
            if asked.with_usage
            else b""
        )
        return said + self._chunk({}, _reason(end)) + usage + b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> bytes:
        return _framed(
            {
                **self._head(),
                "choices": [
                    {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
                ],
            }
        )

    def _head(self) -> dict[str, Any]:
        asked = self._answering.asked
        return _head(asked, "chat.completion.chunk") | ({"usage": None} if asked.with_usage else {})


def _framed(value: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(value)


def _head(asked: CompletionOptions, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{asked.run_id}",
        "object": kind,
        "created": asked.created,
        "model": asked.agent,
    }


def _reason(end: RunEnd) -> str:
    return (
        "length"
        if end.outcome in _CUT
        else "content_filter"
        if end.outcome is Outcome.REFUSED
        else "stop"
    )


def _agent(service: Service, asked: CompletionOptions) -> Agent[Any, Any]:
    """Return the agent. Raises Problem if it is no longer served."""
    if asked.agent == service.application.name:
        return service.chat.agent
    if (agent := served_agent(service, asked.agent)) is None:
        raise unavailable()
    return agent


def _stream(service: Service, scope: Scope, asked: CompletionOptions, limits: Limits) -> Running:
    if asked.agent == service.application.name:
        turn = ChatTurn(
            scope=scope,
            conversation_id=asked.conversation_id,
            message=asked.text,
            run_id=asked.run_id,
            history=tuple(PastMessage(role, text) for role, text in asked.earlier),
            is_stored=False,
        )
        return service.chat.stream(turn, limits)
    agent = _agent(service, asked)
    said = [
        Message.user(plain(text)) if role == "user" else Message.assistant(plain(text))
        for role, text in asked.earlier
    ]
    mode = service.config.defaults.mode
    return service.runtime.stream(
        agent,
        asked.text,
        deps=deps_of(service, agent.name, scope),
        messages=said,
        run_id=asked.run_id,
        user_id=scope.user_id,
        mode=mode,
        limits=limits,
    )
