"""Steering: what a person adds to a running run reaches its model at the next turn."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlayedModel,
    agent,
    asks,
    call,
    gives,
    kind_of,
    open_runtime,
    says,
    text,
    watch,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle.errors import AgentError
from treadle.messages import events
from treadle.messages.events import Event
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel
from treadle.types import Limits


def when(kind: type[Any], *words: str) -> Any:
    """Steers at the first event of this kind."""
    left = list(words)

    def hear(stream: Any, event: Event) -> None:
        if isinstance(event, kind):
            while left:
                stream.steer(left.pop(0))

    return hear


async def test_steering_reaches_the_model_at_its_next_turn() -> None:
    model = ScriptedModel([asks(call("look")), says("In Celsius, then.")])
    seen = await watch(
        model,
        gives("look"),
        while_running=when(events.ToolCallStart, "in Celsius, please", "and short"),
    )
    assert [m.text for m in model.requests[1].messages[-2:]] == ["in Celsius, please", "and short"]
    assert [event.text for event in seen.of(events.InputAdded)] == [
        "in Celsius, please",
        "and short",
    ]
    assert seen.entries.count("input.added") == 2
    assert [m.role for m in seen.result.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "user",
        "assistant",
    ]


async def test_steering_keeps_a_run_going_that_was_about_to_end() -> None:
    gate = Gate()
    model = PlayedModel([TextDelta("It is 70."), gate.stop, *text("")], text("It is 21."))
    rt = open_runtime()
    async with rt.stream(agent(model), "go") as stream:
        await gate.reached.wait()
        stream.steer("in Celsius")
        gate.opened.set()
        kinds = [kind_of(event) async for event in stream]
    assert stream.result.output == "It is 21."
    assert stream.result.turn_count == 2
    assert kinds[-1] == "run_end"


async def test_steering_in_the_last_turn_does_not_make_another() -> None:
    gate = Gate()
    model = PlayedModel([TextDelta("It is 70."), gate.stop, *text("")], text("never"))
    async with open_runtime().stream(agent(model), "go", limits=Limits(turns=1)) as stream:
        await gate.reached.wait()
        stream.steer("in Celsius")
        gate.opened.set()
        warnings = [event.text async for event in stream if isinstance(event, events.Warned)]
    assert (stream.result.outcome, stream.result.output, stream.result.turn_count) == (
        "completed",
        "It is 70.",
        1,
    )
    assert warnings == ["the run ended before its model could read: in Celsius"]


@pytest.mark.usefixtures("store")
async def test_what_came_too_late_for_the_model_is_said_to_the_person() -> None:
    gate = Gate()
    rt = open_runtime()
    async with rt.stream(agent(PlayedModel([gate.stop])), "go") as stream:
        await gate.reached.wait()
        stream.steer("hurry up")
        stream.cancel()
        warnings = [event.text async for event in stream if isinstance(event, events.Warned)]
    assert warnings == ["the run ended before its model could read: hurry up"]


async def test_steering_needs_words_and_a_run_that_is_not_over() -> None:
    rt = open_runtime()
    gate = Gate()
    session = rt.session("s", agent=agent(PlayedModel([gate.stop, *text("hi")])))
    stream = session.stream("go")
    with pytest.raises(AgentError, match="has not started"):
        stream.steer("too early")
    async with stream:
        for empty in ("", "  \n"):
            with pytest.raises(AgentError, match="empty"):
                stream.steer(empty)
            with pytest.raises(AgentError, match="empty"):
                session.steer(empty)
        gate.opened.set()
        async for _ in stream:
            pass
        with pytest.raises(AgentError, match="has ended"):
            stream.steer("too late")
    with pytest.raises(AgentError, match="no run is active"):
        session.steer("too late")


async def test_a_session_is_steered_from_any_thread() -> None:
    gate = Gate()
    rt = open_runtime()
    model = ScriptedModel([asks(call("gate")), says("done")])
    session = rt.session("s", agent=agent(model, gate.tool))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "go")
            await gate.reached.wait()
            await anyio.to_thread.run_sync(session.steer, "in Celsius")
            gate.opened.set()
    assert model.requests[1].messages[-1].text == "in Celsius"
