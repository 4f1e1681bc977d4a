"""`ensure` and `step`: once for an id, whoever asks, however often, wherever it was cut."""

from __future__ import annotations

import difflib
from typing import Any

import anyio
import pytest

from tests.doubles import Gate, PlainTool, asks, call, open_runtime, says
from tests.loop.test_recovery import vanished
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent, AgentError, Runtime, ToolContext, ToolFailed
from treadle.journal.entries import RunStarted
from treadle.testing import ScriptedModel
from treadle.types import Outcome

pytestmark = pytest.mark.usefixtures("store")


def agent(*script: dict[str, Any], **fields: Any) -> Agent[Any, str]:
    return Agent(name="tester", model=ScriptedModel(list(script)), **fields)


async def test_it_starts_a_run_once_and_then_returns_its_result() -> None:
    rt, one = open_runtime(), agent(says("Done."))
    first = await rt.ensure(one, "go", run_id="order-7")
    again = await rt.ensure(one, "go", run_id="order-7")
    assert (first.text, again.text) == ("Done.", "Done.")
    assert len(await rt.journal.runs()) == 1


async def test_callers_at_the_same_time_share_one_run() -> None:
    gate, made = Gate(), list[str]()

    async def pays(ctx: ToolContext[Any], arguments: object) -> str:
        made.append(ctx.idempotency_key)
        await gate.stop()
        return "paid"

    one = agent(
        asks(call("pay", "a")),
        says("Paid."),
        tools=[PlainTool(name="pay", does=pays, effect="once")],
    )
    rt, results = open_runtime(), list[str]()

    async def ask() -> None:
        results.append((await rt.ensure(one, "go", run_id="order-7")).text)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(ask)
        await gate.reached.wait()
        gate.opened.set()
    assert results == ["Paid."] * 5
    assert len(made) == 1


async def test_wherever_it_was_cut_it_goes_on() -> None:
    def one() -> Agent[Any, str]:
        async def looks(ctx: ToolContext[Any], arguments: object) -> str:
            return "rain"

        return agent(
            asks(call("look", "a")),
            says("Rain."),
            tools=[PlainTool(name="look", does=looks, effect="pure")],
        )

    rt = open_runtime()
    await rt.ensure(one(), "go", run_id="order-7")
    entries = [record.entry for record in await rt.journal.read("order-7")]
    for count in range(1, len(entries) + 1):
        rt = await vanished(entries[:count])
        assert (await rt.ensure(one(), "go", run_id="order-7")).text == "Rain.", count


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"text": "stop"}, "another prompt ('go', not 'stop')"),
        (
            {"agent": Agent(name="other", model="test:echo")},
            "another agent ('tester', not 'other')",
        ),
        ({"session": "ada"}, "another session (None, not 'ada')"),
        ({"user_id": "bob"}, "another user ('ada', not 'bob')"),
    ],
)
async def test_an_id_that_names_something_else_is_refused(
    changed: dict[str, Any], what: str
) -> None:
    rt = open_runtime()
    asked: dict[str, Any] = {"agent": agent(says("Done.")), "text": "go", "user_id": "ada"}
    await rt.ensure(**asked, run_id="order-7")
    with pytest.raises(AgentError) as raised:
        await rt.ensure(**{**asked, **changed}, run_id="order-7")
    assert raised.value.message == f"run 'order-7' exists with {what}: use another run_id"


async def test_a_run_of_another_agent_is_not_resumed() -> None:
    rt, other = open_runtime(), Agent(name="other", model=ScriptedModel([says("No.")]))
    await rt.submit(agent(says("Done.")), "go", run_id="order-7")
    for finished in (False, True):
        with pytest.raises(AgentError) as raised:
            await rt.resume("order-7", other)
        assert raised.value.message == (
            "run order-7 is a run of agent 'tester', not 'other': pass that agent, or the id of "
            "another run"
        )
        if not finished:
            assert (await rt.ensure(agent(says("Done.")), "go", run_id="order-7")).text == "Done."


