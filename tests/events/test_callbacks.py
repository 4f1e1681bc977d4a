"""Callbacks: told of a run's events in their order, sync or async; the run neither waits for them
nor fails with them.
"""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlayedModel,
    agent,
    asks,
    call,
    fails,
    gives,
    kind_of,
    open_runtime,
    says,
    text,
)
from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.events.callbacks import Callbacks
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel

SCRIPT = [asks(call("look", "c1"), text="Let me look."), says("All is well.")]


async def test_callbacks_hear_text_calls_results_and_the_end_in_their_order() -> None:
    heard: list[str] = []
    callbacks = Callbacks(
        on_text_delta=lambda words: heard.append(words),
        on_tool_call=lambda asked: heard.append(f"call {asked.name}"),
        on_tool_result=lambda ended: heard.append(f"result {ended.result}"),
        on_complete=lambda result: heard.append(result.outcome.value),
        on_error=lambda error: heard.append("never"),
    )
    result = await open_runtime().run(agent(SCRIPT, gives("look")), "go", callbacks=callbacks)
    assert heard == ["Let me look.", "call look", "result ok", "All is well.", "completed"]
    assert result.output == "All is well."


async def test_what_an_agent_among_the_tools_says_is_not_the_runs_own_answer() -> None:
    heard: list[str] = []
    helper = Agent(name="helper", model=ScriptedModel([says("From below.")]))
    boss = Agent(
        name="boss",
        model=ScriptedModel([asks(call("helper", prompt="Go.")), says("From above.")]),
        tools=[helper],
    )
    await open_runtime().run(boss, "go", callbacks=Callbacks(on_text_delta=heard.append))
    assert heard == ["From above."]


async def test_async_callbacks_are_awaited_one_after_the_other() -> None:
    heard: list[str] = []

    async def hear(words: str) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(words)

    await open_runtime().run(
        agent(PlayedModel([TextDelta("a"), TextDelta("b"), *text("c")])),
        "go",
        callbacks=Callbacks(on_text_delta=hear),
    )
    assert heard == ["a", "b", "c"]


async def test_an_error_is_told_before_the_end() -> None:
    heard: list[str] = []
    callbacks = Callbacks(
        on_error=lambda error: heard.append(error.kind.value),
        on_complete=lambda result: heard.append(result.outcome.value),
    )
    await open_runtime().run(agent([fails("auth", status=401)]), "go", callbacks=callbacks)
    assert heard == ["auth", "error"]


async def test_a_callback_that_raises_is_logged_and_does_not_stop_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bad(heard: object) -> None:
        raise ZeroDivisionError("in a callback")

    async def worse(heard: object) -> None:
        raise ZeroDivisionError("in an async one")

    callbacks = Callbacks(
        on_text_delta=bad, on_tool_call=worse, on_tool_result=bad, on_complete=worse
    )
    with caplog.at_level(logging.ERROR, logger="treadle"):
        result = await open_runtime().run(
            agent(SCRIPT, gives("look")), "go", callbacks=callbacks, on_event=bad
        )
    assert result.outcome == "completed"
    assert "in a callback" in caplog.text
    assert "in an async one" in caplog.text


async def test_on_event_hears_every_event_and_may_be_async() -> None:
    kinds: list[str] = []

    async def hear(event: Any) -> None:
        await anyio.lowlevel.checkpoint()
        kinds.append(kind_of(event))

    await open_runtime().run(agent(SCRIPT, gives("look")), "go", on_event=hear)
    assert (kinds[0], kinds[-1]) == ("run_start", "run_end")
    assert kinds.count("turn_start") == kinds.count("turn_end") == 2


async def test_callbacks_of_which_only_some_are_there_hear_only_those() -> None:
    heard: list[str] = []
    result = await open_runtime().run(
        agent(SCRIPT, gives("look")),
        "go",
        callbacks=Callbacks(on_tool_call=lambda asked: heard.append(asked.name)),
    )
    assert (heard, result.outcome) == (["look"], "completed")
    assert (
        await open_runtime().run(agent([fails("auth")]), "go", callbacks=Callbacks())
    ).outcome == "error"


async def test_the_run_does_not_wait_for_a_callback_that_takes_its_time() -> None:
    gate, rt = Gate(), open_runtime()

    async def hear(words: str) -> None:
        await gate.stop()

    model = PlayedModel([TextDelta("slowly "), *text("heard")])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: rt.run(
                    agent(model), "go", session="s", callbacks=Callbacks(on_text_delta=hear)
                )
            )
            await gate.reached.wait()
            await anyio.wait_all_tasks_blocked()
            assert not rt.is_busy("s"), "the run is over"
            assert len(await rt.messages("s")) == 2
            gate.opened.set()


async def test_cancelling_the_task_that_awaits_a_callback_closes_the_run() -> None:
    gate, rt, slow = Gate(), open_runtime(), Gate()

    async def hear(words: str) -> None:
        await gate.stop()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            model = PlayedModel([TextDelta("Once"), slow.stop])
            group.start_soon(
                lambda: rt.run(
                    agent(model), "go", session="s", callbacks=Callbacks(on_text_delta=hear)
                )
            )
            await gate.reached.wait()
            group.cancel_scope.cancel()
    assert [m.text for m in await rt.messages("s")] == ["go", "Once"]


async def test_callbacks_of_a_stream_are_told_as_it_is_read() -> None:
    heard: list[str] = []
    callbacks = Callbacks(
        on_text_delta=heard.append, on_complete=lambda result: heard.append(result.outcome.value)
    )
    kinds: list[str] = []
    async with open_runtime().stream(
        agent(SCRIPT, gives("look")),
        "go",
        callbacks=callbacks,
        on_event=lambda event: kinds.append(kind_of(event)),
    ) as run:
        seen = [kind_of(event) async for event in run]
        assert heard == ["Let me look.", "All is well."]
    assert heard[-1] == "completed"
    assert kinds == seen


async def test_callbacks_of_a_stream_that_is_left_are_told_of_the_rest() -> None:
    heard: list[str] = []
    callbacks = Callbacks(
        on_text_delta=heard.append, on_complete=lambda result: heard.append(result.outcome.value)
    )
    model = PlayedModel([TextDelta("Once"), Gate().stop])

    async def leave() -> None:
        async with open_runtime().stream(agent(model), "go", callbacks=callbacks):
            await anyio.wait_all_tasks_blocked()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()
    assert heard == ["Once", "cancelled"]


async def test_callbacks_are_not_told_of_a_run_that_could_not_start() -> None:
    heard: list[object] = []
    callbacks = Callbacks(on_complete=heard.append, on_error=heard.append)
    with pytest.raises(AgentError):
        await open_runtime().run(agent([]), "", callbacks=callbacks)
    assert heard == []
