"""Runs that were taken over and could not be driven: they are put down as they were found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.doubles import agent, asks, call, open_runtime, says
from tests.runtime.test_submit import ASKS, Done, asking, tickets, waiting
from tests.stores import open_again
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, handoff
from treadle.config import Config
from treadle.config.sections import Permissions
from treadle.errors import AgentError
from treadle.events.tracing import NO_TRACER
from treadle.journal.entries import AgentSwitched, Entry, Record, RunResumed, RunStarted
from treadle.journal.journal import RunWriter
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.function import tool
from treadle.types import now

pytestmark = pytest.mark.usefixtures("store")

BOTH = ["call_1", "call_2"]
LATER = timedelta(hours=1)


@pytest.fixture
async def here(store: str) -> AsyncIterator[Runtime]:
    async with open_runtime() as runtime:
        yield runtime


@pytest.fixture
async def there(here: Runtime) -> Runtime:
    """Another process, as far as the journal knows; in memory, the same."""
    return open_runtime(journal=open_again(here.journal))


@contextmanager
def cancelled_as_it_reads(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Cancel what happens inside once it has read entries of the journal."""
    scope, read = anyio.CancelScope(), runtime.journal.read

    async def cancelling(*which: Any, **more: Any) -> Sequence[Record]:
        found = await read(*which, **more)
        scope.cancel()
        return found

    with scope, monkeypatch.context() as patch:
        patch.setattr(runtime.journal, "read", cancelling)
        yield
    assert scope.cancelled_caught


async def fails(*_: Any, **__: Any) -> Any:
    raise AgentError("agent", "the store does not answer")


class Failing:
    """A writer that cannot append entries of a kind, as with a full disk."""

    def __init__(self, writer: RunWriter, kind: type[Entry]) -> None:
        self._writer, self.kind = writer, kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    async def append(self, entries: Sequence[Entry], **more: Any) -> int:
        if any(isinstance(entry, self.kind) for entry in entries):
            raise AgentError("agent", "the disk is full")
        return await self._writer.append(entries, **more)


async def status_of(runtime: Runtime, run_id: str = "r") -> str:
    return (await runtime.journal.info(run_id)).status


async def waits(runtime: Runtime, done: Done) -> None:
    """A run "r", without a queue, that waits for answers to two calls."""
    result = await runtime.run(agent([ASKS], asking(done)), "go", run_id="r", on_ask="wait")
    assert result.waiting


# ---------------------------------------------------------------- cancelled, or with an error


