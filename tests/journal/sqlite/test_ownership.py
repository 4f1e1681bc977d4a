"""Who drives a run, among real processes that die, stop and wake up."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from tests.journal.processes import Process
from tests.journal.runs import entries_of, fact, finished, refuses, resumed, started
from tests.journal.sqlite.conftest import Look
from treadle._internal.file_lock import hold
from treadle.errors import AgentError
from treadle.journal.entries import ModelSwitched
from treadle.journal.run_info import Holder
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite.workers import SqliteWorkers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")


Starts = Callable[[], Process]


@pytest.fixture
def start(path: Path) -> Iterator[Starts]:
    running: list[Process] = []

    def begin() -> Process:
        running.append(Process("tests.journal.sqlite.driver", str(path)))
        running[-1].ready()
        return running[-1]

    yield begin
    for process in running:
        process.close()


async def test_a_living_process_keeps_its_run(journal: SqliteJournal, start: Starts) -> None:
    process = start()
    assert process.ask("begin run_1") == "begun"
    assert (await journal.info("run_1")).status == "running"
    with refuses(
        "busy", f"run_1 is being driven by process {process.pid}: wait for its end, or stop it"
    ):
        await journal.take_over("run_1")
    assert process.ask("append run_1 a") == "2"


async def test_who_holds_a_session_is_told_across_processes(
    journal: SqliteJournal, start: Starts
) -> None:
    process = start()
    process.ask("begin run_1 ada")
    held = await journal.holder("ada")
    assert held == Holder(
        run_id="run_1", pid=process.pid, host=socket.gethostname(), since=started().at
    )
    with refuses(
        "busy",
        f"run_1 of this session is running already, in process {process.pid}: wait for its end",
    ):
        await journal.begin(started("run_2", session="ada"))
    process.kill()
    assert await journal.holder("ada") is None
    assert start().ask("take run_1") == "fence 2"
    taken = await journal.holder("ada")
    assert taken is not None
    assert taken.pid not in (None, process.pid)


async def test_a_killed_processs_run_is_free_at_once(
    journal: SqliteJournal, start: Starts, path: Path
) -> None:
    process = start()
    process.ask("begin run_1")
    process.ask("append run_1 a")
    process.kill()
    assert (await journal.info("run_1")).status == "stopped"
    writer = await journal.take_over("run_1")
    assert writer.fence == 2
    assert await writer.append([resumed(2), finished()]) == 3
    assert await entries_of(journal, after=1) == [fact("a"), resumed(2), finished()]
    assert len(list(path.with_name("journal.db-workers").iterdir())) == 1


async def test_a_stopped_process_keeps_its_run_until_somebody_insists(
    journal: SqliteJournal, start: Starts
) -> None:
    process = start()
    process.ask("begin run_1")
    process.ask("append run_1 a")
    process.send(signal.SIGSTOP)
    with refuses("busy"):
        await journal.take_over("run_1")
    writer = await journal.take_over("run_1", force=True)
    assert await writer.append([resumed(writer.fence), fact("b")]) == 3
    process.send(signal.SIGCONT)
    assert process.ask("append run_1 too-late").startswith(
        "busy: run run_1 is no longer held by this driver"
    )
    assert process.ask("finish run_1").startswith("busy")
    assert process.ask("release run_1") == "released"
    assert await writer.append([finished()]) == 5
    assert await entries_of(journal, after=1) == [fact("a"), resumed(2), fact("b"), finished()]


@pytest.fixture
def no_more_files() -> Iterator[Callable[[], None]]:
    """Takes from this process what it would need to open one more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_without_descriptors_no_living_driver_is_taken_for_dead(
    journal: SqliteJournal, start: Starts, no_more_files: Callable[[], None]
) -> None:
    process = start()
    process.ask("begin run_1")
    await journal.begin(started("run_2"))
    no_more_files()
    for _ in range(2):
        with refuses(
            "agent", "This process has too many files open: close some, or raise `ulimit -n`"
        ):
            await journal.take_over("run_1")
        with refuses("agent", "nothing was"):
            await journal.info("run_1")
    assert process.ask("append run_1 a") == "2"


async def test_a_lock_file_that_cannot_be_opened_is_no_proof_of_a_death(
    journal: SqliteJournal, start: Starts, path: Path
) -> None:
    process = start()
    process.ask("begin run_1")
    (lock,) = path.with_name("journal.db-workers").iterdir()
    lock.rename(lock.with_suffix(".kept"))
    lock.symlink_to(lock.with_suffix(".kept"))  # which is not followed, for root neither
    with refuses("agent", f"{str(lock)!r} cannot be opened"):
        await journal.take_over("run_1")
    assert lock.is_symlink()
    lock.unlink()
    lock.with_suffix(".kept").rename(lock)
    assert process.ask("append run_1 a") == "2"


async def test_one_of_many_takes_a_dead_drivers_run_over(
    journal: SqliteJournal, start: Starts
) -> None:
    process = start()
    process.ask("begin run_1")
    process.kill()
    others = [start() for _ in range(3)]
    for other in others:
        other.say("take run_1")
    said = sorted(other.hear() for other in others)
    assert said[-1] == "fence 2"
    assert [word.split(":")[0] for word in said[:-1]] == ["busy", "busy"]