async def test_a_new_run_is_not_compared_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message about an unknown run names similar ids, at a cost that grows with their number."""
    compared = list[str]()
    monkeypatch.setattr(difflib, "get_close_matches", lambda word, *_, **__: compared.append(word))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    await open_runtime().ensure(agent(says("Done.")), "go", run_id="order-7")
    assert compared == []


async def test_it_needs_an_id() -> None:
    with pytest.raises(AgentError, match=r"ensure\(\) needs run_id="):
        await open_runtime().ensure(agent(says("Done.")), "go")


async def test_a_busy_session_is_an_error_and_not_a_wait() -> None:
    rt, gate = open_runtime(), Gate()

    async def waits(ctx: ToolContext[Any], arguments: object) -> str:
        await gate.stop()
        return ""

    slow = agent(
        asks(call("wait")), says("."), tools=[PlainTool(name="wait", does=waits, effect="pure")]
    )
    async with rt.stream(slow, "go", session="ada"):
        await gate.reached.wait()
        with anyio.fail_after(20), pytest.raises(AgentError) as raised:
            await rt.ensure(agent(says("Done.")), "go", run_id="order-7", session="ada")
        assert raised.value.kind == "busy"


# ---------------------------------------------------------------- steps


async def test_a_step_is_called_once_and_its_result_is_kept() -> None:
    rt, called = open_runtime(), list[int]()

    async def charge() -> dict[str, Any]:
        called.append(1)
        return {"receipt": [7, "euro", None]}

    first = await rt.step("order-7-charge", charge)
    assert first == {"receipt": [7, "euro", None]}
    assert await rt.step("order-7-charge", charge) == first
    assert called == [1]


@pytest.mark.parametrize("value", ["3", 3, None, True, [], {"value": 1}], ids=repr)
async def test_a_result_comes_back_as_what_it_was(value: object) -> None:
    rt = open_runtime()
    assert await rt.step("s", lambda: value) == value
    assert await rt.step("s", lambda: "other") == value


async def test_a_step_that_failed_stays_failed() -> None:
    rt, called = open_runtime(), list[int]()

    def fail() -> str:
        called.append(1)
        raise ToolFailed("the till is closed", happened=False)

    for _ in range(2):
        with pytest.raises(AgentError, match="step ended the run: the till is closed"):
            await rt.step("s", fail)
    assert called == [1]


async def test_an_exception_of_a_once_step_leaves_its_effect_open() -> None:
    def fail() -> str:
        raise ValueError("connection reset")

    with pytest.raises(AgentError, match=r"it is unknown whether step .* took effect: ValueError"):
        await open_runtime().step("s", fail)


@pytest.mark.parametrize("effect", ["once", "idempotent", "pure"])
async def test_a_step_that_was_cut_is_repeated_only_if_that_is_safe(effect: Any) -> None:
    rt = open_runtime()
    await rt.step("s", lambda: 1, effect=effect)
    entries = [record.entry for record in await rt.journal.read("s")]
    assert isinstance(entries[0], RunStarted)
    known = next(i for i, e in enumerate(entries, 1) if getattr(e, "done", None) is not None)
    started = next(i for i, e in enumerate(entries, 1) if type(e).__name__ == "ToolStarted")
    for count in range(1, len(entries) + 1):
        rt = await vanished(entries[:count])
        called: list[int] = []

        def again() -> int:
            called.append(1)  # noqa: B023  called in this round
            return 2

        if effect == "once" and started <= count < known:
            with pytest.raises(AgentError, match="it is unknown whether it took effect"):
                await rt.step("s", again, effect=effect)
            assert called == []
        else:
            assert await rt.step("s", again, effect=effect) == (1 if count >= known else 2)
            assert len(called) == (count < known)


async def test_a_workflow_of_agents_and_steps_goes_on_where_it_stopped() -> None:
    rt, sent = open_runtime(), list[str]()

    async def workflow(rt: Runtime) -> str:
        plan = await rt.ensure(agent(says("warp weft")), "Plan.", run_id="o-plan")
        notes = dict[str, str]()

        async def note(topic: str) -> None:
            notes[topic] = (
                await rt.ensure(agent(says(f"On {topic}.")), topic, run_id=f"o-{topic}")
            ).text

        async with anyio.create_task_group() as group:
            for topic in plan.text.split():
                group.start_soon(note, topic)
        text = " ".join(notes[topic] for topic in plan.text.split())
        await rt.step("o-send", lambda: sent.append(text))
        return text

    assert await workflow(rt) == await workflow(rt) == "On warp. On weft."
    assert sent == ["On warp. On weft."]
    assert {run.outcome for run in await rt.journal.runs()} == {Outcome.COMPLETED}
