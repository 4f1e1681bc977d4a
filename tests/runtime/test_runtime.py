"""The runtime: opening and closing it, what a run is put together from, and the ways to run without
one.
"""

from __future__ import annotations

import gc
import json
import logging
import re
import threading
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import treadle
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
from treadle.agents.agent import Agent
from treadle.config import Config, load
from treadle.config.sections import Permissions
from treadle.errors import AgentError, ErrorKind
from treadle.journal.memory.journal import MemoryJournal
from treadle.loop.loop import Run
from treadle.messages import events
from treadle.messages.message import MediaPart
from treadle.runtime import closing_runs, runs
from treadle.runtime.runtime import Runtime
from treadle.testing import FakeClock, ScriptedModel
from treadle.tools.function import tool
from treadle.types import Limits, Settings


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The name of a model whose script stands in a file."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps([says("one"), says("two")]), encoding="utf-8")
    return f"script:{path}"


# ---------------------------------------------------------------- open and close


async def test_a_runtime_is_opened_in_memory() -> None:
    async with Runtime.open("memory:", config=Config()) as rt:
        assert (await rt.run(agent([says("hi")]), "go")).success
    async with Runtime.open(config=Config(), durability="power") as rt:
        assert (await rt.run(agent([says("hi")]), "go")).success


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///", "not a journal URL"),
        ("sqlite:a.db", "not a journal URL"),
        ("postgresql:h/d", "not a journal URL"),
        ("mongo://h", "not a journal URL"),
        ("", "not a journal URL"),
    ],
)
async def test_a_journal_that_cannot_be_opened_is_refused(url: str, words: str) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        Runtime.open(url)
    assert caught.value.kind is ErrorKind.INVALID


async def test_durability_is_one_of_two_words() -> None:
    with pytest.raises(AgentError, match="durability"):
        Runtime.open(durability="forever")  # pyright: ignore[reportArgumentType]  wrong on purpose


async def test_closing_stops_what_runs_and_a_closed_runtime_runs_nothing() -> None:
    rt, gate = open_runtime(), Gate()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(rt.run, agent([asks(call("gate"))], gate.tool), "go")
            await gate.reached.wait()
            await rt.aclose()
    await rt.aclose()
    for session in (None, "s"):
        with pytest.raises(AgentError, match="closed"):
            await rt.run(agent([says("hi")]), "go", session=session)


@pytest.mark.usefixtures("store")
async def test_closing_stops_a_run_that_was_entered_and_did_nothing_yet() -> None:
    rt = open_runtime(on_close="cancel")
    model = ScriptedModel([says("never")])
    async with rt.stream(agent(model), "go") as stream:
        await rt.aclose()
        assert stream.result.outcome == "cancelled"
    assert model.requests == []


async def test_closing_gives_abandoned_threads_a_grace_and_names_those_that_stay(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runs, "CLOSE_GRACE_S", 0.01)
    leave = threading.Event()

    @tool(timeout_s=0.2)
    def stubborn() -> str:
        """Does not look at the clock."""
        leave.wait(5)
        return "ok"

    with caplog.at_level(logging.WARNING, logger="treadle"):
        async with open_runtime() as rt:
            result = await rt.run(agent([asks(call("stubborn")), says("done")], stubborn), "go")
    leave.set()
    assert result.success
    assert "'stubborn'" in caplog.text


async def test_subscribers_are_told_that_the_runtime_is_closed() -> None:
    async with open_runtime() as rt:
        subscription = rt.hub.agents.subscribe()
    assert [event async for event in subscription] == []


async def test_a_run_that_is_over_is_gone_without_the_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[weakref.ref[Run]] = []

    class Watched(Run):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            made.append(weakref.ref(self))

    monkeypatch.setattr(runs, "Run", Watched)
    gc.disable()
    try:
        async with open_runtime() as rt:
            result = await rt.run(agent([asks(call("look")), says("done")], gives("look")), "go")
            assert result.success
            assert [run() for run in made] == [None]
    finally:
        gc.enable()


# ---------------------------------------------------------------- what a run is made of


