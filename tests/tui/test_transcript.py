"""What events become: whatever a run does, each call is told once, nothing is said twice or lost,
and at the end nothing lives on.
"""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from tests.doubles import agent, asks, call, fails, gives, open_runtime, says, watch
from tests.loop.test_costs import priced, used
from tests.loop.test_properties import Bench, Case, cases, steps_of
from tests.strategies import values_of
from tests.tools.test_subagent import make, seen_of
from tests.tui.standing import THEME
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.metrics import RunTotals
from treadle.tui.blocks import AnswerBlock, Block, CallBlock, NoticeBlock, PromptBlock, Thought
from treadle.tui.calling import calling
from treadle.tui.drawing import Drawing
from treadle.tui.live import Live
from treadle.tui.status import Status
from treadle.tui.theme import Theme
from treadle.tui.transcript import Transcript
from treadle.types import Outcome, Usage, now

DRAWING = Drawing(40, THEME)


def folded(seen: list[Event], transcript: Transcript | None = None) -> list[Block]:
    transcript = transcript or Transcript()
    return [block for event in seen for block in transcript.apply(event)]


def words(text: str) -> str:
    """What of it is drawn: pieces of blanks alone are not."""
    return "".join(text.split())


@settings(max_examples=150, deadline=None)
@given(case=cases)
def test_any_run_is_told_once_and_whole(case: Case) -> None:
    anyio.run(_is_told, case)


async def _is_told(case: Case) -> None:
    seen, bench = list[Event](), Bench()
    options: dict[str, Any] = {"limits": case.limits} if case.limits is not None else {}
    stream = open_runtime().stream(
        agent(case.script, *bench.tools()), "go", session="s", mode=case.mode, **options
    )

    async def read() -> None:
        async with stream:
            async for event in stream:
                seen.append(event)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            steps_of(case, stream, group)
    holds(seen)


def holds(seen: list[Event]) -> None:
    transcript, answers, called = Transcript(), "", list[CallBlock]()
    transcript.begin()
    for event in seen:
        blocks = transcript.apply(event)
        called += (block for block in blocks if isinstance(block, CallBlock))
        if isinstance(event, events.ToolCallEnd) and not event.refused:
            assert [type(block) for block in blocks] == [CallBlock], (
                "a call that ended is one block"
            )
        if isinstance(event, events.Retry):
            answers = ""
        answers += "".join(block.source for block in blocks if isinstance(block, AnswerBlock))
        if isinstance(event, events.MessageAdded):
            assert words(answers) == words(event.message.text)
            answers = ""
    asked = sum(isinstance(event, events.ToolCallAsked) for event in seen)
    assert sum(block.status != "denied" for block in called) == sum(
        isinstance(event, events.ToolCallEnd) and not event.refused for event in seen
    )
    assert len(called) <= asked
    live = transcript.live
    live.context_tokens, live.cost_usd, live.child_usd, live.cost_is_partial, live.todos = (
        0,
        None,
        None,
        False,
        (),
    )
    assert live == Live(), "nothing lives on"


any_events: st.SearchStrategy[list[Event]] = st.lists(values_of(Event), max_size=5)


@settings(max_examples=200, deadline=None)
@given(seen=any_events)
def test_events_in_any_order_with_anything_in_them_are_folded_and_drawn(seen: list[Event]) -> None:
    for block in folded(seen):
        for full in (False, True):
            DRAWING.ansi(block.draw(DRAWING, full=full))


@pytest.mark.anyio
async def test_words_of_the_runtime_to_the_model_are_not_the_persons() -> None:
    seen = await watch([says(""), says("done")])
    transcript = Transcript()
    (told,) = [
        block
        for block in folded(seen.events, transcript)
        if isinstance(block, PromptBlock | NoticeBlock)
    ]
    assert isinstance(told, NoticeBlock)
    assert told.text.startswith("Sent to the model: ")


@pytest.mark.anyio
async def test_what_reached_the_run_stands_there_as_it_was_typed() -> None:
    transcript = Transcript()
    transcript.steered["all of a paste"] = "[pasted text #1, 20 lines]"
    seen = await watch(
        [asks(call("look")), says("done")],
        gives("look"),
        while_running=lambda stream, event: _steers(stream, event),
    )
    assert PromptBlock("[pasted text #1, 20 lines]", "while it works") in folded(
        seen.events, transcript
    )
    assert not transcript.steered


def _steers(stream: Any, event: Event) -> None:
    if isinstance(event, events.ToolCallStart):
        stream.steer("all of a paste")


@pytest.mark.anyio
async def test_an_answer_that_was_cut_begins_again_and_says_so() -> None:
    cut = {**fails("network"), "text": "A first paragraph.\n\nA second one, which is cut.\n\nAnd"}
    seen = await watch([cut, says("Whole.")])
    assert [type(block) for block in folded(seen.events)][-1] is AnswerBlock


