"""Runs that one process submits and another one drives, and people who answer in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import agent, asks, call, gives, label, says
from tests.journal.runs import finished, resumed, started
from tests.service.database.postgres import postgres_server as postgres_server
from tests.stores import JournalUrls, reuse_connections
from tests.stores import journal_urls as journal_urls
from treadle import Agent, ToolContext, tool
from treadle.config import Config
from treadle.config.serving import Queue
from treadle.errors import AgentError
from treadle.events.callbacks import Callbacks
from treadle.journal import open_journal
from treadle.journal.journal import RunWriter
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.queue import QueuePlace, Ticket
from treadle.messages.message import Message
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.types import Limits, Settings, now
from treadle.workers.engines.local import LocalEngine

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    reuse_connections(monkeypatch)
    urls: JournalUrls = request.getfixturevalue("journal_urls")
    return urls(tmp_path)


@pytest.fixture
async def here(url: str) -> AsyncIterator[Runtime]:
    async with Runtime.open(url, config=Config()) as runtime:
        yield runtime


@pytest.fixture
async def there(url: str) -> AsyncIterator[Runtime]:
    """Another process, as far as the journal knows."""
    async with Runtime.open(url, config=Config()) as runtime:
        yield runtime


@pytest.fixture
async def alone() -> AsyncIterator[Runtime]:
    async with Runtime.open(config=Config(queues={"nightly": Queue()})) as runtime:
        yield runtime


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def anywhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Runtime]:
    """Like `alone`, over each store."""
    if request.param == "postgres":
        reuse_connections(monkeypatch)
        urls: JournalUrls = request.getfixturevalue("journal_urls")
        url = urls(tmp_path)
    else:
        url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"
    async with Runtime.open(url, config=Config(queues={"nightly": Queue()})) as runtime:
        yield runtime


async def labels(runtime: Runtime, run_id: str) -> list[str]:
    return [label(record.entry) for record in await runtime.journal.read(run_id)]


async def tickets(runtime: Runtime, *queues: str) -> list[Ticket]:
    return await runtime.journal.queue.claim(queues or ("default",), engine="local", most=10)


def refused(match: str, kind: str = "invalid") -> Any:
    return pytest.raises(AgentError, match=match, check=lambda e: e.kind == kind)


# ---------------------------------------------------------------- from one process to another


async def test_a_submitted_run_is_driven_elsewhere_as_it_would_have_been_here(
    here: Runtime, there: Runtime, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "cwd": tmp_path,
        "mode": "plan",
        "user_id": "ada",
        "limits": Limits(turns=7),
        "settings": Settings(max_tokens=99),
    }
    run_id = await here.submit(agent([]), "Say hello.", session="talk", on_ask="wait", **options)
    info = await there.journal.info(run_id)
    assert (info.status, info.session_id, info.queue, info.tenant, info.mode, info.cwd) == (
        "queued",
        "talk",
        "default",
        "ada",
        "plan",
        str(tmp_path.resolve()),
    )
    assert [ticket.run_id for ticket in await tickets(there)] == [run_id]
    result = await there.resume(run_id, agent([says("hello there")]))
    assert (result.outcome.value, result.text, result.session_id) == (
        "completed",
        "hello there",
        "talk",
    )
    assert await labels(here, run_id) == [
        "run.started",
        "run.resumed",
        "model.requested",
        "model.responded",
        "run.finished",
    ]
    state = await here.journal.load(run_id)
    assert state.started is not None
    assert (
        state.started.user_id,
        state.started.limits,
        state.started.settings.max_tokens,
        state.started.on_ask,
    ) == ("ada", Limits(turns=7), 99, "wait")
    assert [said.text for said in await here.messages("talk")] == ["Say hello.", "hello there"]


async def test_what_its_session_had_said_is_before_it(here: Runtime, there: Runtime) -> None:
    await there.run(agent([says("Ada is here.")]), "Who is here?", session="talk")
    run_id = await here.submit(agent([]), "And now?", session="talk")
    result = await there.resume(run_id, agent([says("Still Ada.")]))
    assert [message.text for message in result.messages] == [
        "Who is here?",
        "Ada is here.",
        "And now?",
        "Still Ada.",
    ]


async def test_what_was_said_before_it_goes_along(here: Runtime, there: Runtime) -> None:
    run_id = await here.submit(
        agent([]), "And now?", messages=[Message.user("Hi."), Message.assistant("Hello.")]
    )
    result = await there.resume(run_id, agent([says("Now this.")]))
    assert [message.text for message in result.messages] == [
        "Hi.",
        "Hello.",
        "And now?",
        "Now this.",
    ]


async def test_a_process_without_keys_can_submit(here: Runtime) -> None:
    run_id = await here.submit(agent("anthropic:claude-haiku-5-5"), "hello")
    assert (await here.journal.info(run_id)).model == "anthropic:claude-haiku-5-5"
    with refused("no API key", "auth"):
        await here.resume(run_id)
    assert (await here.journal.info(run_id)).status == "queued"


async def test_its_agent_is_known_where_it_was_submitted(anywhere: Runtime) -> None:
    run_id = await anywhere.submit(
        agent([says("hi")]), "hello", queue="nightly", priority=-7, tenant="t", user_id="ada"
    )
    (ticket,) = await tickets(anywhere, "nightly")
    assert (ticket.run_id, ticket.priority, ticket.tenant) == (run_id, -7, "t")
    assert (await anywhere.resume(run_id)).text == "hi"


async def test_it_may_wait_for_its_time(anywhere: Runtime) -> None:
    run_id = await anywhere.submit(agent([]), "hello", at=now() + timedelta(hours=1))
    assert await tickets(anywhere) == []
    assert (await anywhere.wake(run_id)).status == "queued"
    assert [ticket.run_id for ticket in await tickets(anywhere)] == [run_id]


# ---------------------------------------------------------------- what is refused

BAD: list[tuple[dict[str, Any], str]] = [
    ({"queue": "nigthly"}, "unknown queue 'nigthly'. Available: default, nightly"),
    ({"priority": 1001}, "priority=1001"),
    ({"priority": True}, "priority=True"),
    ({"tenant": ""}, "tenant=''"),
    ({"tenant": 7}, "tenant=7"),
    ({"at": "tomorrow"}, "at='tomorrow'"),
    ({"at": datetime(2026, 1, 1)}, "time zone"),
    ({"deps": 3}, "deps= lives in this process.*deps_of"),
    ({"on_event": print}, "on_event= lives in this process"),
    ({"callbacks": Callbacks()}, "callbacks= lives in this process"),
    ({"on_approval": print}, "on_approval= lives in this process"),
    ({"modes": "full"}, "no option 'modes'"),
    ({"mode": "fast"}, "mode='fast'"),
    ({"cwd": "/there/is/none"}, "is not a directory"),
    ({"run_id": "a/b"}, "not a valid run id"),
    ({"user_id": 5}, "user_id= is int|tenant=5"),
    ({"on_ask": "later"}, "on_ask='later'"),
    ({"limits": {"turns": 3}}, "limits= is a dict"),
    ({"session": "a/b"}, "session"),
]


@pytest.mark.parametrize(
    ("options", "match"),
    BAD,
    ids=[" ".join(options) + str(n) for n, (options, _) in enumerate(BAD)],
)
async def test_what_is_wrong_is_said_before_there_is_a_run(
    alone: Runtime, options: dict[str, Any], match: str
) -> None:
    with refused(match):
        await alone.submit(agent([]), "hello", **options)
    assert await alone.journal.runs() == []


@pytest.mark.parametrize(
    ("model", "match"),
    [
        ("nobody:opus", "unknown provider"),
        ("opus", "opus"),
        ("script:/there/is/none.json", "none.json"),
        ("record:talk.tape=anthropic:claude-haiku-5-5", "cannot be recorded"),
    ],
)
async def test_a_model_that_nobody_could_ask_is_refused(
    alone: Runtime, model: str, match: str
) -> None:
    with refused(match):
        await alone.submit(agent(model), "hello")
    assert await alone.journal.runs() == []


async def test_an_empty_prompt_and_what_is_no_agent_are_refused(alone: Runtime) -> None:
    with refused("prompt is empty"):
        await alone.submit(agent([]), "  ")
    with refused("first argument must be the agent"):
        await alone.submit("hello", agent([]))  # pyright: ignore[reportArgumentType]  that is what is wrong with it


async def test_a_runtime_that_is_closed_submits_nothing() -> None:
    runtime = Runtime.open(config=Config())
    await runtime.aclose()
    with refused("closed"):
        await runtime.submit(agent([]), "hello")


async def test_a_session_has_one_run_at_a_time(here: Runtime, there: Runtime) -> None:
    run_id = await here.submit(agent([]), "one", session="talk")
    for runtime in (here, there):
        with refused(run_id, "busy"):
            await runtime.submit(agent([]), "two", session="talk")
        with refused(run_id, "busy"):
            await runtime.run(agent([says("hi")]), "two", session="talk")
    assert here.is_busy("talk") is False
    await there.kill(run_id)
    assert await here.submit(agent([]), "two", session="talk") != run_id


async def test_one_id_is_one_run(here: Runtime, there: Runtime) -> None:
    assert (
        await here.submit(agent([]), "one", run_id="tick@2026-11-21T03:00:00Z")
        == "tick@2026-11-21T03:00:00Z"
    )
    for tenant in (None, "acme"):
        with refused("tick@.* already exists: use another id, or `ensure`", "busy"):
            await there.submit(agent([]), "two", run_id="tick@2026-11-21T03:00:00Z", tenant=tenant)
    assert len(await here.journal.runs()) == 1


# ---------------------------------------------------------------- killed at any instant


def submit_and_die(url: str, number: int) -> int:
    """The exit code of a process that dies at its boundary of that number."""
    environment = {**os.environ, "TREADLE_CRASH_AT": str(number), "HOME": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-m", "tests.submitter", url, f"run_{number}", f"talk_{number}"],
        cwd=ROOT,
        env=environment,
        check=False,
    ).returncode


async def test_a_submission_that_is_killed_is_there_whole_or_not_at_all(url: str) -> None:
    journal = open_journal(url)
    there: list[bool] = []
    for number in range(1, 10):
        code = submit_and_die(url, number)
        known = {run.run_id for run in await journal.runs()}
        there.append(f"run_{number}" in known)
        if there[-1]:
            info = await journal.info(f"run_{number}")
            assert (info.status, info.queue, info.tenant, info.session_id, info.entries) == (
                "queued",
                "default",
                "t",
                f"talk_{number}",
                1,
            )
        else:
            assert journal.sessions.get(f"talk_{number}") is None
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert there[0] is False
    assert there[-2:] == [True, True], "the last one that was killed had done it"
    claimed = [
        ticket.run_id for ticket in await journal.queue.claim(["default"], engine="local", most=20)
    ]
    assert claimed == [f"run_{number}" for number, is_there in enumerate(there, 1) if is_there]
    await journal.aclose()


# ---------------------------------------------------------------- answers in between


@dataclass
class Done:
    calls: list[tuple[str, int, dict[str, Any]]] = field(
        default_factory=list[tuple[str, int, dict[str, Any]]]
    )


def asking(done: Done) -> Any:
    @tool(effect="once", needs_approval=True)
    async def drop(ctx: ToolContext[None], branch: str) -> str:
        """Deletes a branch."""
        done.calls.append((ctx.call_id, ctx.attempt, {"branch": branch}))
        return f"{branch} is gone"

    return drop


ASKS = asks(call("drop", "call_1", branch="old"), call("drop", "call_2", branch="main"))


async def waiting(runtime: Runtime, other: Runtime, done: Done) -> str:
    """A queued run that a worker drove until it needed a person."""
    run_id = await runtime.submit(agent([], asking(done)), "Tidy up.", on_ask="wait")
    assert [ticket.run_id for ticket in await tickets(other)] == [run_id]
    assert (await other.resume(run_id, agent([ASKS], asking(done)))).waiting
    info = await runtime.journal.info(run_id)
    assert (info.status, info.queue) == ("waiting", "default")
    assert await tickets(other) == []
    return run_id


async def test_a_persons_answers_are_in_the_journal_and_whoever_takes_the_run_goes_by_them(
    here: Runtime, there: Runtime
) -> None:
    done = Done()
    run_id = await waiting(here, there, done)
    info = await here.wake(run_id, approve=["call_1"], deny={"call_2": "never main"})
    assert info.status == "queued"
    assert [entry.partition(":")[0] for entry in await labels(here, run_id)][-4:] == [
        "run.resumed",
        "approval.answered",
        "approval.answered",
        "tool.finished",
    ]
    assert done.calls == []
    assert [ticket.run_id for ticket in await tickets(there)] == [run_id]
    result = await there.resume(run_id, agent([ASKS, says("Done.")], asking(done)))
    assert (result.outcome.value, result.text) == ("completed", "Done.")
    assert done.calls == [("call_1", 1, {"branch": "old"})]
    assert [one.text for one in result.messages[2].tool_results] == [
        "old is gone",
        "Not run: the user declined: never main",
    ]


async def test_an_answer_may_be_other_arguments_or_a_result(here: Runtime, there: Runtime) -> None:
    done = Done()
    run_id = await waiting(here, there, done)
    await here.wake(
        run_id,
        approve=["call_1"],
        arguments={"call_1": {"branch": "older"}},
        results={"call_2": "I did it."},
    )
    await tickets(there)
    result = await there.resume(run_id, agent([ASKS, says("Done.")], asking(done)))
    assert [args for _, _, args in done.calls] == [{"branch": "older"}]
    assert [one.text for one in result.messages[2].tool_results][1] == "I did it."


async def test_what_nobody_answered_goes_on_waiting(here: Runtime, there: Runtime) -> None:
    done = Done()
    run_id = await waiting(here, there, done)
    await here.wake(run_id, approve=["call_1"])
    await tickets(there)
    result = await there.resume(run_id, agent([ASKS, says("Done.")], asking(done)))
    assert result.waiting
    assert [call_id for call_id, _, _ in done.calls] == ["call_1"]
    assert list((await here.journal.load(run_id)).approvals.asked) == ["call_2"]
    assert (
        await here.wake(run_id, deny={"call_2": "no"}, at=now() + timedelta(hours=1))
    ).status == "queued"
    assert await tickets(there) == []
    await here.wake(run_id)
    assert [ticket.run_id for ticket in await tickets(there)] == [run_id]
    assert (await there.resume(run_id, agent([ASKS, says("Done.")], asking(done)))).text == "Done."


@pytest.mark.parametrize("drives", [False, True])
@pytest.mark.parametrize("answered", [["call_1", "call_2"], ["call_1"]])
async def test_of_two_people_who_answer_at_once_the_second_leaves_the_run_as_it_is(
    here: Runtime,
    there: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    answered: list[str],
    *,
    drives: bool,
) -> None:
    """It has an answer for a worker, and whoever has answered has said when."""
    run_id = await waiting(here, there, done := Done())
    take_over, denied = here.journal.take_over, {"call_1": "no", "call_2": "no"}

    async def after_the_other(run_id: str, *, force: bool = False) -> RunWriter:
        await there.wake(run_id, approve=answered, at=now() + timedelta(hours=1))
        return await take_over(run_id, force=force)

    with monkeypatch.context() as patch, refused("has just been advanced", "busy"):
        patch.setattr(here.journal, "take_over", after_the_other)
        if drives:
            await here.resume(run_id, agent([], asking(done)), deny=denied)
        else:
            await here.wake(run_id, deny=denied)
    assert (await here.journal.info(run_id)).status == "queued"
    assert await tickets(there) == []
    await here.wake(run_id, approve=["call_2"][len(answered) - 1 :])
    assert [ticket.run_id for ticket in await tickets(there)] == [run_id]
    result = await there.resume(run_id, agent([ASKS, says("Done.")], asking(done)))
    assert (result.text, len(done.calls)) == ("Done.", 2)


WAKES = """
import sys
from datetime import datetime
import anyio
from treadle.config import Config
from treadle.runtime.runtime import Runtime