@pytest.mark.parametrize(
    ("call_settings", "agent_settings", "environment", "expected"),
    [
        (None, None, None, 8192),
        (None, None, 700, 700),
        (None, 600, 700, 600),
        (500, 600, 700, 500),
    ],
)
async def test_settings_come_from_the_call_then_the_agent_then_the_configuration(
    call_settings: int | None, agent_settings: int | None, environment: int | None, expected: int
) -> None:
    config = load({}, files=False, flags={"--max-output-tokens": environment})
    model = ScriptedModel([says("hi")])
    one = agent(model, settings=Settings(max_tokens=agent_settings))
    await open_runtime(config=config).run(one, "go", settings=Settings(max_tokens=call_settings))
    assert model.requests[0].settings.max_tokens == expected


async def test_settings_of_all_layers_are_put_together() -> None:
    model = ScriptedModel([says("hi")])
    one = agent(model, settings=Settings(stop=("END",), temperature=0.2))
    config = load({}, files=False, flags={"--effort": "low"})
    await open_runtime(config=config).run(one, "go", settings=Settings(temperature=0.9))
    settings = model.requests[0].settings
    assert (settings.temperature, settings.stop, settings.effort, settings.max_tokens) == (
        0.9,
        ("END",),
        "low",
        8192,
    )


async def test_a_setting_that_the_model_refuses_is_an_error_where_the_call_gives_it() -> None:
    model = PlayedModel(text("hi"), refuses=frozenset({"temperature"}))
    with pytest.raises(AgentError, match="does not accept temperature") as caught:
        await open_runtime().run(agent(model), "go", settings=Settings(temperature=0.5))
    assert caught.value.kind is ErrorKind.INVALID
    assert model.requests == []


async def test_a_setting_that_the_model_refuses_is_left_out_with_one_warning_where_it_is_a_default() -> (
    None
):
    model = PlayedModel(text("hi"), refuses=frozenset({"temperature", "stop"}))
    rt = open_runtime()
    async with rt.stream(
        agent(model, settings=Settings(temperature=0.5, max_tokens=100)), "go"
    ) as stream:
        warnings = [event.text async for event in stream if isinstance(event, events.Warned)]
    assert warnings == ["played:model does not accept temperature: it was left out"]
    assert (model.requests[0].settings.temperature, model.requests[0].settings.max_tokens) == (
        None,
        100,
    )


async def test_a_model_by_name_goes_on_where_its_conversation_left_it(script: str) -> None:
    rt = open_runtime()
    assert [(await rt.run(agent(script), "go", session="s")).text for _ in range(2)] == [
        "one",
        "two",
    ]
    assert [(await rt.run(agent(script), "go")).text for _ in range(2)] == ["one", "one"]


async def test_an_agent_without_a_model_takes_the_large_one_of_the_configuration(
    script: str,
) -> None:
    config = load({"TREADLE_MODEL": script}, files=False)
    assert (await open_runtime(config=config).run(Agent(name="a"), "go")).text == "one"


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("anthropic:claude-opus-5-5", "auth"),
        ("nope:model", "invalid"),
        ("script:/no/such/file", "invalid"),
    ],
)
async def test_a_model_that_cannot_be_had_is_said_before_the_run_starts(
    model: str, kind: str
) -> None:
    rt = open_runtime()
    with pytest.raises(AgentError) as caught:
        await rt.run(agent(model), "go", session="s")
    assert caught.value.kind == kind
    assert not rt.is_busy("s")


async def test_inputs_fill_the_instructions_and_are_checked_before_the_run_starts() -> None:
    model = ScriptedModel([says("hi")])
    one = agent(model, instructions="You advise ${who}.")
    with pytest.raises(AgentError, match="who"):
        await open_runtime().run(one, "go")
    await open_runtime().run(one, "go", inputs={"who": "Ada"})
    assert model.requests[0].system[0].text == "You advise Ada."


async def test_a_run_works_in_the_directory_it_is_given_or_in_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    async def does(ctx: treadle.ToolContext[None], arguments: object) -> str:
        seen.append(ctx.cwd)
        return "ok"

    one = gives("where")
    one.does = does
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    await watch([asks(call("where")), says("done")], one)
    await watch([asks(call("where")), says("done")], one, cwd="sub")
    assert seen == [tmp_path.resolve(), (tmp_path / "sub").resolve()]
    with pytest.raises(AgentError, match="not a directory"):
        await open_runtime().run(agent([says("hi")]), "go", cwd=tmp_path / "none")


