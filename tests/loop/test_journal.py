"""The journal as a run uses it: the two barriers of a turn, what happens when it refuses, and what
it says afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    WatchedJournal,
    agent,
    asks,
    call,
    check_events,
    check_history,
    fails,
    gives,
    label,
    open_runtime,
    says,
    text,
    watch,
    wishes,
)
from treadle import ToolContext
from treadle._internal.uninterrupted import uninterrupted
from treadle.errors import AgentError, ErrorKind
from treadle.journal.entries import Entry, ModelResponded, RunFinished, RunStarted, ToolFinished
from treadle.loop import calls
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.result import RunResult
from treadle.runtime.session import RunOptions
from treadle.types import Limits


def notes(journal: WatchedJournal, name: str, **more: Any) -> PlainTool:
    """A tool that notes in the journal's log that it runs."""

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        journal.log.append(f"run {ctx.call_id}")
        await anyio.lowlevel.checkpoint()
        return "ok"

    return PlainTool(name=name, does=does, **more)


# ---------------------------------------------------------------- the barriers


async def test_a_call_runs_after_its_start_and_its_result_is_kept_before_the_next_request() -> None:
    journal = WatchedJournal()

    async def asked() -> None:
        journal.log.append("request")

    model = PlayedModel(
        [asked, *wishes(("c1", "look", "{}"), ("c2", "look", "{}"))], [asked, *text("done")]
    )
    await watch(model, notes(journal, "look"), runtime=open_runtime(journal=journal))
    assert journal.log == [
        "append model.requested",
        "request",
        "append model.responded tool.started:c1 tool.started:c2",
        "run c1",
        "run c2",
        "append tool.finished:c1:ok",
        "append tool.finished:c2:ok model.requested",
        "request",
        "append model.responded",
        "append run.finished",
    ]


async def test_a_call_that_waits_gets_its_start_right_before_it_starts() -> None:
    journal = WatchedJournal()
    wide, alone = notes(journal, "wide"), notes(journal, "alone", parallel=False)
    wanted = [
        call("wide", "a"),
        call("alone", "b"),
        call("alone", "c"),
        call("wide", "d"),
        call("wide", "e"),
    ]
    await watch([asks(*wanted), says("done")], wide, alone, runtime=open_runtime(journal=journal))
    assert journal.log[1:-2] == [
        "append model.responded tool.started:a",
        "run a",
        "append tool.finished:a:ok tool.started:b",
        "run b",
        "append tool.finished:b:ok tool.started:c",
        "run c",
        "append tool.finished:c:ok tool.started:d",
        "run d",
        "append tool.started:e",
        "run e",
        "append tool.finished:d:ok",
        "append tool.finished:e:ok model.requested",
    ]


async def test_a_call_beyond_the_cap_gets_its_start_right_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "MAX_PARALLEL", 1)
    journal = WatchedJournal()
    await watch(
        [asks(call("look", "a"), call("look", "b")), says("done")],
        notes(journal, "look"),
        runtime=open_runtime(journal=journal),
    )
    assert journal.log[1:5] == [
        "append model.responded tool.started:a",
        "run a",
        "append tool.finished:a:ok tool.started:b",
        "run b",
    ]


async def test_a_result_is_kept_at_once_while_others_still_run() -> None:
    journal, gate = WatchedJournal(), Gate("slow")

    async def open_then(entries: Sequence[Entry]) -> None:
        if "tool.finished:quick:ok" in map(label, entries):
            gate.opened.set()

    journal.at = open_then
    wanted = [call("quick", "quick"), call("slow", "slow")]
    seen = await watch(
        [asks(*wanted), says("done")],
        gives("quick"),
        gate.tool,
        runtime=open_runtime(journal=journal),
    )
    assert seen.outcome == "completed", (
        "the slow one was opened by the append of the quick one's result"
    )


async def test_no_call_runs_while_the_append_of_its_start_is_under_way() -> None:
    journal = WatchedJournal()
    held = Held(journal, "model.responded")
    rt = open_runtime(journal=journal)
    async with anyio.create_task_group() as group:
        group.start_soon(
            rt.run, agent([asks(call("look", "c1")), says("done")], notes(journal, "look")), "go"
        )
        await held.reached.wait()
        await anyio.wait_all_tasks_blocked()
        assert "run c1" not in journal.log
        held.opened.set()
    assert "run c1" in journal.log