async def wake(url, run_id, at):
    async with Runtime.open(url, config=Config()) as runtime:
        await runtime.wake(run_id, approve=["call_1", "call_2"], at=datetime.fromisoformat(at))

anyio.run(wake, *sys.argv[1:])
"""


async def test_a_process_killed_right_after_it_stored_answers_has_stored_the_time_too(
    tmp_path: Path,
) -> None:
    url, at = f"sqlite:///{tmp_path / 'journal.db'}", now() + timedelta(hours=1)
    # 2: the answers are committed
    environment = {**os.environ, "TREADLE_CRASH_AT": "2", "HOME": "/nonexistent"}
    async with Runtime.open(url, config=Config()) as runtime:
        run_id = await waiting(runtime, runtime, Done())
        command = [sys.executable, "-c", WAKES, url, run_id, at.isoformat()]
        assert (
            await anyio.run_process(command, env=environment, check=False)
        ).returncode == -signal.SIGKILL
        assert (await labels(runtime, run_id))[-1].startswith("approval.answered")
        assert await tickets(runtime) == []
        assert await runtime.journal.queue.place(run_id) == QueuePlace(ready_at=at)
        assert (await runtime.journal.info(run_id)).status == "queued"


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"approve": ["call_9"]}, "no call 'call_9'"),
        ({"arguments": {"call_1": {}}}, "which approve= does not name"),
        (
            {"approve": ["call_1"], "arguments": {"call_1": {"branch": object()}}},
            "cannot represent",
        ),
        ({"approve": ["call_1"], "arguments": {"call_1": ["a"]}}, "all arguments by their names"),
        ({"deny": {"call_1": 3}}, "deny="),
        ({"place": QueuePlace(queue="nowhere")}, "unknown queue 'nowhere'"),
    ],
)
async def test_a_wrong_answer_is_refused_and_nothing_is_kept(
    anywhere: Runtime, said: dict[str, Any], match: str
) -> None:
    run_id = await waiting(anywhere, anywhere, Done())
    before = await labels(anywhere, run_id)
    with refused(match):
        await anywhere.wake(run_id, **said)
    assert await labels(anywhere, run_id) == before
    assert (await anywhere.journal.info(run_id)).status == "waiting"


async def test_answers_reach_the_calls_of_runs_below(here: Runtime, there: Runtime) -> None:
    done = Done()

    def parent(below: Sequence[dict[str, Any]], own: Sequence[dict[str, Any]]) -> Agent[Any]:
        child = Agent(
            name="cleaner", description="Cleans.", model=ScriptedModel(below), tools=[asking(done)]
        )
        return Agent(name="tester", model=ScriptedModel(own), tools=[child])

    first = asks(call("cleaner", "call_0", prompt="Clean up."))
    run_id = await here.submit(parent([], []), "Tidy up.", on_ask="wait")
    await tickets(there)
    assert (await there.resume(run_id, parent([ASKS], [first]))).waiting
    (below,) = await here.journal.children(run_id)
    await here.wake(run_id, approve=["call_1", "call_2"])
    assert (await here.journal.info(run_id)).status == "queued"
    assert (await here.journal.info(below.run_id)).status == "stopped"
    assert [ticket.run_id for ticket in await tickets(there)] == [run_id]
    result = await there.resume(run_id, parent([ASKS, says("Clean.")], [first, says("Tidy.")]))
    assert (result.outcome.value, result.text) == ("completed", "Tidy.")
    assert sorted(call_id for call_id, _, _ in done.calls) == ["call_1", "call_2"]


async def test_a_run_that_was_stopped_is_given_to_workers(here: Runtime, there: Runtime) -> None:
    writer = await here.journal.begin(started("run_1"))
    with refused("in no queue"):
        await there.wake("run_1")
    with refused("being driven", "busy"):
        await there.wake("run_1", place=QueuePlace())
    await writer.release()
    assert (await there.wake("run_1", place=QueuePlace(priority=3))).status == "queued"
    assert [ticket.priority for ticket in await tickets(there)] == [3]


async def test_a_parked_run_is_woken(anywhere: Runtime) -> None:
    run_id = await anywhere.submit(agent([]), "hello")
    await anywhere.journal.queue.park(run_id, "nobody has its key")
    assert (await anywhere.journal.info(run_id)).status == "stopped"
    info = await anywhere.wake(run_id)
    assert (info.status, info.parked) == ("queued", None)


async def test_a_finished_run_is_not_woken(anywhere: Runtime) -> None:
    run_id = await anywhere.submit(agent([says("hi")]), "hello")
    await anywhere.resume(run_id)
    with refused("is finished"):
        await anywhere.wake(run_id)
    with refused("unknown run"):
        await anywhere.wake("run_unknown")


# ---------------------------------------------------------------- the end of one that waits


class Told(LocalEngine):
    """Remembers what it was told to drop."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled: list[str] = []

    async def cancel(self, run_id: str) -> None:
        self.cancelled.append(run_id)
        await super().cancel(run_id)