@pytest.mark.parametrize(
    "options", [{"mode": "yolo"}, {"limit": 3}, {"on_approval": 3}, {"on_approvals": print}]
)
async def test_an_option_that_there_is_not_is_refused_and_not_ignored(
    options: dict[str, Any],
) -> None:
    with pytest.raises(AgentError, match=next(iter(options))) as caught:
        await open_runtime().run(agent([says("hi")]), "go", **options)
    assert caught.value.kind is ErrorKind.INVALID


OF_A_RUN: dict[str, Callable[[Runtime, str], Awaitable[object]]] = {
    "resume": lambda rt, run_id: rt.resume(run_id, agent([])),
    "replay": Runtime.replay,
    "events": Runtime.events,
    "fork": lambda rt, run_id: rt.fork(run_id, turn=0, agent=agent([])),
    "diff": lambda rt, run_id: rt.diff(run_id, run_id),
    "kill": Runtime.kill,
}


@pytest.mark.parametrize("what", OF_A_RUN)
async def test_of_a_run_that_there_is_not_the_nearest_ids_are_said(what: str) -> None:
    rt = open_runtime()
    known = (await rt.run(agent([says("hi")]), "go")).run_id
    with pytest.raises(
        AgentError, match=f"unknown run '{known[:-1]}'. Did you mean {known}"
    ) as caught:
        await OF_A_RUN[what](rt, known[:-1])
    assert caught.value.kind is ErrorKind.INVALID
    with pytest.raises(AgentError, match="List the runs with `treadle runs list`"):
        await OF_A_RUN[what](rt, "")


async def test_the_events_of_a_run_can_be_read_again_out_of_its_journal() -> None:
    rt = open_runtime()
    seen = await watch(
        [asks(call("look", "a"), call("nope", "b"), text="So."), says("done")],
        gives("look"),
        runtime=rt,
        session="s",
    )
    again = await rt.events(seen.result.run_id)
    durable = [event for event in seen.events if isinstance(event.id, str)]
    assert [(type(event), event.id, event.session_id, event.run_id) for event in again] == [
        (type(event), event.id, "s", event.run_id) for event in durable
    ]
    for one, other in zip(again, durable, strict=True):
        changed = {"seq": 0, "at": one.at}
        assert msgspec.structs.replace(one, **changed) == msgspec.structs.replace(other, **changed)


async def test_a_fork_can_be_watched_too() -> None:
    rt = open_runtime()
    origin = await rt.run(agent([says("hi")]), "go")
    async with rt.fork_stream(
        origin.run_id, turn=1, text="And?", agent=agent([says("ho")])
    ) as stream:
        kinds = [kind_of(event) async for event in stream]
    assert (kinds[0], kinds[-1], stream.result.text) == ("run_start", "run_end", "ho")


async def test_a_driver_that_does_not_answer_keeps_its_run_unless_it_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Deaf(MemoryJournal):
        """The process that drives the run is paused: it is asked, and hears nothing."""

        async def ask_to_stop(self, run_id: str) -> bool:
            return True

    monkeypatch.setattr(closing_runs, "STOP_GRACE_S", 0.01)
    gate, rt = Gate(), open_runtime(journal=Deaf())
    async with rt.stream(agent([asks(call("gate"))], gate.tool), "go") as stream:
        await gate.reached.wait()
        with pytest.raises(AgentError, match=r"does not answer.* --force") as caught:
            await rt.kill(stream.run_id)
        assert caught.value.kind is ErrorKind.BUSY
        assert (await rt.kill(stream.run_id, force=True)).outcome == "cancelled"


async def test_somebody_who_asks_to_stop_a_run_that_is_over_disturbs_nobody() -> None:
    journal = MemoryJournal()
    rt = open_runtime(journal=journal)
    result = await rt.run(agent([says("hi")]), "go")
    assert not await journal.ask_to_stop(result.run_id)
    rt._runs._stop(result.run_id)  # pyright: ignore[reportPrivateUsage]  the moment between a run's end and the question


async def test_without_a_mode_everything_is_allowed() -> None:
    assert (await watch([asks(call("send")), says("done")], gives("send"))).results == ["ok"]


