"""What events become: whatever a run does, each call is told once, nothing is said twice or lost, and at the end nothing lives on."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles import agent, asks, call, fails, gives, open_runtime, says, watch
from tests.strategies import values_of
from tests.test_loop_properties import Bench, Case, cases, steps_of
from tests.tui.standing import THEME
from treadle import events
from treadle.events import Event
from treadle.tui.blocks import Answer, Block, Called, Notice, Said, Thought
from treadle.tui.drawing import Drawing
from treadle.tui.live import Live
from treadle.tui.transcript import Transcript

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
    stream = open_runtime().stream(agent(case.script, *bench.tools()), "go", session="s", mode=case.mode, **options)

    async def read() -> None:
        async with stream:
            async for event in stream:
                seen.append(event)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            steps_of(case, stream, group)
    holds(seen)


def holds(seen: list[Event]) -> None:
    transcript, answers, called = Transcript(), "", list[Called]()
    transcript.begin()
    for event in seen:
        blocks = transcript.apply(event)
        called += (block for block in blocks if isinstance(block, Called))
        if isinstance(event, events.ToolCallEnd):
            assert [type(block) for block in blocks] == [Called], "a call that ended is one block"
        if isinstance(event, events.Retry):
            answers = ""
        answers += "".join(block.source for block in blocks if isinstance(block, Answer))
        if isinstance(event, events.MessageAdded):
            assert words(answers) == words(event.message.text)
            answers = ""
    asked = sum(isinstance(event, events.ToolCallAsked) for event in seen)
    assert sum(block.status != "denied" for block in called) == sum(isinstance(event, events.ToolCallEnd) for event in seen)
    assert len(called) <= asked
    live = transcript.live
    live.context_tokens, live.cost_usd, live.cost_is_partial, live.todos = 0, None, False, ()
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
    (told,) = [block for block in folded(seen.events, transcript) if isinstance(block, Said | Notice)]
    assert isinstance(told, Notice)
    assert told.text.startswith("The model was told: ")


@pytest.mark.anyio
async def test_what_reached_the_run_stands_there_as_it_was_typed() -> None:
    transcript = Transcript()
    transcript.steered["all of a paste"] = "[pasted text #1, 20 lines]"
    seen = await watch([asks(call("look")), says("done")], gives("look"), while_running=lambda stream, event: _steers(stream, event))
    assert Said("[pasted text #1, 20 lines]", "while it works") in folded(seen.events, transcript)
    assert not transcript.steered


def _steers(stream: Any, event: Event) -> None:
    if isinstance(event, events.ToolCallStart):
        stream.steer("all of a paste")


@pytest.mark.anyio
async def test_an_answer_that_was_cut_begins_again_and_says_so() -> None:
    cut = {**fails("network"), "text": "A first paragraph.\n\nA second one, which is cut.\n\nAnd"}
    seen = await watch([cut, says("Whole.")])
    assert [type(block) for block in folded(seen.events)][-1] is Answer


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
    seen = await watch([asks(call("look")), says("done")], gives("look", "a\x1b[2Jb\x1b]0;title\x07c\x9b31md\u202ee\nsecond"))
    (called,) = [block for block in folded(seen.events) if isinstance(block, Called)]
    for full in (False, True):
        drawn = DRAWING.ansi(called.draw(DRAWING, full=full))
        assert "abcde" in drawn
        assert "second" in drawn