class Away(LocalEngine):
    async def cancel(self, run_id: str) -> None:
        raise AgentError("agent", "its tables do not answer")


async def test_a_run_that_was_killed_is_over_whatever_its_engine_says(anywhere: Runtime) -> None:
    anywhere.engine = Away()
    assert (await anywhere.kill(await anywhere.submit(agent([]), "hello"))).status == "finished"


async def test_killing_a_queued_run_ends_it_and_tells_the_engine(
    here: Runtime, there: Runtime
) -> None:
    there.engine = engine = Told()
    run_id = await here.submit(agent([]), "hello", session="talk")
    info = await there.kill(run_id)
    assert (info.status, info.outcome, info.queue) == ("finished", "cancelled", "default")
    assert engine.cancelled == [run_id]
    assert await tickets(here) == []
    assert await here.journal.queue.put_back(run_id) is False


class Faster(MemoryJournal):
    """A worker takes the run just when somebody has seen that nobody drives it."""

    def __init__(self) -> None:
        super().__init__()
        self.worker: RunWriter | None = None

    async def ask_to_stop(self, run_id: str) -> bool:
        if self.worker is None:
            self.worker = await self.take_over(run_id)
            return False
        await self.worker.append([resumed(1), finished()])
        return True


async def test_killing_a_run_that_a_worker_has_just_taken_asks_that_worker() -> None:
    async with Runtime(config=Config(), journal=Faster()) as runtime:
        run_id = await runtime.submit(agent([]), "hello")
        assert (await runtime.kill(run_id)).outcome == "completed"