class Held:
    """Holds the first append that has an entry of this label."""

    def __init__(self, journal: WatchedJournal, label: str) -> None:
        self._label = label
        self.reached = anyio.Event()
        self.opened = anyio.Event()
        journal.at = self._at

    async def _at(self, entries: Sequence[Entry]) -> None:
        if any(label(entry).startswith(self._label) for entry in entries):
            self.reached.set()
            await self.opened.wait()


async def test_events_come_after_the_append_and_in_the_order_of_the_entries() -> None:
    journal = WatchedJournal()
    first = Held(journal, "tool.finished:a")
    rt, seen = open_runtime(journal=journal), list[Event]()

    async def read() -> None:
        async with rt.stream(
            agent(
                [asks(call("look", "a"), call("look", "b"), call("look", "c")), says("done")],
                gives("look"),
            ),
            "go",
        ) as stream:
            async for event in stream:
                seen.append(event)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await first.reached.wait()
            await anyio.wait_all_tasks_blocked()
            early = [event for event in seen if isinstance(event, events.ToolCallEnd)]
            first.opened.set()
    assert not early
    check_events(seen)


# ---------------------------------------------------------------- known results survive cancellation


@pytest.mark.parametrize("label", ["model.responded", "tool.finished:c1"])
@pytest.mark.parametrize("native", [False, True])
async def test_an_append_that_is_under_way_ends_before_a_cancelled_run_does(
    label: str, native: bool
) -> None:
    journal = WatchedJournal()
    held, rt = Held(journal, label), open_runtime(journal=journal)
    wanted = [call("look", "c1"), call("gate", "c2")]
    one = agent([asks(*wanted)], gives("look"), Gate().tool)
    with anyio.fail_after(20):
        await _cancelled(lambda: rt.run(one, "go"), held, native=native)
    [started] = await journal.runs()
    entries = [record.entry for record in await journal.read(started.run_id)]
    assert isinstance(entries[-1], RunFinished)
    assert entries[-1].outcome == "cancelled"
    finished = {
        entry.result.call_id: entry.status for entry in entries if isinstance(entry, ToolFinished)
    }
    assert finished == (
        {"c1": "cancelled", "c2": "cancelled"}
        if label == "model.responded"
        else {"c1": "ok", "c2": "unknown"}
    )
    assert sum(isinstance(entry, ModelResponded) for entry in entries) == 1


async def test_a_call_whose_start_is_kept_while_the_run_is_cancelled_does_not_run() -> None:
    journal = WatchedJournal()
    held, rt = Held(journal, "model.responded"), open_runtime(journal=journal)
    one = agent([asks(call("look", "c1"))], notes(journal, "look"))
    with anyio.fail_after(20):
        await _cancelled(lambda: rt.run(one, "go", session="s"), held, native=False)
    assert "run c1" not in journal.log
    assert [r.text for m in await rt.messages("s") for r in m.tool_results] == [
        "Not run: The run was stopped."
    ]
    assert journal.log[-1] == "append tool.finished:c1:cancelled run.finished"


async def _cancelled(
    what: Callable[[], Coroutine[Any, Any, object]], held: Any, *, native: bool
) -> None:
    """Cancels it while the append is held, as an anyio scope does or as plain asyncio does, and
    lets the append go on.
    """
    if native:
        async with asyncio.TaskGroup() as group:  # what people have who do not use anyio
            task = group.create_task(what())
            await held.reached.wait()
            task.cancel()
            await anyio.wait_all_tasks_blocked()
            task.cancel()
            held.opened.set()
        return
    async with anyio.create_task_group() as group:
        group.start_soon(what)
        await held.reached.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        held.opened.set()


@pytest.mark.parametrize("native", [False, True])
async def test_a_run_that_is_cancelled_while_it_begins_has_begun_and_is_closed(
    native: bool,
) -> None:
    class Slow(WatchedJournal):
        def __init__(self) -> None:
            super().__init__()
            self.reached, self.opened = anyio.Event(), anyio.Event()

        async def begin(self, started: RunStarted, **found: Any) -> Any:
            writer = await super().begin(started, **found)
            self.reached.set()
            await uninterrupted(asyncio.get_running_loop().create_task(self._opened()))
            return writer

        async def _opened(self) -> None:
            await self.opened.wait()

    journal = Slow()
    rt = open_runtime(journal=journal)
    with anyio.fail_after(20):
        await _cancelled(lambda: rt.run(agent([says("never")]), "go"), journal, native=native)
    [started] = await journal.runs()
    assert [label(record.entry) for record in await journal.read(started.run_id)] == [
        "run.started",
        "run.finished",
    ]


