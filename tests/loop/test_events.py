"""Events: their order, their numbers, and what readers and subscribers get of them, however slow
they are.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.doubles import (
    PlainTool,
    PlayedModel,
    Seen,
    agent,
    asks,
    call,
    check_events,
    end,
    gives,
    kind_of,
    open_runtime,
    says,
    watch,
)
from treadle import ToolContext
from treadle.events import feed
from treadle.events.feed import EventStream
from treadle.events.hub import Missed, Subscription
from treadle.messages import events
from treadle.messages.events import Event
from treadle.models.model import ArgumentsDelta, PartEnd, ReasoningDelta, TextDelta, ToolCallStart
from treadle.testing import collect
from treadle.types import Limits


async def works() -> Seen:
    async def does(ctx: ToolContext[None], arguments: object) -> str:
        ctx.progress("half", 1, 2)
        return "seen"

    script = [
        asks(call("look", "a"), call("look", "b"), text="Let me look.", reasoning="I should look."),
        says("All is well."),
    ]
    return await watch(script, PlainTool(name="look", does=does, effect="pure"), session="s")


async def test_a_run_of_two_turns_has_its_events_in_this_order() -> None:
    seen = await works()
    assert seen.kinds == [
        "run_start",
        "turn_start",
        "reasoning_start",
        "reasoning_delta",
        "reasoning_end",
        "text_delta",
        *["tool_call_delta"] * 6,
        "usage",
        "message",
        "tool_call",
        "tool_call",
        "tool_call_start",
        "tool_call_start",
        "tool_progress",
        "tool_call_end",
        "tool_progress",
        "tool_call_end",
        "turn_end",
        "turn_start",
        "text_delta",
        "usage",
        "message",
        "turn_end",
        "output",
        "run_end",
    ]


async def test_every_event_says_whose_it_is_and_durable_ones_where_they_stand() -> None:
    seen = await works()
    assert {(event.run_id, event.session_id) for event in seen.events} == {
        (seen.result.run_id, "s")
    }
    assert [event.seq for event in seen.events] == list(range(1, len(seen.events) + 1))
    lossy = {
        "reasoning_start",
        "reasoning_delta",
        "reasoning_end",
        "text_delta",
        "tool_call_delta",
        "tool_progress",
    }
    assert {kind_of(event) for event in seen.events if not isinstance(event.id, str)} == lossy
    assert seen.events[0].id == "1.0"
    assert [event.id for event in seen.events if isinstance(event, events.ToolCallAsked)] == [
        "3.2",
        "3.3",
    ]


async def test_the_pieces_of_a_call_make_its_arguments() -> None:
    seen = await works()
    pieces = [event for event in seen.of(events.ToolCallDelta) if event.call_id == "a"]
    assert "".join(event.arguments for event in pieces) == "{}"
    assert {event.name for event in pieces} == {"look"}


async def test_the_usage_of_a_response_is_its_own_and_that_of_the_end_is_the_sum() -> None:
    seen = await works()
    assert [event.input_tokens for event in seen.of(events.UsageReported)] == [10, 10]
    assert seen.of(events.RunEnd)[0].usage.input_tokens == 20


async def test_the_end_carries_the_outcome_and_all_of_it() -> None:
    seen = await watch([{"error": {"kind": "auth", "status": 401}}])
    ended = seen.of(events.RunEnd)[0]
    assert (ended.outcome, ended.output, ended.validated) == ("error", None, False)
    assert (ended.error.kind, ended.error.status) == ("auth", 401)
    raised = seen.of(events.ErrorRaised)[0]
    assert (raised.kind, raised.status, raised.message) == ("auth", 401, ended.error.message)


# ---------------------------------------------------------------- slow readers


async def test_nothing_is_lost_on_a_slow_reader_and_deltas_are_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "STREAM_BUFFER", 20)
    words = [f"word{i} " for i in range(500)]
    thought = [ReasoningDelta(word) for word in words]
    pieces = [ArgumentsDelta(piece) for piece in ['{"a": "', *words, '"}']]
    wish = [ToolCallStart("c1", "look"), *pieces, PartEnd(), ToolCallStart("c2", "look"), *pieces]
    model = PlayedModel(
        [*thought, *(TextDelta(word) for word in words), *wish, end()], [TextDelta("done"), end()]
    )
    rt = open_runtime()
    with anyio.fail_after(20):
        async with rt.stream(agent(model, gives("look")), "go", session="s") as stream:
            while rt.is_busy("s"):
                await anyio.lowlevel.checkpoint()
            assert stream.result.success, "the run did not wait for its reader"
            seen = await collect(stream)
    check_events(seen)
    assert len(seen) < 60
    assert "".join(
        event.text for event in seen if isinstance(event, events.ReasoningDelta)
    ) == "".join(words)
    for call_id in ("c1", "c2"):
        arguments = "".join(
            event.arguments
            for event in seen
            if isinstance(event, events.ToolCallDelta) and event.call_id == call_id
        )
        assert arguments == '{"a": "' + "".join(words) + '"}'


async def test_a_stream_of_events_ends_when_it_is_closed_and_gives_what_was_waiting() -> None:
    stream, seen = EventStream(), list[Event]()
    rt = open_runtime()
    [first, *_] = (await watch([says("hi")], runtime=rt)).events

    async def read() -> None:
        async for event in stream:
            seen.append(event)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            stream.put(first)
            stream.put(first)
            await anyio.wait_all_tasks_blocked()
            assert seen == [first, first]
            stream.put(first)
            stream.close()
    assert seen == [first] * 3


# ---------------------------------------------------------------- the hub


async def subscribed(maxsize: int = 1000) -> tuple[list[Any], list[Any]]:
    """A run with tools, heard through the hub alone."""
    async with open_runtime() as rt:
        agents, tools = (
            rt.hub.agents.subscribe(maxsize=maxsize),
            rt.hub.tools.subscribe(maxsize=maxsize),
        )
        script = [asks(call("look", "a"), call("nope", "b")), says("All is well.")]
        result = await rt.run(
            agent(script, gives("look")), "go", mode="ask", limits=Limits(turns=2)
        )
        assert result.outcome == "approval_needed"
    return await collect(agents), await collect(tools)


async def test_subscribers_get_the_events_of_their_broker() -> None:
    agents, tools = await subscribed()
    assert {kind_of(event) for event in tools} == {
        "tool_call",
        "tool_call_end",
        "approval_requested",
        "approval_resolved",
    }
    assert [kind_of(event) for event in agents if not isinstance(event, events.ToolCallDelta)] == [
        "run_start",
        "turn_start",
        "usage",
        "message",
        "warning",
        "warning",
        "input_added",
        "turn_end",
        "turn_start",
        "limit_warning",
        "text_delta",
        "usage",
        "message",
        "turn_end",
        "run_end",
    ]
    numbers = sorted(event.seq for event in (*agents, *tools))
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_slow_subscriber_is_told_how_many_events_it_missed() -> None:
    everything, _ = await subscribed()
    some, _ = await subscribed(maxsize=3)
    assert [kind_of(event) for event in some[:3]] == [kind_of(event) for event in everything[:3]]
    assert some[3:] == [Missed(len(everything) - 3)]


async def test_a_subscriber_that_comes_late_or_leaves_early_gets_what_was_said_meanwhile() -> None:
    rt = open_runtime()
    late = list[Subscription]()

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        with rt.hub.agents.subscribe() as subscription:
            await anyio.lowlevel.checkpoint()
            late.append(subscription)
        return "ok"

    result = await rt.run(
        agent([asks(call("look")), says("done")], PlainTool(name="look", does=does)), "go"
    )
    assert result.success
    assert not rt.hub.heard
    [left] = late
    assert await collect(left) == []


async def test_a_call_that_does_not_start_has_an_end_with_the_reason() -> None:
    seen = await watch([asks(call("none", "k1")), says("So be it.")], gives("look"))
    (asked,) = [event for event in seen.events if isinstance(event, events.ToolCallAsked)]
    (refused,) = [event for event in seen.events if isinstance(event, events.ToolCallEnd)]
    (message, *_) = [event for event in seen.events if isinstance(event, events.MessageAdded)]
    assert asked.message_id == message.message.id
    assert (refused.call_id, refused.name, refused.is_error) == ("k1", "none", True)
    assert refused.refused
    assert "no tool" in str(refused.reason)
