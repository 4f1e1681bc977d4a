"""One answer of an agent, in the shape of OpenAI's chat completions. Not here: what a request may say (openai_api.py).

Entry: `Completion`, `completed`, `completed_stream`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import anyio
import msgspec
from starlette.responses import Response, StreamingResponse

from treadle.database.scope import Scope
from treadle.errors import AgentError
from treadle.events import RunEnd, TextDelta
from treadle.message import Message
from treadle.plain import plain
from treadle.run_stream import RunStream
from treadle.service.chat import LATE
from treadle.service.conversation_store import ConversationStore
from treadle.service.problems import TROUBLE, Problem
from treadle.service.running import served_agent
from treadle.service.sse import MEDIA_TYPE
from treadle.service.state import Service
from treadle.tasks.agent import NAME
from treadle.tasks.context import AgentContext
from treadle.tasks.runner import ReplyStream
from treadle.types import Outcome, RunMetrics, new_id

Running: TypeAlias = RunStream[Any] | ReplyStream
_CUT: Final = frozenset({Outcome.TRUNCATED, Outcome.TOKEN_LIMIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What is asked."""

    agent: str
    text: str
    earlier: tuple[tuple[Literal["user", "assistant"], str], ...]
    """Oldest first."""
    conversation_id: str
    with_usage: bool
    """A stream ends with a chunk that says what was used."""
    run_id: str = field(default_factory=lambda: new_id("run"))
    created: int = field(default_factory=lambda: int(time.time()))


async def completed(service: Service, scope: Scope, asked: Completion) -> Response:
    """Raises Problem: 504 where the run was out of time, 503 where it failed."""
    async with _run(service, scope, asked) as running:
        end = await _end_of(running, asked.run_id)
    if end.outcome is Outcome.TIMEOUT:
        raise Problem(504, LATE)
    if end.outcome is Outcome.ERROR and asked.agent != NAME:
        raise Problem(503, TROUBLE)
    choice = {"index": 0, "message": {"role": "assistant", "content": end.text, "refusal": None}, "logprobs": None, "finish_reason": _reason(end)}
    body = {**_head(asked, "chat.completion"), "choices": [choice], "usage": _used(running)}
    return Response(msgspec.json.encode(body), media_type="application/json")


async def completed_stream(service: Service, scope: Scope, asked: Completion) -> Response:
    """What is wrong before the run begins is an answer of its own; afterwards the stream says it."""
    held = AsyncExitStack()
    try:
        await held.enter_async_context(service.limits.stream(scope))
        run = _run(service, scope, asked)
        chunks = _chunks(asked, run)
        first = await anext(chunks)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await held.aclose()
        raise
    return StreamingResponse(_held(held, first, chunks), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def _held(held: AsyncExitStack, first: bytes, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with held, aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield chunk


async def _chunks(asked: Completion, run: AbstractAsyncContextManager[Running]) -> AsyncGenerator[bytes]:
    """The first once the run has begun."""
    head = _head(asked, "chat.completion.chunk") | ({"usage": None} if asked.with_usage else {})

    def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
        return _framed({**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]})

    async with run as running:
        yield chunk({"role": "assistant", "content": ""})
        said = ""
        async for event in running:
            if isinstance(event, TextDelta):
                said += event.text
                yield chunk({"content": event.text})
            elif isinstance(event, RunEnd) and event.run_id == asked.run_id:
                if rest := event.text.removeprefix(said) if event.text.startswith(said) else "":
                    yield chunk({"content": rest})
                if event.outcome in (Outcome.TIMEOUT, Outcome.ERROR) and not event.text:
                    yield _framed({"error": {"message": LATE if event.outcome is Outcome.TIMEOUT else TROUBLE, "type": "server_error", "code": None}})
                    return
                yield chunk({}, _reason(event))
                if asked.with_usage:
                    yield _framed({**head, "choices": [], "usage": _used(running)})
        yield b"data: [DONE]\n\n"


def _framed(value: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(value)


def _head(asked: Completion, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{asked.run_id}", "object": kind, "created": asked.created, "model": asked.agent}


def _reason(end: RunEnd) -> str:
    return "length" if end.outcome in _CUT else "content_filter" if end.outcome is Outcome.REFUSED else "stop"


def _used(running: Running) -> dict[str, Any]:
    usage = (metrics_of(running) or RunMetrics()).usage
    asked = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {"prompt_tokens": asked, "completion_tokens": usage.output_tokens, "total_tokens": asked + usage.output_tokens}


async def _end_of(events: Running, run_id: str) -> RunEnd:
    end: RunEnd | None = None
    async for event in events:
        if isinstance(event, RunEnd) and event.run_id == run_id:
            end = event
    if end is None:
        raise AgentError("agent", "a run ended without its last event")
    return end


@asynccontextmanager
async def _run(service: Service, scope: Scope, asked: Completion) -> AsyncGenerator[Running]:
    """Leaving the block ends it. What it spent is counted for the day, however it ends."""
    async with service.limits.run(scope) as spending:
        await service.database.run(scope, lambda session: ConversationStore(session, scope).add_run(asked.run_id, asked.agent))
        running = _stream(service, scope, asked)
        try:
            async with running:
                yield running
        finally:
            with anyio.CancelScope(shield=True):
                if (metrics := metrics_of(running)) is not None:
                    spending.count(metrics.usage.total_tokens, metrics.cost_usd)
                await service.database.run(scope, lambda session: ConversationStore(session, scope).finish(asked.run_id))


def _stream(service: Service, scope: Scope, asked: Completion) -> Running:
    if asked.agent == NAME:
        messages = [{"role": role, "content": text} for role, text in asked.earlier]
        return service.runner.stream(AgentContext.from_request(scope.user_id, asked.conversation_id, messages), asked.text, run_id=asked.run_id)
    agent = served_agent(service, asked.agent)
    assert agent is not None, "its name was looked up before"
    said = [Message.user(plain(text)) if role == "user" else Message.assistant(plain(text)) for role, text in asked.earlier]
    return service.runtime.stream(agent, asked.text, messages=said, run_id=asked.run_id, user_id=scope.user_id, mode=service.config.defaults.mode)


def metrics_of(running: Running) -> RunMetrics | None:
    """None where it did not begin."""
    try:
        return running.metrics if isinstance(running, ReplyStream) else running.result.metrics
    except AgentError:
        return None