# ---------------------------------------------------------------- a journal that refuses


def refuses(
    what: str, *, times: int = 1000, error: Exception | None = None
) -> Callable[[Sequence[Entry]], Awaitable[None]]:
    """Raises at every append from the first on that has an entry of this label, at most `times`
    times.
    """
    left, begun = times, False

    async def at(entries: Sequence[Entry]) -> None:
        nonlocal left, begun
        begun |= any(label(entry).startswith(what) for entry in entries)
        if begun and left > 0:
            left -= 1
            raise error or AgentError(
                "busy", "run is driven by somebody else: nothing was appended"
            )

    return at


async def tried(
    journal: WatchedJournal, *entries: dict[str, Any]
) -> tuple[RunResult[Any], list[Event]]:
    rt, seen = open_runtime(journal=journal), list[Event]()
    tools = notes(journal, "look"), notes(journal, "alone", parallel=False)
    async with rt.stream(agent(list(entries), *tools), "go", session="s") as stream:
        async for event in stream:
            seen.append(event)
    check_events(seen)
    check_history(stream.result.messages)
    check_history(await rt.messages("s"))
    return stream.result, seen


WISHES = asks(call("look", "a"), call("look", "b"), call("alone", "c"))


@pytest.mark.parametrize(
    "what",
    [
        "model.requested",
        "model.responded",
        "tool.finished:a",
        "tool.finished:b",
        "tool.started:c",
        "run.finished",
    ],
)
async def test_a_writer_that_lost_its_run_ends_it_in_an_error_and_leaves_a_valid_history(
    what: str,
) -> None:
    result, seen = await tried(WatchedJournal(at=refuses(what)), WISHES, says("done"))
    assert result.outcome == "error"
    assert result.error is not None
    assert result.error.kind is ErrorKind.BUSY
    assert not isinstance(seen[-1].id, str), "the journal does not have it"
    assert result.output is None


async def test_a_call_whose_start_was_refused_does_not_run_and_is_not_unknown() -> None:
    journal = WatchedJournal(at=refuses("model.responded"))
    result, _ = await tried(journal, WISHES)
    assert not [line for line in journal.log if line.startswith("run")]
    assert [r.unknown for m in result.messages for r in m.tool_results] == [False, False, False]


@pytest.mark.parametrize(
    "what", ["model.responded", "tool.finished:a", "tool.finished:b", "run.finished"]
)
async def test_what_a_writer_refused_once_is_offered_again_at_the_end(what: str) -> None:
    journal = WatchedJournal(at=refuses(what, times=1))
    result, seen = await tried(journal, WISHES, says("done"))
    assert result.outcome == "error"
    records = await journal.read(result.run_id)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    kinds = [label(record.entry) for record in records]
    if what == "run.finished":
        assert "run.finished" not in kinds, (
            "refused twice would be worse than once: the end is told to those who listen"
        )
        return
    assert kinds[-1] == "run.finished"
    assert kinds.count("model.responded") == 1
    started = [kind.split(":")[1] for kind in kinds if kind.startswith("tool.started")]
    finished = [kind.split(":")[1] for kind in kinds if kind.startswith("tool.finished")]
    assert sorted(finished) == ["a", "b", "c"]
    assert set(started) <= set(finished)
    assert [event.id for event in seen if isinstance(event.id, str)][-1].startswith(
        f"{records[-1].seq}."
    )


async def test_a_writer_that_refuses_the_result_of_one_call_stops_those_beside_it() -> None:
    journal, gate = WatchedJournal(at=refuses("tool.finished:a")), Gate("gate")
    rt = open_runtime(journal=journal)
    with anyio.fail_after(20):
        result = await rt.run(
            agent([asks(call("gate", "b"), call("look", "a"))], gives("look"), gate.tool), "go"
        )
    assert result.outcome == "error"
    assert [r.unknown for m in result.messages for r in m.tool_results] == [True, False]


async def test_a_journal_that_breaks_is_an_error_like_one_that_refuses() -> None:
    for what in ("model.responded", "tool.finished:a", "run.finished"):
        result, _ = await tried(
            WatchedJournal(at=refuses(what, error=OSError("the disk is full"))),
            WISHES,
            says("done"),
        )
        assert result.outcome == "error"
        assert result.error is not None
        assert "the disk is full" in result.error.message