async def test_no_key_of_a_provider_stands_in_a_tools_environment() -> None:
    known: list[Any] = []

    async def does(ctx: treadle.ToolContext[None], arguments: object) -> str:
        known.append(ctx.environment)
        return "ok"

    one = gives("look")
    one.does = does
    config = load({"ANTHROPIC_API_KEY": "sk-ant-api03-CANARY-0815-4711"}, files=False)
    await watch([asks(call("look")), says("done")], one, runtime=open_runtime(config=config))
    assert "ANTHROPIC_API_KEY" not in known[0]
    assert "CANARY" not in repr(known)


async def test_credentials_can_be_replaced_and_the_new_ones_are_kept_secret_too() -> None:
    rt = open_runtime()
    await rt.run(agent([says("hi")]), "go", session="s")
    rt.set_credentials("anthropic", api_key="sk-ant-api03-CANARY-second-one")
    assert rt.redact("use sk-ant-api03-CANARY-second-one") == "use [redacted]"
    assert len(await rt.messages("s")) == 2
    with pytest.raises(AgentError):
        rt.set_credentials("nope", api_key="sk-ant-api03-CANARY-third-one")


async def test_a_new_key_loses_no_rule_of_a_configuration_made_in_python() -> None:
    rt = open_runtime(config=Config(permissions=Permissions(deny=("wipe",))))
    rt.set_credentials("anthropic", api_key="sk-ant-api03-CANARY-second-one")
    result = await rt.run(
        agent([asks(call("wipe")), says("done")], gives("wipe", "WIPED")), "go", mode="full"
    )
    assert [one.text for message in result.messages for one in message.tool_results] == [
        "Not run: the rule 'wipe' denies wipe."
    ]


async def test_many_runs_at_once_do_not_disturb_each_other() -> None:
    rt, outputs = open_runtime(), dict[int, str]()

    async def drive(i: int) -> None:
        result = await rt.run(
            agent([asks(call("look", at=i)), says(f"answer {i}")], gives("look")), f"question {i}"
        )
        outputs[i] = result.text

    async with anyio.create_task_group() as group:
        for i in range(100):
            group.start_soon(drive, i)
    assert outputs == {i: f"answer {i}" for i in range(100)}


async def test_a_journal_and_a_clock_can_be_handed_in() -> None:
    journal = MemoryJournal()
    async with Runtime(config=Config(), journal=journal, clock=FakeClock()) as rt:
        result = await rt.run(agent([says("hi")]), "go")
        assert [entry.run_id for entry in await journal.runs()] == [result.run_id]


# ---------------------------------------------------------------- without a runtime


async def test_one_run_needs_no_runtime() -> None:
    result = await treadle.run(agent([says("hi")]), "go", limits=Limits(turns=3))
    assert result.unwrap() == "hi"


def test_one_run_needs_no_event_loop() -> None:
    assert treadle.run_sync(agent([says("hi")]), "go").unwrap() == "hi"
    with pytest.raises(AgentError, match="empty") as caught:
        treadle.run_sync(agent([]), "")
    assert caught.value.__context__ is None


async def test_run_sync_inside_a_loop_says_why_it_cannot() -> None:
    with pytest.raises(AgentError, match="await treadle") as caught:
        treadle.run_sync(agent([says("hi")]), "go")
    assert caught.value.kind is ErrorKind.INVALID


# ---------------------------------------------------------------- left, to be resumed


async def test_a_run_that_is_let_go_is_stopped_and_not_cancelled_and_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    gate, url = Gate(effect="idempotent"), f"sqlite:///{tmp_path}/journal.db"
    worker = agent([asks(call("gate")), says("done")], gate.tool)
    with anyio.fail_after(20):
        async with Runtime.open(url) as rt, anyio.create_task_group() as group:
            stream = rt.stream(worker, "go")

            async def follow() -> None:
                async with stream as run:
                    async for _ in run:
                        pass

            group.start_soon(follow)
            await gate.reached.wait()
            rt.let_go()
    with pytest.raises(AgentError, match="resume it"):
        _ = stream.result
    gate.opened.set()
    async with Runtime.open(url) as rt:
        assert (await rt.journal.info(stream.run_id)).status == "stopped"
        assert (await rt.resume(stream.run_id, worker)).text == "done"