async def test_a_waiting_run_whose_resumption_is_cancelled_keeps_waiting(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waits(here, done := Done())
    with cancelled_as_it_reads(here, monkeypatch):
        await here.resume("r", agent([], asking(done)), approve=BOTH)
    assert await status_of(here) == "waiting"
    again = agent([ASKS, says("Done.")], asking(done))
    assert (await here.resume("r", again, approve=BOTH)).text == "Done."


async def test_a_run_that_is_cancelled_while_it_is_taken_over_can_be_resumed(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(effect="pure")
    async def work() -> str:
        """Works until its run is released."""
        here.let_go("r")
        await anyio.sleep_forever()
        return ""

    model = ScriptedModel([asks(call("work")), says("done")])
    with pytest.raises(AgentError, match="released"):
        await here.run(agent(model, work), "go", run_id="r")
    idle = tool(effect="pure", name="work")(lambda: "worked")
    with cancelled_as_it_reads(here, monkeypatch):
        await here.resume("r", agent(model, idle))
    assert await status_of(here) == "stopped"
    assert (await here.resume("r", agent(model, idle))).outcome == "completed"


async def test_a_run_for_later_stays_for_later(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await here.submit(agent([]), "go", at=now() + LATER)
    with cancelled_as_it_reads(here, monkeypatch):
        await here.resume(run_id, agent([says("done")]))
    assert await tickets(here) == []


async def test_a_parked_run_stays_parked_since_then(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await here.submit(agent([]), "go")
    await here.journal.queue.park(run_id, "why")
    before = await here.journal.queue.parked()
    with cancelled_as_it_reads(here, monkeypatch):
        await here.resume(run_id, agent([says("done")]))
    assert await here.journal.queue.parked() == before


async def test_a_woken_run_stays_queued_also_with_an_open_question(
    here: Runtime, there: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer that it has is for a worker, whoever else tries to resume it."""
    run_id = await waiting(here, there, done := Done())
    await here.wake(run_id, approve=["call_1"])
    with cancelled_as_it_reads(here, monkeypatch):
        await here.resume(run_id, agent([], asking(done)))
    assert await status_of(here, run_id) == "queued"


def parent(done: Done, below: Sequence[dict[str, Any]], own: Sequence[dict[str, Any]]) -> Any:
    """An agent with another one as a tool, whose calls need approval."""
    child = Agent(
        name="cleaner", description="Cleans.", model=ScriptedModel(below), tools=[asking(done)]
    )
    return Agent(name="tester", model=ScriptedModel(own), tools=[child])


@pytest.mark.parametrize("answers", [[], BOTH])
async def test_a_run_whose_childs_calls_were_answered_stays_queued(
    here: Runtime, there: Runtime, monkeypatch: pytest.MonkeyPatch, answers: list[str]
) -> None:
    done, first = Done(), asks(call("cleaner", "call_0", prompt="Clean up."))
    run_id = await here.submit(parent(done, [], []), "Tidy up.", on_ask="wait")
    await tickets(there)
    assert (await there.resume(run_id, parent(done, [ASKS], [first]))).waiting
    if answers:
        await here.wake(run_id, approve=answers)
    with cancelled_as_it_reads(here, monkeypatch):
        await here.resume(run_id, parent(done, [], []))
    assert await status_of(here, run_id) == ("queued" if answers else "waiting")


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_a_waiting_run_whose_kill_does_not_come_to_its_end_keeps_waiting(
    here: Runtime, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    await waits(here, Done())
    scope = anyio.CancelScope()

    async def loading(run_id: str) -> Any:
        if how == "fails":
            await fails()
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    with scope, monkeypatch.context() as patch, suppress(AgentError):
        patch.setattr(here.journal, "load", loading)
        await here.kill("r")
    assert await status_of(here) == "waiting"


async def test_a_waiting_run_whose_resumption_cannot_be_stored_keeps_waiting(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waits(here, done := Done())
    take_over = here.journal.take_over

    async def failing(run_id: str, *, force: bool = False) -> Any:
        return Failing(await take_over(run_id, force=force), RunResumed)

    with monkeypatch.context() as patch:
        patch.setattr(here.journal, "take_over", failing)
        with pytest.raises(AgentError, match="disk is full"):
            await here.resume("r", agent([], asking(done)), approve=BOTH)
    assert await status_of(here) == "waiting"


async def test_a_waiting_run_whose_process_dies_as_it_takes_it_over_keeps_waiting(
    here: Runtime, store: str
) -> None:
    if store == "memory":
        pytest.skip("its only process")
    await waits(here, Done())
    other = open_again(here.journal)
    await other.take_over("r")
    await other.aclose()  # nothing is released
    assert await here.journal.left_behind(limit=9) == []
    assert await status_of(here) == "waiting"


# ---------------------------------------------------------------- after another person's answers


def answering_first(
    here: Runtime, there: Runtime, calls: Sequence[str], **more: Any
) -> Callable[..., Any]:
    """Take a run over once another person has answered, between the look at it and this."""
    take_over, answered = here.journal.take_over, list[str]()

    async def after_the_other(run_id: str, *, force: bool = False) -> RunWriter:
        if not answered:  # in memory, both have one journal
            answered.append(run_id)
            await there.wake(run_id, approve=calls, **more)
        return await take_over(run_id, force=force)

    return after_the_other


@pytest.mark.parametrize("method", ["read", "load"])
async def test_an_answered_run_stays_queued_if_the_change_cannot_be_read(
    here: Runtime, there: Runtime, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    run_id = await waiting(here, there, done := Done())
    first, taken = answering_first(here, there, BOTH), list[str]()

    with monkeypatch.context() as patch:

        async def then_fails(run_id: str, *, force: bool = False) -> RunWriter:
            taken.append(run_id)
            is_first = len(taken) == 1
            writer = await first(run_id, force=force)
            if is_first:
                patch.setattr(here.journal, method, fails)
            return writer

        patch.setattr(here.journal, "take_over", then_fails)
        with pytest.raises(AgentError):
            await here.resume(run_id, agent([], asking(done)), deny=dict.fromkeys(BOTH, "no"))
    assert await status_of(here, run_id) == "queued"


# ---------------------------------------------------------------- after it was taken over


async def test_a_run_that_cannot_be_made_ready_is_put_down(here: Runtime) -> None:
    await waits(here, done := Done())
    wrong = Config(permissions=Permissions(allow=["Nonsense((("]))
    other = open_runtime(journal=open_again(here.journal), config=wrong)
    with pytest.raises(AgentError, match="Nonsense"):
        await other.resume("r", agent([], asking(done)), approve=BOTH)
    assert await status_of(here) == "waiting"


@pytest.mark.parametrize("enters", [False, True])
async def test_a_run_whose_tracer_fails_is_put_down(here: Runtime, *, enters: bool) -> None:
    class Broken:
        def run(self, run: Any) -> Any:
            if not enters:
                raise RuntimeError("no exporter")
            return self

        def __enter__(self) -> Any:
            raise RuntimeError("no exporter")

        def __exit__(self, *_: object) -> None: ...

        def __getattr__(self, name: str) -> Any:
            return getattr(NO_TRACER, name)

    await waits(here, done := Done())
    other = open_runtime(journal=open_again(here.journal), tracer=Broken())
    with pytest.raises(AgentError):
        await other.resume("r", agent([], asking(done)), approve=BOTH)
    assert await status_of(here) == "waiting"


async def test_a_run_whose_next_agent_cannot_begin_is_put_down(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = here.journal.begin

    async def failing(started: RunStarted, **more: Any) -> Any:
        return Failing(await begin(started, **more), AgentSwitched)

    other = Agent(name="other", model=ScriptedModel([says("done")]))
    first = Agent(
        name="first",
        model=ScriptedModel([asks(call("transfer_to_other", "c1", reason="x"))]),
        handoffs=[handoff(other)],
    )
    with monkeypatch.context() as patch:
        patch.setattr(here.journal, "begin", failing)
        with pytest.raises(AgentError, match="disk is full"):
            await here.run(first, "go", run_id="r")
    assert await status_of(here) == "stopped"
    assert (await here.resume("r", first)).text == "done"


async def test_a_request_to_stop_that_comes_as_a_run_is_taken_over_is_heard(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waits(here, done := Done())
    read, runs, other = here.journal.read, here._continuing, open_again(here.journal)

    async def reading(*which: Any, **more: Any) -> Sequence[Record]:
        patch.undo()
        assert await other.ask_to_stop("r")
        with anyio.fail_after(20):
            while not runs.stops:
                await anyio.sleep(0.01)
        return await read(*which, **more)

    with monkeypatch.context() as patch:
        patch.setattr(here.journal, "read", reading)
        result = await here.resume("r", agent([], asking(done)), approve=BOTH)
    assert (result.outcome, done.calls) == ("cancelled", [])