async def test_a_process_that_is_killed_while_it_appends_loses_nothing_it_was_told(
    path: Path, start: Starts, look: Look
) -> None:
    told = 0
    for time in range(3):
        process = start()
        process.ask(f"begin run_{time}")
        process.say(f"flood run_{time}")
        for _ in range(20 * (time + 1)):
            told = int(process.hear())
        process.kill()
        assert look("pragma integrity_check") == [("ok",)]
        journal = SqliteJournal.open(path)
        found = [
            entry.model
            for entry in await entries_of(journal, f"run_{time}", after=1)
            if isinstance(entry, ModelSwitched)
        ]
        assert len(found) % 2 == 0
        assert len(found) // 2 > told
        assert found == [
            word for number in range(len(found) // 2) for word in (str(number), f"{number} again")
        ]
        assert (await journal.take_over(f"run_{time}")).fence == 2
        await journal.aclose()


async def test_a_driver_in_another_process_hears_that_it_shall_stop(
    journal: SqliteJournal, start: Starts, look: Look
) -> None:
    process = start()
    process.ask("begin run_1")
    process.ask("begin run_2")
    assert await journal.ask_to_stop("run_2")
    with anyio.fail_after(20):
        assert await anyio.to_thread.run_sync(process.hear) == "stop run_2"
    assert process.ask("finish run_2") == "2"
    assert look("select * from stops") == []
    process.kill()
    assert not await journal.ask_to_stop("run_1")


async def test_a_session_is_not_cleared_under_the_run_of_another_process(
    journal: SqliteJournal, path: Path
) -> None:
    other = SqliteJournal.open(path)
    writer = await other.begin(started("run_1", session="ada"))
    with refuses("busy", "run run_1 of session 'ada' is running"):
        journal.sessions.clear_messages("ada")
    await writer.append([finished()])
    assert journal.sessions.clear_messages("ada")
    assert journal.sessions.get_messages("ada") == []
    await other.aclose()


async def test_a_wish_to_stop_that_comes_while_the_run_is_being_begun_is_heard(
    journal: SqliteJournal, path: Path
) -> None:
    other, stopped = SqliteJournal.open(path), list[str]()
    journal.on_stop(stopped.append)
    await journal.begin(started("run_1"))
    writer = await journal.begin(started("run_2"))

    async def look_after() -> None:
        await journal._writer.write(lambda db: journal._chores(db, idle=False), alone=True)  # pyright: ignore[reportPrivateUsage]
        await anyio.lowlevel.checkpoint()

    num = getattr(writer, "num")  # noqa: B009
    journal._held.remove(num, 1)  # it is in the file, and not known here yet  # pyright: ignore[reportPrivateUsage]
    assert await other.ask_to_stop("run_2")
    await look_after()
    journal._held.add(num, "run_2", 1)  # now it is  # pyright: ignore[reportPrivateUsage]
    await look_after()
    assert stopped == ["run_2"]
    await other.aclose()


async def test_a_wish_to_stop_dies_with_the_driver(
    journal: SqliteJournal, start: Starts, look: Look
) -> None:
    process = start()
    process.ask("begin run_1")
    process.send(signal.SIGSTOP)
    assert await journal.ask_to_stop("run_1")
    process.kill()
    assert look("select count(*) from stops") == [(1,)]
    await journal.take_over("run_1")
    assert look("select count(*) from stops") == [(0,)]


async def test_a_session_is_busy_across_processes(journal: SqliteJournal, start: Starts) -> None:
    process = start()
    process.ask("begin run_1 ada")
    with refuses("busy", "run_1 of this session is running already"):
        await journal.begin(started("run_2", session="ada"))
    with refuses("busy", "run run_1 of session 'ada' is running"):
        journal.sessions.delete("ada")
    process.kill()
    with refuses("busy", "run_1 of this session is not finished"):
        await journal.begin(started("run_2", session="ada"))
    assert journal.sessions.delete("ada")
    await journal.begin(started("run_2", session="ada"))


async def test_two_processes_write_to_one_file_and_lose_nothing(
    journal: SqliteJournal, start: Starts
) -> None:
    processes = [start() for _ in range(2)]
    for number, process in enumerate(processes):
        process.ask(f"begin run_{number}")
    for n in range(20):
        for number, process in enumerate(processes):
            process.say(f"append run_{number} word_{n}")
    writer = await journal.begin(started("mine"))
    for n in range(20):
        await writer.append([fact(f"word_{n}")])
    for process in processes:
        assert [process.hear() for _ in range(20)] == [str(n + 2) for n in range(20)]
    for name in ("run_0", "run_1", "mine"):
        assert await entries_of(journal, name, after=1) == [fact(f"word_{n}") for n in range(20)]


# ---------------------------------------------------------------- in one process


async def test_two_journals_of_one_process_are_two_workers(
    journal: SqliteJournal, path: Path
) -> None:
    other = SqliteJournal.open(path)
    await journal.begin(started())
    with refuses("busy", f"by process {os.getpid()}"):
        await other.take_over("run_1")
    await journal.aclose()
    assert (await other.take_over("run_1")).fence == 2
    await other.aclose()


async def test_a_worker_registers_when_it_drives_and_goes_when_it_closes(path: Path) -> None:
    folder = path.with_name("journal.db-workers")
    journal = SqliteJournal.open(path)
    assert await journal.runs() == []
    assert not folder.exists()
    await journal.begin(started())
    (lock,) = folder.iterdir()
    assert lock.read_text() == f"{os.getpid()}\n{socket.gethostname()}\n"
    await journal.aclose()
    assert list(folder.iterdir()) == []


async def test_programs_that_a_dead_driver_started_do_not_keep_its_runs(
    journal: SqliteJournal, start: Starts
) -> None:
    process = start()
    process.ask("begin run_1")
    child = int(process.ask("spawn"))
    process.kill()
    try:
        assert (await journal.take_over("run_1")).fence == 2
    finally:
        os.kill(child, signal.SIGKILL)


def test_who_asks_whether_a_driver_lives_is_not_taken_for_it(tmp_path: Path) -> None:
    import fcntl

    folder = tmp_path / "journal.db-workers"
    folder.mkdir()
    (folder / "worker_dead.lock").write_text("123\n")
    with (folder / "worker_dead.lock").open() as asks:
        fcntl.flock(asks, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert SqliteWorkers(tmp_path / "journal.db").process("worker_dead") is None


FORK = """
import os, sys
from pathlib import Path
from treadle.journal.sqlite.workers import SqliteWorkers
mine, others = (SqliteWorkers(Path(sys.argv[1])) for _ in range(2))
me = mine.register()
reads, writes = os.pipe()
child = os.fork()
if child == 0:
    os.close(writes)
    os.read(reads, 1)
    os._exit(0 if mine.me is None else 1)
os.close(reads)
assert others.process(me).pid == os.getpid()
mine.leave()
assert others.process(me) is None
os.close(writes)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_does_not_keep_its_parents_lock(path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(path)], check=True, timeout=200)


FORKED_JOURNAL = """
import os, sys
import anyio
from tests.journal.runs import fact, started
from treadle.errors import AgentError
from treadle.journal.sqlite import SqliteJournal

journal = SqliteJournal.open(sys.argv[1])

async def begin():
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    return writer

async def in_the_child():
    refused = 0
    for what in (lambda: writer.append([fact("child")]), lambda: journal.read("run_1"), lambda: journal.begin(started("run_2"))):
        try:
            await what()
        except AgentError as e:
            refused += "is closed: open it again" in e.message
    return refused

async def in_the_parent():
    await writer.append([fact("b")])
    assert [record.seq for record in await journal.read("run_1")] == [1, 2, 3]
    await journal.aclose()

writer = anyio.run(begin)
if (child := os.fork()) == 0:
    os._exit(anyio.run(in_the_child))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
anyio.run(in_the_parent)
"""


def test_a_forked_child_writes_and_reads_nothing_through_its_parents_journal(path: Path) -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED_JOURNAL, str(path)],
        check=True,
        timeout=200,
        cwd=Path(__file__).parents[3],
    )


def test_the_files_of_the_dead_are_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "journal.db-workers"
    folder.mkdir()
    (folder / "worker_dead.lock").write_text("123\n")
    workers = SqliteWorkers(tmp_path / "journal.db")
    assert workers.process("worker_dead") is None
    assert workers.process("worker_unknown") is None
    assert workers.process("../../etc/passwd") is None
    me = workers.register()
    assert workers.register() == me
    assert [one.name for one in folder.iterdir()] == [f"{me}.lock"]
    workers.leave()
    workers.leave()


@pytest.mark.parametrize(
    ("says", "named", "process"),
    [
        ("", "unknown", (None, None)),
        ("what\n", "unknown", (None, None)),
        ("12\n", "12", (12, None)),
        ("12\nthere\n", "12 on there", (12, "there")),
    ],
)
def test_a_driver_is_alive_whatever_it_says_of_its_process(
    tmp_path: Path, says: str, named: str, process: tuple[int | None, str | None]
) -> None:
    workers = SqliteWorkers(tmp_path / "journal.db")
    workers.folder.mkdir()
    descriptor = hold(workers.folder / "worker_odd.lock", says)
    try:
        living = workers.process("worker_odd")
        assert living is not None
        assert (living.named, living[:2]) == (named, process)
    finally:
        os.close(descriptor)


def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "journal.db-workers").write_text("in the way")
    with pytest.raises(AgentError, match=r"cannot be created in '.*journal.db-workers'"):
        SqliteWorkers(tmp_path / "journal.db").register()


def test_threads_that_begin_their_first_run_at_once_are_one_worker(tmp_path: Path) -> None:
    workers = SqliteWorkers(tmp_path / "journal.db")
    together = threading.Barrier(8)

    def register(_: int) -> str:
        together.wait()
        return workers.register()

    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(register, range(8)))
    assert [one.name for one in workers.folder.iterdir()] == [f"{name}.lock" for name in names]
    workers.leave()
