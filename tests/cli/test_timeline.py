from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from msgspec import structs

from treadle._internal.terminal_text import columns
from treadle.cli.story import Story
from treadle.cli.terminal import Ink
from treadle.cli.timeline import Relations, timeline
from treadle.journal.entries import (
    ApprovalAnswered,
    ApprovalAsked,
    CancelAsked,
    Compaction,
    Entry,
    InputAdded,
    ModelRequested,
    ModelResponded,
    ModelSwitched,
    Record,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.run_info import RunStatus, info_of
from treadle.journal.view import View
from treadle.messages.events import ErrorInfo
from treadle.messages.message import Message, ReasoningPart, TextPart, ToolCall, ToolResult
from treadle.types import Outcome, StopReason, Usage

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def calls(*ids: str) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=call_id,
            name="charge" * 5,
            arguments_json='{"amount": 5, "card": "' + "x" * 90 + '"}',
        )
        for call_id in ids
    )


def given(call_id: str, text: str, *, unknown: bool = False) -> ToolResult:
    return ToolResult(
        call_id=call_id, name="charge", content=text, is_error=unknown, unknown=unknown
    )


def everything() -> list[Entry]:
    """A run in which all that can happen happens."""
    asking = Message.assistant(
        [
            ReasoningPart(text="hm " * 50),
            TextPart(text="I charge now. " * 40),
            *calls("c1", "c2", "c3"),
        ]
    )
    responded = {
        "attempt": 2,
        "usage": Usage(input_tokens=1200, output_tokens=50, cache_read_tokens=90_000),
        "stop_reason": StopReason.TOOL_USE,
    }
    resumed = {"agent": "a", "agent_hash": "h", "model": "m", "mode": "full", "cwd": "/elsewhere"}
    return [
        RunStarted(
            at=at(0),
            run_id="run_1",
            agent="a",
            agent_hash="h",
            model="m",
            mode="ask",
            cwd="/",
            input=Message.user("Charge.\n" * 30),
        ),
        Compaction(
            at=at(0), receipt='{"pinned": "a", "kept_from": "b", "dropped": 51, "kind": "window"}'
        ),
        InputAdded(at=at(0.1), message=Message.user("quickly, please"), by="user"),
        ModelRequested(at=at(0.2), turn=1),
        ModelRequested(
            at=at(1),
            turn=1,
            attempt=2,
            failed=ErrorInfo(
                kind="rate_limit", message="too much " * 40, status=529, request_id="req_9"
            ),
            wait_s=2.0,
        ),
        ModelResponded(at=at(5), turn=1, message=asking, **responded),  # pyright: ignore[reportArgumentType]  its types are those of the fields
        ApprovalAsked(
            at=at(5), call_id="c1", name="charge", arguments_json="{}", reason="needs approval"
        ),
        ToolStarted(
            at=at(5), call_id="c2", name="charge", arguments_json="{}", effect="once", key="k2"
        ),
        ToolStarted(
            at=at(5),
            call_id="c3",
            name="charge",
            arguments_json="{}",
            effect="idempotent",
            key="k3",
        ),
        ToolFinished(
            at=at(6), status="error", result=given("c3", "no such card " * 50), duration_ms=1000
        ),
        RunResumed(at=at(4000), fence=2, **resumed),  # pyright: ignore[reportArgumentType]  likewise
        ApprovalAnswered(at=at(4000), call_id="c1", decision="allow", by="user"),
        ToolStarted(
            at=at(4000), call_id="c1", name="charge", arguments_json="{}", effect="once", key="k1"
        ),
        ToolFinished(
            at=at(4001), status="unknown", result=given("c2", "Nobody knows.", unknown=True)
        ),
        ToolFinished(at=at(4002), status="ok", result=given("c1", "charged"), duration_ms=90_000),
        ToolLate(at=at(4003), call_id="c2", text="charged after all"),
        ModelSwitched(at=at(4004), model="other"),
        ModelRequested(at=at(4004), turn=2),
        RunResumed(at=at(300_000), fence=3, **resumed),  # pyright: ignore[reportArgumentType]  likewise
        ModelRequested(at=at(300_000), turn=2, attempt=2),
        CancelAsked(at=at(300_001), by="kill"),
        ModelResponded(
            at=at(300_001),
            turn=2,
            attempt=2,
            message=Message.assistant("I was ab"),
            usage=Usage(),
            stop_reason=None,
        ),
        RunFinished(
            at=at(300_001),
            outcome=Outcome.CANCELLED,
            turns=1,
            tool_calls=3,
            usage=Usage(),
            duration_s=12.0,
            error=ErrorInfo(kind="agent", message="broken " * 60, request_id="req"),
        ),
        ToolLate(at=at(300_002), call_id="c9", text="later still"),
    ]


