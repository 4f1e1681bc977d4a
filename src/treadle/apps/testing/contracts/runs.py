"""Entries of runs as the tests of journals write them: short, with rising times, and always equal.

Entry points: `started`, `asks`, `finished`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from treadle._internal.json_text import encode_json
from treadle.budget.spending import Spending
from treadle.errors import AgentError
from treadle.journal.entries import (
    Compaction,
    Entry,
    InputAdded,
    ModelRequested,
    ModelResponded,
    ModelSwitched,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.window import WindowReceipt
from treadle.messages.message import Message, Role, TextPart, ToolCall, ToolResult
from treadle.types import Effect, Mode, Outcome, StopReason, Usage

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)
USED = Usage(input_tokens=10, output_tokens=5)


def at(minute: float) -> datetime:
    return AT + timedelta(minutes=minute)


def message(text: str, role: Role = "user", *, message_id: str = "", minute: float = 0) -> Message:
    return Message(
        id=message_id or f"msg_{text}",
        role=role,
        parts=(TextPart(text=text),),
        created_at=at(minute),
    )


def started(
    run_id: str = "run_1",
    text: str = "hello",
    *,
    session: str | None = None,
    parent: str | None = None,
    minute: float = 0,
    **fields: Any,
) -> RunStarted:
    """The start of a run. `fields`: other fields of the entry."""
    begun = RunStarted(
        at=at(minute),
        run_id=run_id,
        agent="a",
        agent_hash="h",
        model="m",
        mode="full",
        cwd="/",
        input=message(text, message_id=f"msg_{run_id}", minute=minute),
        session_id=session,
        parent_run_id=parent,
    )
    return replace(begun, **fields)


def fact(word: str) -> ModelSwitched:
    """An entry without meaning, for a given place."""
    return ModelSwitched(at=AT, model=word)


def asks(
    number: int, *calls: str, text: str = "", effect: Effect = "once", minute: float = 0
) -> list[Entry]:
    """The first append of a turn: a response that asks for these calls, which all start."""
    parts = (
        TextPart(text=text or f"turn {number}"),
        *(ToolCall(id=call, name="t") for call in calls),
    )
    said = Message(
        id=f"msg_turn_{number}_{minute}", role="assistant", parts=parts, created_at=at(minute)
    )
    stop = StopReason.TOOL_USE if calls else StopReason.COMPLETE
    response = ModelResponded(
        at=at(minute), turn=number, attempt=1, message=said, usage=USED, stop_reason=stop
    )
    return [
        ModelRequested(at=at(minute), turn=number),
        response,
        *(begun(call, effect=effect) for call in calls),
    ]


def begun(call: str, *, attempt: int = 1, effect: Effect = "once") -> ToolStarted:
    return ToolStarted(
        at=AT,
        call_id=call,
        name="t",
        arguments_json="{}",
        effect=effect,
        key=f"k:{call}",
        attempt=attempt,
    )


def gives(call: str, text: str = "ok") -> ToolFinished:
    return ToolFinished(at=AT, status="ok", result=ToolResult(call_id=call, name="t", content=text))


def late(call: str, text: str = "it happened") -> ToolLate:
    return ToolLate(at=AT, call_id=call, text=text)


def steers(text: str) -> InputAdded:
    return InputAdded(at=AT, message=message(text), by="user")


def keeps(pinned: str, kept_from: str, dropped: int) -> Compaction:
    return Compaction(
        at=AT,
        receipt=encode_json(
            WindowReceipt(pinned=pinned, kept_from=kept_from, dropped=dropped)
        ).decode(),
    )


def resumed(fence: int, *, model: str = "m", mode: Mode = "full", cwd: str = "/") -> RunResumed:
    return RunResumed(
        at=AT, fence=fence, agent="a", agent_hash="h", model=model, mode=mode, cwd=cwd
    )


def finished(*, turns: int = 0, tool_calls: int = 0, minute: float = 0) -> RunFinished:
    usage = Usage(input_tokens=10 * turns, output_tokens=5 * turns)
    spending = (
        (
            Spending(
                model="m", day=AT.date().isoformat(), responses=turns, unpriced=turns, usage=usage
            ),
        )
        if turns
        else ()
    )
    return RunFinished(
        at=at(minute),
        outcome=Outcome.COMPLETED,
        turns=turns,
        tool_calls=tool_calls,
        usage=usage,
        spending=spending,
        duration_s=0.5,
    )


async def says(
    journal: Journal,
    run_id: str,
    text: str,
    answer: str,
    *,
    session: str | None = None,
    minute: float = 0,
    **more: Any,
) -> RunWriter:
    """A whole run: words and their answer."""
    writer = await journal.begin(started(run_id, text, session=session, minute=minute, **more))
    await writer.append([*answers(run_id, answer, minute=minute), finished(turns=1, minute=minute)])
    await writer.release()
    return writer


def answers(run_id: str, text: str, *, minute: float = 0) -> list[Entry]:
    """A turn without calls."""
    said = message(text, "assistant", message_id=f"msg_{run_id}_answer", minute=minute)
    return [
        ModelResponded(
            at=at(minute),
            turn=1,
            attempt=1,
            message=said,
            usage=USED,
            stop_reason=StopReason.COMPLETE,
        )
    ]


async def entries_of(journal: Journal, run_id: str = "run_1", *, after: int = 0) -> list[Entry]:
    return [record.entry for record in await journal.read(run_id, after=after)]


@contextlib.contextmanager
def refuses(kind: str, match: str = "run_1") -> Generator[None]:
    with pytest.raises(AgentError, match=match) as caught:
        yield
    assert caught.value.kind == kind