@pytest.mark.anyio
async def test_a_thought_is_one_line_and_its_words_are_whole() -> None:
    seen = await watch([says("done", reasoning="Let me think about everything that matters here.")])
    transcript, lines = Transcript(), list[str]()
    for event in seen.events:
        transcript.apply(event)
        lines.append(transcript.live.thought)
    assert "Let me think about everything that matters here." in lines
    (thought,) = [block for block in folded(seen.events) if isinstance(block, Thought)]
    assert thought.text == "Let me think about everything that matters here."


@pytest.mark.anyio
async def test_what_a_tool_gave_is_shown_and_not_obeyed() -> None:
    seen = await watch(
        [asks(call("look")), says("done")],
        gives("look", "a\x1b[2Jb\x1b]0;title\x07c\x9b31md\u202ee\nsecond"),
    )
    (called,) = [block for block in folded(seen.events) if isinstance(block, CallBlock)]
    for full in (False, True):
        drawn = DRAWING.ansi(called.draw(DRAWING, full=full))
        assert "abcde" in drawn
        assert "second" in drawn


@pytest.mark.parametrize(
    ("code", "mark"),
    [(0, "✓ Ran make"), (2, "✗ exit 2 · Ran make"), (137, "✗ exit 137 · Ran make")],
)
def test_a_command_shows_its_exit_code_in_its_first_line(code: int, mark: str) -> None:
    drawing = Drawing(40, Theme("dark", 8, True))
    text = "no such target\n[took 7 s]"
    block = CallBlock(
        call=calling("bash", {"command": "make " + "x" * 60}),
        name="bash",
        result=text,
        status="ok",
        seconds=7,
        exit_code=code,
    )
    first = drawing.ansi(block.draw(drawing)).splitlines()[0]
    assert re.sub(r"\x1b\[[0-9;]*m", "", first).startswith(mark)
    red = drawing.ansi(Text("✗ ", drawing.style("error"))).split("✗")[0]
    assert first.startswith(red) == bool(code)


@pytest.mark.parametrize("status", ["error", "unknown"])
def test_the_reason_of_a_failed_call_is_red(status: str) -> None:
    block = CallBlock(
        call=calling("bash", {"command": "sleep 60"}),
        name="bash",
        result="Timed out after 2 s (killed)\n(no output)",
        status=status,
        seconds=2,
    )
    drawing = Drawing(80, Theme("dark", 8, True))
    _, reason, rest = drawing.ansi(block.draw(drawing)).splitlines()[:3]
    red = drawing.ansi(Text("x", drawing.style("error"))).split("x")[0]
    assert f"{red}Timed out after 2 s (killed)" in reason
    assert red not in rest


def test_of_a_long_output_of_a_command_the_end_is_shown() -> None:
    text = "\n".join(
        ["warning: old", *(f"test {n} passed" for n in range(40)), "1 failed, 1 passed"]
    )
    drawn = DRAWING.ansi(
        CallBlock(
            call=calling("bash", {"command": "pytest"}),
            name="bash",
            result=text,
            status="ok",
            seconds=1,
            exit_code=1,
        ).draw(DRAWING)
    )
    assert "warning: old" in drawn
    assert "1 failed, 1 passed" in drawn
    assert "… 33 more lines (Ctrl-O)" in drawn


@pytest.mark.anyio
async def test_what_other_agents_spend_counts_and_is_told_apart() -> None:
    async with priced() as rt:
        helper = make("helper", [says("ok", usage=used(2, 3))])
        boss = make(
            "boss",
            [
                asks(call("helper", "h", prompt="x"), usage=used(1, 1)),
                says("done", usage=used(1, 1)),
            ],
            helper,
        )
        _, seen = await seen_of(rt, boss)
    transcript = Transcript()
    folded(seen, transcript)
    assert (transcript.live.cost_usd, transcript.live.child_usd) == (9.0, 5.0)
    status = Status(theme=DRAWING.theme, live=lambda: transcript.live)
    assert "$9.00 ($4.00 without agents called)" in "".join(part for _, part in status.line(200))


def test_an_end_by_a_limit_states_what_was_spent() -> None:
    total = RunTotals(runs=2, turns=9)
    end = events.RunEnd(
        run_id="run_1",
        session_id=None,
        seq=1,
        at=now(),
        outcome=Outcome.TURN_LIMIT,
        text="",
        output=None,
        validated=False,
        usage=Usage(),
        turns=1,
        tool_calls=0,
        duration_s=0,
        total=total,
    )
    (notice,) = folded([end])
    assert isinstance(notice, NoticeBlock)
    assert "Spent: 9 turns in 2 runs." in notice.text