async def test_killing_a_run_that_ends_in_that_moment_leaves_it_as_it_is() -> None:
    class Ends(MemoryJournal):
        """Somebody answers the run's question right after it was found waiting."""

        async def ask_to_stop(self, run_id: str) -> bool:
            await rt.resume(run_id, one, approve="c1")
            return await super().ask_to_stop(run_id)

    one = agent([asks(call("pay", "c1")), says("done")], gives("pay", needs_approval=True))
    async with Runtime(config=Config(), journal=Ends()) as rt:
        run_id = (await rt.run(one, "go", on_ask="wait")).run_id
        assert (await rt.kill(run_id)).outcome == "completed"


async def test_with_a_run_ends_what_it_had_put_into_a_queue(here: Runtime) -> None:
    parent = await here.journal.begin(started("run_1"))
    child = await here.journal.begin(started("run_2", parent="run_1"))
    for writer in (child, parent):
        await writer.release()
    await here.wake("run_2", place=QueuePlace())
    await here.kill("run_1")
    assert (await here.journal.info("run_2")).outcome == "cancelled"
    assert await tickets(here) == []


class Moving(MemoryJournal):
    """Somebody drives a run between its being read and its being taken over."""

    moves = False

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        if self.moves:
            self.moves = False
            other = await super().take_over(run_id)
            await other.append([resumed(other.fence)])
            await other.release(waiting=True)
        return await super().take_over(run_id, force=force)


async def test_an_answer_to_a_run_that_moved_on_meanwhile_is_refused() -> None:
    async with Runtime(config=Config(), journal=(journal := Moving())) as runtime:
        run_id = await waiting(runtime, runtime, Done())
        journal.moves = True
        with refused("just been advanced", "busy"):
            await runtime.wake(run_id, approve=["call_1"])
        assert (await journal.info(run_id)).status == "waiting"
        assert list((await journal.load(run_id)).approvals.asked) == ["call_1", "call_2"]


async def test_a_run_that_is_let_go_waits_for_the_next_worker(anywhere: Runtime) -> None:
    run_id = await anywhere.submit(agent([]), "hello")
    await tickets(anywhere)
    writer = await anywhere.journal.take_over(run_id)
    await writer.release()
    assert (await anywhere.journal.info(run_id)).status == "queued"
    assert [ticket.run_id for ticket in await tickets(anywhere)] == [run_id]


async def test_a_queued_run_may_be_forked(alone: Runtime) -> None:
    run_id = await alone.submit(agent([says("hi")]), "hello")
    result = await alone.fork(run_id, turn=0, text="hello again")
    assert result.text == "hi"
    assert (await alone.journal.info(run_id)).status == "queued"