def drawn(
    entries: Sequence[Entry], status: RunStatus, *, verbose: bool = False, colour: bool = False
) -> str:
    records = [Record(seq=seq, entry=entry) for seq, entry in enumerate(entries, 1)]
    lines = timeline(
        Story.of(records),
        info_of(entries, status),
        Relations(),
        clean=str,
        ink=Ink(colour=colour),
        verbose=verbose,
    )
    return "\n".join(lines)


@pytest.mark.parametrize("verbose", [False, True])
def test_every_beginning_of_a_run_is_drawn_in_a_hundred_columns(verbose: bool) -> None:
    entries = everything()
    for end in range(1, len(entries) + 1):
        for status in get_args(RunStatus):
            for line in drawn(entries[:end], status, verbose=verbose).splitlines():
                assert columns(line) <= 100


def test_the_whole_story_is_told_in_its_order() -> None:
    told = drawn(everything(), "finished")
    said = [
        "cancelled",
        "… 27 more lines",
        "driven for 12.0 s",
        "51 older messages",
        "> quickly, please",
        "turn 1",
        "model 2.0 s · 91.2k in (90.0k cached), 50 out",
        "attempt 1 failed, retried after 2.0 s: rate_limit 529 (request req_9)",
        "waiting for an answer",
        "✂ no result",
        "✗ 1.0 s",
        "no such card",
        "THE PROCESS STOPPED HERE · resumed 1:07 h later by driver 2",
        "now with mode full, directory /elsewhere",
        "turn 1, continued",
        "✓ 1:30 min",
        "Nobody knows.",
        "returned its result late: charged after all",
        "turn 2",
        "resumed 3.4 days later by driver 3",
        "turn 2, continued",
        "the response was lost when its process died",
        "I was ab",
        "✂ cut here",
        "cancellation requested by kill",
        "✗ cancelled",
    ]
    place = 0
    for words in said:
        place = told.find(words, place)
        assert place >= 0, (words, told)
        place += 1 if words in ("cancelled", "turn 1", "turn 2") else 0


def test_a_run_of_a_queue_tells_how_long_it_waited_and_not_of_a_stop() -> None:
    started = everything()[0]
    taken = RunResumed(at=at(3), fence=1, agent="a", agent_hash="h", model="m", mode="ask", cwd="/")
    (line,) = (
        line for line in drawn([started, taken], "running").splitlines() if "driver 1" in line
    )
    assert " waited 3.0 s for a worker · driver 1 takes it " in line
    again = RunResumed(at=at(9), fence=2, agent="a", agent_hash="h", model="m", mode="ask", cwd="/")
    assert drawn([started, taken, again], "running").count("THE PROCESS STOPPED HERE") == 1


def test_what_came_late_is_not_unknown_any_more() -> None:
    entries = everything()
    assert "1 call may or may not have taken effect: charge (c2)" in drawn(entries[:15], "stopped")
    assert "may or may not have taken effect:" not in drawn(entries[:16], "stopped")


def test_colours_are_there_only_where_they_are_wanted() -> None:
    assert "\x1b[" not in drawn(everything(), "finished")
    assert "\x1b[1;30;43m? UNKNOWN\x1b[0m" in drawn(everything(), "finished", colour=True)


@pytest.mark.parametrize(
    ("view", "line"),
    [
        (View(parts=((0, 1),)), "history= shows the model 1 message of the conversation"),
        (
            View(parts=((0, 2), Message.user("Summary."), (4, 7))),
            "history= shows the model 5 messages of the conversation and 1 message of its own",
        ),
    ],
)
def test_a_view_of_the_history_is_told_in_its_turn(view: View, line: str) -> None:
    entries = [
        structs.replace(entry, view=view)
        if isinstance(entry, ModelRequested) and (entry.turn, entry.attempt) == (1, 1)
        else entry
        for entry in everything()
    ]
    assert line in drawn(entries, "finished")
    assert "history=" not in drawn(everything(), "finished")