async def test_a_journal_that_cannot_let_go_of_a_run_does_not_change_its_end() -> None:
    class Sticky(WatchedJournal):
        async def begin(self, started: RunStarted, **found: Any) -> Any:
            writer = await super().begin(started, **found)

            async def release(*, waiting: bool = False) -> None:
                raise OSError("stuck")

            writer.release = release
            return writer

    result = await open_runtime(journal=Sticky()).run(agent([says("hi")]), "go")
    assert result.outcome == "completed"


class Stuck(WatchedJournal):
    """Its store does not answer any more, from the first append on that has an entry of this label,
    or when the run is let go.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    async def begin(self, started: RunStarted, **found: Any) -> Any:
        writer = await super().begin(started, **found)
        append, release = writer.append, writer.release

        async def stuck_append(entries: Sequence[Entry]) -> int:
            if any(label(entry).startswith(self._what) for entry in entries):
                await anyio.sleep_forever()
            return await append(entries)

        async def stuck_release(*, waiting: bool = False) -> None:
            if self._what == "release":
                await anyio.sleep_forever()
            await release(waiting=waiting)

        writer.append, writer.release = stuck_append, stuck_release
        return writer


@pytest.mark.parametrize(("what", "outcome"), [("run.finished", "error"), ("release", "completed")])
async def test_a_journal_that_does_not_answer_holds_up_the_end_only_for_a_while(
    what: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.loop.outcome.GRACE_S", 0.01)
    rt, seen = open_runtime(journal=Stuck(what)), list[Event]()
    with anyio.fail_after(20):
        async with rt.stream(agent([says("hi")]), "go") as stream:
            async for event in stream:
                seen.append(event)
    check_events(seen)
    assert stream.result.outcome == outcome
    assert isinstance(seen[-1].id, str) == (what == "release"), (
        "what is stored is not said to be lost"
    )
    assert (
        stream.result.error is None
        or "the end of this run is not stored" in stream.result.error.message
    )


@pytest.mark.parametrize(
    "error", [AgentError("busy", "there is such a run already"), OSError("no disk")]
)
async def test_a_run_that_cannot_begin_raises_and_leaves_nothing_behind(error: Exception) -> None:
    class Closed(WatchedJournal):
        async def begin(self, started: RunStarted, **found: Any) -> Any:
            raise error

    rt = open_runtime(journal=Closed())
    session = rt.session("s", agent=agent([says("hi")]))
    with pytest.raises(AgentError, match=str(error)):
        await session.send("go")
    with pytest.raises(AgentError, match=str(error)):
        await session.send("go", on_event=print)
    assert not session.is_busy
    assert await session.history() == []


async def test_a_run_lets_go_of_its_journal_at_its_end() -> None:
    for entries in ([says("hi")], [fails("auth")]):
        rt = open_runtime(journal=(journal := WatchedJournal()))
        result = await rt.run(agent(entries), "go")
        with pytest.raises(AgentError, match="finished"):
            await journal.take_over(result.run_id)


# ---------------------------------------------------------------- what it says afterwards


@pytest.mark.parametrize(
    "script",
    [
        [says("hi", reasoning="hm")],
        [
            asks(call("look", "a"), call("nope", "b"), text="So.", reasoning="hm"),
            fails("network"),
            says("done"),
        ],
        [asks(call("send", "a"), call("look", "b")), says("I may not.")],
        [fails("auth", status=401)],
        [says("no", stop="refusal")],
        [says("", stop="complete"), says("yes")],
        [asks(call("look")), asks(call("look")), asks(call("look"))],
        [],
    ],
)
async def test_every_kind_of_run_can_be_read_back_as_the_events_it_had(
    script: list[dict[str, Any]],
) -> None:
    await watch(
        script, gives("look", effect="pure"), gives("send"), mode="ask", limits=Limits(turns=3)
    )


async def test_an_ended_run_says_how_it_began() -> None:
    rt = open_runtime()
    options = RunOptions(
        inputs={"a": "\ud83d 1"}, session="s", user_id="ada", mode="plan", limits=Limits(turns=7)
    )
    result = await rt.run(agent([says("hi")], instructions="${a}"), "go", **options)
    [record, *_] = await rt.journal.read(result.run_id)
    started = record.entry
    assert isinstance(started, RunStarted)
    assert (started.run_id, started.session_id, started.user_id, started.mode) == (
        result.run_id,
        "s",
        "ada",
        "plan",
    )
    assert (started.agent, started.model, started.limits, started.input.text) == (
        "tester",
        "script:inline",
        Limits(turns=7),
        "go",
    )
    assert started.inputs == '{"a":"\\ud83d 1"}'
    assert len(started.agent_hash) == 16
