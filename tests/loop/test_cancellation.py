"""Stopping a run, at any await and in every way: the history is valid, what is known is kept, and
nothing stays behind.

Over memory, SQLite and PostgreSQL, except for the tests that stop a run at every step of the event
loop (the threads of a database take no fixed number of steps) and those with a journal of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
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
    check,
    check_history,
    gives,
    kind_of,
    label,
    open_runtime,
    says,
    text,
    watch,
    wishes,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import ToolContext
from treadle._internal.clock import Clock
from treadle.errors import AgentError
from treadle.journal.entries import CancelAsked, Entry, RunStarted, ToolStarted
from treadle.journal.journal import RunWriter
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.queue import QueuePlace
from treadle.messages import events
from treadle.messages.events import Event
from treadle.models.model import ArgumentsDelta, ReasoningDelta, TextDelta, ToolCallStart
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.types import Effect


@dataclass
class Driven:
    """A run that another task drives, and how it ended."""

    runtime: Runtime
    model: Any
    tools: tuple[Any, ...] = ()
    seen: list[Event] = field(default_factory=list[Event])
    stream: RunStream[Any] | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    leave: anyio.Event = field(default_factory=anyio.Event)

    async def drive(self) -> None:
        with self.scope:
            async with (
                self.runtime.stream(
                    agent(self.model, *self.tools), "go", session="s"
                ) as self.stream,
                anyio.create_task_group() as group,
            ):
                group.start_soon(self._leave, group.cancel_scope)
                async for event in self.stream:
                    self.seen.append(event)
                group.cancel_scope.cancel()

    async def _leave(self, scope: anyio.CancelScope) -> None:
        await self.leave.wait()
        scope.cancel()


Way = Callable[[Driven], Awaitable[object]]


async def by_stream(run: Driven) -> None:
    assert run.stream is not None
    run.stream.cancel()
    run.stream.cancel()


async def by_session(run: Driven) -> None:
    assert run.runtime.session("s", agent=agent([])).cancel()


async def by_another_thread(run: Driven) -> None:
    session = run.runtime.session("s", agent=agent([]))
    assert await anyio.to_thread.run_sync(session.cancel)


async def by_the_awaiting_task(run: Driven) -> None:
    run.scope.cancel()


async def by_leaving_the_block(run: Driven) -> None:
    run.leave.set()


async def by_closing_the_runtime(run: Driven) -> None:
    await run.runtime.aclose()


WAYS: list[Way] = [
    by_stream,
    by_session,
    by_another_thread,
    by_the_awaiting_task,
    by_leaving_the_block,
    by_closing_the_runtime,
]
LOUD = (by_stream, by_session, by_another_thread, by_closing_the_runtime)
"""After these the reader still reads the end."""


async def stopped(
    model: Any, *tools: Any, at: anyio.Event, way: Way = by_stream, clock: Clock | None = None
) -> Driven:
    """Runs, stops it in this way once `at` is set, and checks what must hold."""
    rt = open_runtime(on_close="cancel", **({} if clock is None else {"clock": clock}))
    before = len(anyio.get_running_tasks())
    run = Driven(rt, model, tools)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(run.drive)
            await at.wait()
            await anyio.wait_all_tasks_blocked()
            await way(run)
    assert len(anyio.get_running_tasks()) == before
    assert run.stream is not None
    result = run.stream.result
    assert result.outcome == "cancelled"
    check_history(result.messages)
    if way is not by_closing_the_runtime:
        assert await rt.messages("s") == result.messages, "the session has what the run had"
    assert not rt.is_busy("s")
    if way in LOUD:
        assert kind_of(run.seen[-1]) == "run_end"
    if way in LOUD and way is not by_closing_the_runtime:
        check(result, run.seen, await rt.journal.read(run.stream.run_id))
    return run


def results(run: Driven) -> dict[str, str]:
    assert run.stream is not None
    return {r.call_id: r.text for m in run.stream.result.messages for r in m.tool_results}


def unknown(run: Driven) -> list[str]:
    assert run.stream is not None
    return [r.call_id for m in run.stream.result.messages for r in m.tool_results if r.unknown]


# ---------------------------------------------------------------- where


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("way", WAYS)
async def test_while_the_model_speaks_its_words_are_kept_and_its_stream_is_closed(way: Way) -> None:
    gate = Gate()
    model = PlayedModel(
        [ReasoningDelta("Hm."), TextDelta("Once upon"), TextDelta(" a time"), gate.stop]
    )
    run = await stopped(model, at=gate.reached, way=way)
    assert run.stream is not None
    assert run.stream.result.text == "Once upon a time"
    assert model.open == 0
    assert run.stream.result.metrics.invocations == 1


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("way", WAYS)
async def test_in_a_tool_a_call_that_may_have_happened_is_unknown(way: Way) -> None:
    gate = Gate("send")
    run = await stopped([asks(call("send", "c1"))], gate.tool, at=gate.reached, way=way)
    assert unknown(run) == ["c1"]
    assert "It may or may not have taken effect" in results(run)["c1"]


@pytest.mark.usefixtures("store")
async def test_in_a_tool_that_may_be_repeated_the_call_is_cancelled() -> None:
    effects: list[Effect] = ["pure", "idempotent"]
    for effect in effects:
        gate = Gate("send", effect=effect)
        run = await stopped([asks(call("send", "c1"))], gate.tool, at=gate.reached)
        assert unknown(run) == []
        assert "it may be repeated" in results(run)["c1"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("way", WAYS)
async def test_among_parallel_calls_what_is_known_is_kept(way: Way) -> None:
    gate = Gate("send")
    run = await stopped(
        [asks(call("look", "c1"), call("send", "c2"), call("look", "c3"))],
        gives("look"),
        gate.tool,
        at=gate.reached,
        way=way,
    )
    assert unknown(run) == ["c2"]
    assert (results(run)["c1"], results(run)["c3"]) == ("ok", "ok")


@pytest.mark.usefixtures("store")
async def test_among_sequential_calls_those_that_did_not_start_were_not_run() -> None:
    gate = Gate("send", parallel=False)
    run = await stopped(
        [asks(call("look", "c1"), call("send", "c2"), call("look", "c3"), call("send", "c4"))],
        gives("look"),
        gate.tool,
        at=gate.reached,
    )
    assert unknown(run) == ["c2"]
    assert results(run)["c1"] == "ok"
    assert results(run)["c3"] == results(run)["c4"] == "Not run: The run was stopped."
    assert run.stream is not None
    assert run.stream.result.metrics.tool_calls == 2


class Waiting(Clock):
    """A clock on which a wait never ends."""

    def __init__(self) -> None:
        self.waits = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        self.waits.set()
        await anyio.sleep_forever()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("way", WAYS)
async def test_in_a_backoff_the_words_of_the_failed_attempt_are_void(way: Way) -> None:
    clock = Waiting()
    model = PlayedModel([TextDelta("Half an"), AgentError("network", "cut")], text("never"))
    run = await stopped(model, at=clock.waits, way=way, clock=clock)
    assert run.stream is not None
    assert run.stream.result.text == ""
    assert run.stream.result.metrics.invocations == 1


async def test_in_the_middle_of_a_call_the_call_is_not_kept() -> None:
    gate = Gate()
    model = PlayedModel(
        [
            TextDelta("Let me."),
            *wishes(("c1", "look", "{}"))[:-1],
            ToolCallStart("c2", "look"),
            ArgumentsDelta('{"a'),
            gate.stop,
        ]
    )
    run = await stopped(model, gives("look"), at=gate.reached)
    assert run.stream is not None
    assert [m.tool_calls for m in run.stream.result.messages] == [(), ()]
    assert run.stream.result.text == "Let me."


async def test_before_the_first_word_nothing_is_added() -> None:
    gate = Gate()
    run = await stopped(PlayedModel([gate.stop]), at=gate.reached)
    assert run.stream is not None
    assert [m.role for m in run.stream.result.messages] == ["user"]


@pytest.mark.usefixtures("store")
async def test_before_anything_happened_the_run_begins_and_ends() -> None:
    rt = open_runtime()
    async with rt.stream(agent([says("never")]), "go") as stream:
        stream.cancel()
        seen = [event async for event in stream]
    assert [kind_of(event) for event in seen] == ["run_start", "run_end"]
    assert stream.result.outcome == "cancelled"


async def test_a_run_that_never_waits_can_be_stopped_too() -> None:
    def stop(stream: RunStream[Any], event: Event) -> None:
        if isinstance(event, events.TurnEnd) and event.turn == 3:
            stream.cancel()

    seen = await watch(
        [asks(call("look", at=i)) for i in range(90)], gives("look"), while_running=stop
    )
    assert seen.outcome == "cancelled"
    assert seen.result.turn_count < 8


async def test_a_run_lets_others_run_even_where_nothing_in_it_waits() -> None:
    rt, order = open_runtime(), list[str]()

    async def drive(name: str) -> None:
        async def does(ctx: ToolContext[None], arguments: object) -> str:
            order.append(name)
            return "ok"

        await rt.run(
            agent(
                [*(asks(call("look", at=i)) for i in range(5)), says("done")],
                PlainTool(name="look", does=does),
            ),
            "go",
        )

    async with anyio.create_task_group() as group:
        group.start_soon(drive, "a")
        group.start_soon(drive, "b")
    assert order[:4] != ["a"] * 4


# ---------------------------------------------------------------- what breaks while it is stopped


async def test_a_result_that_a_stopped_tool_still_gives_is_kept() -> None:
    gate = Gate()

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        try:
            await gate.stop()
        except anyio.get_cancelled_exc_class():
            return "x" * 50_000
        return "never"

    run = await stopped(
        [asks(call("send", "c1"))], PlainTool(name="send", does=does), at=gate.reached
    )
    assert unknown(run) == []
    assert results(run)["c1"].startswith("xxx")


@pytest.mark.usefixtures("store")
async def test_a_long_result_is_kept_though_it_is_cut_while_the_run_is_stopped() -> None:
    def stop(stream: RunStream[Any], event: Event) -> None:
        if isinstance(event, events.ToolProgress):
            stream.cancel()

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        ctx.progress("nearly")
        with anyio.CancelScope(shield=True):
            while not ctx.cancelled:
                await anyio.lowlevel.checkpoint()
        return "x" * 50_000

    seen = await watch(
        [asks(call("send", "c1"))], PlainTool(name="send", does=does), while_running=stop
    )
    assert seen.outcome == "cancelled"
    assert seen.results[0].startswith("xxx")


@pytest.mark.parametrize(
    "error",
    [AgentError("network", "the connection was torn"), AgentError("auth", "no"), OSError("torn")],
)
async def test_a_stream_that_breaks_while_it_is_closed_is_no_error_and_no_retry(
    error: Exception,
) -> None:
    gate = Gate()

    async def torn() -> None:
        try:
            await gate.stop()
        finally:
            raise error

    run = await stopped(PlayedModel([TextDelta("Once upon"), torn]), at=gate.reached)
    assert run.stream is not None
    assert run.stream.result.error is None
    assert run.stream.result.text == "Once upon"
    assert not [event for event in run.seen if isinstance(event, events.Retry)]


async def test_an_error_in_the_block_stops_the_run_and_is_raised_as_it_is() -> None:
    before = len(anyio.get_running_tasks())
    stream = open_runtime().stream(agent(PlayedModel([Gate().stop])), "go")
    with pytest.raises(ZeroDivisionError):
        async with stream:
            raise ZeroDivisionError
    assert stream.result.outcome == "cancelled"
    assert len(anyio.get_running_tasks()) == before


async def test_a_scope_that_ends_around_the_run_closes_it_and_its_result_can_be_read() -> None:
    stream = open_runtime().stream(agent(PlayedModel([TextDelta("Once"), Gate().stop])), "go")
    with anyio.CancelScope() as scope:
        async with stream:
            async for event in stream:
                if isinstance(event, events.TextDelta):
                    scope.cancel()
    assert (stream.result.outcome, stream.result.text) == ("cancelled", "Once")


# ---------------------------------------------------------------- at every await


def busy_agent() -> tuple[list[dict[str, Any]], tuple[PlainTool, ...]]:
    """A run with something of everything, whose every step waits a little."""

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        for _ in range(3):
            ctx.progress("on it")
            await anyio.lowlevel.checkpoint()
        return "ok"

    async def fails(ctx: ToolContext[None], arguments: object) -> str:
        await anyio.lowlevel.checkpoint()
        raise ValueError("no")

    tools = (
        PlainTool(name="look", does=does, effect="pure"),
        PlainTool(name="send", does=does, parallel=False),
        PlainTool(name="fail", does=fails),
    )
    script = [
        asks(
            call("look", "a"),
            call("look", "b"),
            call("send", "c"),
            call("nope", "d"),
            call("fail", "e"),
            reasoning="hm",
            text="So.",
            delay_ms=0.001,
        ),
        {"text": "Half an", "error": {"kind": "network"}},
        asks(call("send", "f")),
        says("All is done now."),
    ]
    return script, tools


@pytest.mark.parametrize("way", ["stream", "scope", "task"])
async def test_at_every_single_step_of_the_event_loop_a_run_can_be_stopped(way: str) -> None:
    outcomes: set[str] = set()
    before = len(anyio.get_running_tasks())
    for steps in range(400):
        script, tools = busy_agent()
        rt, seen = open_runtime(), list[Event]()
        stream = rt.stream(agent(script, *tools), "go", session="s")

        async def read(stream: RunStream[Any] = stream, seen: list[Event] = seen) -> None:
            async with stream:
                async for event in stream:
                    seen.append(event)

        with anyio.fail_after(20):
            if way == "task":
                task = asyncio.get_running_loop().create_task(read())
                await _steps(steps)
                task.cancel()
                await asyncio.wait([task])
            else:
                async with anyio.create_task_group() as group:
                    group.start_soon(read)
                    await _steps(steps)
                    if way == "scope":
                        group.cancel_scope.cancel()
                    elif stream._job is not None:  # pyright: ignore[reportPrivateUsage]  whether the other task has come that far
                        stream.cancel()
        assert not rt.is_busy("s")
        if stream._job is None or stream._job.result is None:  # pyright: ignore[reportPrivateUsage]  stopped before it could begin
            assert seen == []
            continue
        result = stream.result
        outcomes.add(result.outcome.value)
        check_history(result.messages)
        assert await rt.messages("s") == result.messages
        assert len(anyio.get_running_tasks()) == before
        if way == "stream":
            check(result, seen, await rt.journal.read(result.run_id))
        await rt.aclose()
        if result.outcome == "completed" and steps > 3:
            break
    assert outcomes == {"cancelled", "completed"}


@pytest.mark.parametrize("native", [False, True])
async def test_a_run_in_the_callers_own_task_can_be_stopped_at_every_step_too(native: bool) -> None:
    """Nobody listens, so no task but the caller's drives it: cancelling that one closes the run
    first.
    """
    outcomes: set[str] = set()
    before = len(anyio.get_running_tasks())
    for steps in range(400):
        script, tools = busy_agent()
        rt = open_runtime()

        async def drive(rt: Runtime = rt, script: Any = script, tools: Any = tools) -> None:
            await rt.run(agent(script, *tools), "go", session="s")

        with anyio.fail_after(20):
            if native:
                task = asyncio.get_running_loop().create_task(drive())
                await _steps(steps)
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled() or task.exception() is None
            else:
                async with anyio.create_task_group() as group:
                    group.start_soon(drive)
                    await _steps(steps)
                    group.cancel_scope.cancel()
        assert len(anyio.get_running_tasks()) == before
        assert not rt.is_busy("s")
        runs = await rt.journal.runs()
        if not runs:
            continue
        (info,) = runs
        assert info.status == "finished"
        result = await rt.replay(info.run_id)
        outcomes.add(result.outcome.value)
        check_history(result.messages)
        assert await rt.messages("s") == result.messages
        await rt.aclose()
        if result.outcome == "completed":
            break
    assert outcomes == {"cancelled", "completed"}


@pytest.mark.usefixtures("store")
async def test_a_run_that_was_cancelled_raises_nothing_else_and_says_so_in_its_journal() -> None:
    gate, rt = Gate("send"), open_runtime()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(_when, gate.reached, scope.cancel)
            await rt.run(agent([asks(call("send", "c1"))], gate.tool), "go")
    assert scope.cancelled_caught
    (info,) = await rt.journal.runs()
    assert (info.status, info.outcome) == ("finished", "cancelled")


async def test_a_call_whose_start_is_known_and_that_never_began_was_not_run() -> None:
    """It is stopped while its start is appended: it cannot have happened, and nothing else must be
    said of it.
    """
    done: list[str] = []

    async def sends(ctx: ToolContext[None], arguments: object) -> str:
        done.append(ctx.call_id)
        return "sent"

    async def at(entries: Sequence[Entry]) -> None:
        if any(isinstance(entry, ToolStarted) for entry in entries):
            assert run.stream is not None
            run.stream.cancel()

    run = Driven(
        open_runtime(journal=WatchedJournal(at=at)),
        [asks(call("send", "c1"))],
        (PlainTool(name="send", does=sends),),
    )
    with anyio.fail_after(20):
        await run.drive()
    assert run.stream is not None
    (told,) = [one for message in run.stream.result.messages for one in message.tool_results]
    assert (done, told.unknown, told.text) == ([], False, "Not run: The run was stopped.")


async def test_a_run_that_is_cancelled_lets_go_of_itself_also_where_that_takes_time() -> None:
    gate, journal = Gate("send"), Slow()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(_when, gate.reached, scope.cancel)
            await open_runtime(journal=journal).run(
                agent([asks(call("send", "c1"))], gate.tool), "go"
            )
    assert scope.cancelled_caught
    assert journal.let_go == 1


class Slow(MemoryJournal):
    """Letting go of a run waits, as it does where a file or a server has to be told."""

    let_go = 0

    async def begin(self, started: RunStarted, **found: Any) -> RunWriter:
        writer = await super().begin(started, **found)
        release = writer.release

        async def slowly(*, waiting: bool = False) -> None:
            await anyio.lowlevel.checkpoint()
            await release(waiting=waiting)
            self.let_go += 1

        return Replaced(writer, slowly)


@dataclass(frozen=True)
class Replaced:
    writer: RunWriter
    release: Callable[..., Awaitable[None]]

    @property
    def run_id(self) -> str:
        return self.writer.run_id

    @property
    def fence(self) -> int:
        return self.writer.fence

    @property
    def failed_over(self) -> bool:
        return self.writer.failed_over

    async def append(
        self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None, wakes: bool = False
    ) -> int:
        return await self.writer.append(entries, put_back=put_back, wakes=wakes)

    async def verify(self) -> None:
        await self.writer.verify()


async def _when(event: anyio.Event, what: Callable[[], object]) -> None:
    await event.wait()
    what()


@pytest.mark.parametrize(
    ("way", "by"),
    [
        (by_stream, "caller"),
        (by_session, "caller"),
        (by_closing_the_runtime, "close"),
        (by_the_awaiting_task, None),
    ],
)
async def test_who_asked_for_it_is_in_the_journal_before_what_it_closed(
    way: Way, by: str | None
) -> None:
    gate, journal = Gate("send"), Kept()
    run = Driven(open_runtime(journal=journal), [asks(call("send", "c1"))], (gate.tool,))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(run.drive)
            await gate.reached.wait()
            await way(run)
    assert run.stream is not None
    entries = [record.entry for record in await journal.read(run.stream.run_id)]
    asked = [entry.by for entry in entries if isinstance(entry, CancelAsked)]
    assert asked == ([] if by is None else [by])
    assert [label(entry) for entry in entries][-2 - len(asked) :] == [
        *(["cancel.asked"] if asked else []),
        "tool.finished:c1:unknown",
        "run.finished",
    ]


class Kept(MemoryJournal):
    """Can be read after its runtime was closed."""

    async def aclose(self, *, keep_runs: bool = False) -> None:
        pass


async def _steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