@pytest.mark.usefixtures("store")
async def test_a_run_that_is_awaited_can_be_cancelled_by_its_id_and_gives_its_result() -> None:
    gate, ends = Gate(), list[str]()

    async def drive(rt: Runtime) -> None:
        ends.append(
            (
                await rt.run(agent([asks(call("gate"))], gate.tool), "go", run_id="mine")
            ).outcome.value
        )

    async with open_runtime() as rt:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(drive, rt)
                await gate.reached.wait()
                assert rt.cancel(run_id="mine")
        assert not rt.cancel(run_id="mine")
        with pytest.raises(AgentError, match="pass one of them"):
            rt.cancel()
    assert ends == ["cancelled"]


@pytest.mark.usefixtures("store")
async def test_who_cancelled_a_run_before_it_is_let_go_gets_its_end() -> None:
    rt, gate = open_runtime(), Gate()
    with anyio.fail_after(20):
        async with rt.stream(agent([asks(call("gate"))], gate.tool), "go") as run:
            await gate.reached.wait()
            run.cancel()
            rt.let_go()
        assert run.result.outcome == "cancelled"
    await rt.aclose()


# ---------------------------------------------------------------- runs without a runtime


@pytest.mark.parametrize(
    "options",
    [{"session": "ada"}, {"on_ask": "wait"}, {"on_unknown": "wait"}],
    ids=lambda options: next(iter(options)),
)
def test_what_a_run_in_memory_would_forget_is_refused(options: dict[str, Any]) -> None:
    async def awaited() -> None:
        await treadle.run(agent([says("hi")]), "hi", **options)

    for way in (
        partial(treadle.run_sync, agent([says("hi")]), "hi", **options),
        partial(anyio.run, awaited),
    ):
        with pytest.raises(
            AgentError,
            match=f"{next(iter(options))}=.* would be forgotten.*journal='sqlite:///runs.db'",
        ) as refused:
            way()
        assert refused.value.kind == "invalid"


def test_a_run_from_code_without_an_event_loop_keeps_its_session_in_a_journal(
    tmp_path: Path,
) -> None:
    model, url = ScriptedModel([says("one"), says("two")]), f"sqlite:///{tmp_path}/runs.db"
    for prompt in ("first", "second"):
        treadle.run_sync(agent(model), prompt, session="ada", journal=url)
    assert [message.text for message in model.requests[1].messages] == ["first", "one", "second"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"media_type": "png", "data": "QUJD"},
            "media_type='png' of a MediaPart is not a media type: write one like 'image/png'",
        ),
        (
            {"media_type": "image/png", "data": b"QUJD"},
            "data= of a MediaPart (image/png) is base64 text, not bytes",
        ),
        (
            {"media_type": "image/png", "data": "not base64!!"},
            "data= of a MediaPart (image/png) is not base64",
        ),
    ],
)
async def test_a_file_that_no_model_could_read_is_refused_before_the_run(
    fields: dict[str, Any], why: str
) -> None:
    async with open_runtime() as rt:
        with pytest.raises(AgentError, match=re.escape(why)):
            await rt.run(agent(ScriptedModel([{"text": "ok"}])), [MediaPart(**fields)])


async def test_a_run_that_is_cancelled_while_it_is_prepared_does_not_begin(tmp_path: Path) -> None:
    """What has begun would have to end as cancelled, for whoever resumes it too."""
    scope = anyio.CancelScope()

    def instructions(_: object) -> str:
        scope.cancel()
        return "Be brief."

    async with Runtime.open(f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        with scope:
            await runtime.run(agent(ScriptedModel([]), instructions=instructions), "go", run_id="r")
        assert scope.cancelled_caught
        assert await runtime.journal.runs() == []


async def test_a_fork_that_is_cancelled_while_it_is_prepared_does_not_begin(tmp_path: Path) -> None:
    """Nor does its session, which the caller could not find, remain."""
    scope = anyio.CancelScope()

    class Hesitant(ScriptedModel):
        def notes(self, _: Settings) -> tuple[str, ...]:
            scope.cancel()
            return ()

    async with Runtime.open(f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        await runtime.run(agent([says("done")]), "go", run_id="r", session="talk")
        with scope:
            await runtime.fork("r", turn=1, text="And?", agent=agent(Hesitant([])))
        assert scope.cancelled_caught
        assert [run.run_id for run in await runtime.journal.runs()] == ["r"]
        assert [session.id for session in runtime.journal.sessions.list()] == ["talk"]
