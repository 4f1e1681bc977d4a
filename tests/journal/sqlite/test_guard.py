"""Journals whose files are opened by other code, removed, renamed or linked while a process drives
runs in them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.doubles import agent, asks, call, open_runtime, says
from tests.journal.processes import Process
from tests.journal.runs import fact, refuses, started
from treadle import tool as make_tool
from treadle._internal.held_files import HELD, read_checked
from treadle.errors import AgentError
from treadle.journal.journal import RunWriter
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite import writer as writing
from treadle.tools.builtin.coding import default_tools
from treadle.types import Limits

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells which locks a process has"
)


@pytest.fixture
def driver(path: Path) -> Iterator[Process]:
    process = Process("tests.journal.sqlite.driver", str(path))
    process.ready()
    assert process.ask("begin run_1") == "begun"
    yield process
    process.close()


async def lost(writer: RunWriter) -> AgentError:
    """Appends until the journal refuses."""
    with anyio.fail_after(20):
        while True:
            try:
                await writer.append([fact("more")])
            except AgentError as e:
                return e
            await anyio.lowlevel.checkpoint()


def append_until_refused(driver: Process, last: int = 1) -> tuple[int, str]:
    """The number of the last entry, and the answer to the next append. The driver may be told to
    stop in between.
    """
    while not (answer := driver.ask("append run_1 more")).startswith("agent: "):
        last = int(answer) if answer.isdecimal() else last
    return last, answer


# ---------------------------------------------------------------- locks that a process loses


async def test_a_journal_whose_driver_lost_its_locks_is_not_opened(
    path: Path, driver: Process
) -> None:
    assert driver.ask("append run_1 a") == "2"
    assert driver.ask("touch -shm") == "touched"
    with refuses(
        "agent",
        rf"another process \(pid {driver.pid}\) has the journal .* open, but no longer holds its locks",
    ):
        SqliteJournal.open(path)
    assert path.with_name(path.name + "-shm").stat().st_size >= 32_768


async def test_a_driver_that_lost_its_locks_appends_nothing_more(
    path: Path, driver: Process
) -> None:
    assert driver.ask("touch -shm") == "touched"
    last, answer = append_until_refused(driver)
    assert answer.startswith("agent: the journal ")
    assert (
        "-shm' was dropped, because something in this process opened and closed the file" in answer
    )
    assert append_until_refused(driver) == (1, answer)
    driver.kill()
    journal = SqliteJournal.open(path)
    assert len(await journal.read("run_1")) == last
    await journal.aclose()


async def test_a_process_that_closes_does_not_delete_the_log_of_one_that_lost_its_locks(
    path: Path, journal: SqliteJournal, driver: Process
) -> None:
    assert driver.ask("append run_1 a") == "2"
    assert driver.ask("touch . -shm") == "touched"
    await journal.runs()
    await journal.aclose()
    assert path.with_name(path.name + "-wal").exists()
    last, _ = append_until_refused(driver, 2)
    driver.kill()
    again = SqliteJournal.open(path)
    assert len(await again.read("run_1")) == last
    await again.aclose()


async def test_no_other_process_writes_in_the_middle_of_a_transaction_whose_lock_was_dropped(
    path: Path, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would write over what is being committed."""
    writer = await journal.begin(started())
    other = Process("tests.journal.sqlite.driver", str(path), "0.1")
    other.ready()
    assert other.ask("begin run_2") == "begun"
    answers: list[str] = []

    def in_the_middle() -> None:
        if not answers:
            open(f"{path}-shm").close()
            answers.append(other.ask("append run_2 b"))

    monkeypatch.setattr(writing, "boundary", in_the_middle)
    assert await writer.append([fact("a")]) == 2
    assert answers[0].startswith("agent: another process keeps the journal")
    assert other.ask("append run_2 b") == "2"
    assert len(await journal.read(writer.run_id)) == 2
    other.kill()
    other.close()


async def test_the_lock_on_the_file_itself_is_taken_again(
    path: Path, journal: SqliteJournal, caplog: pytest.LogCaptureFixture
) -> None:
    writer = await journal.begin(started())
    path.read_bytes()
    with anyio.fail_after(20):
        while "was taken again" not in caplog.text:
            await writer.append([fact("more")])
            await anyio.lowlevel.checkpoint()
    await writer.append([fact("and more")])


async def test_a_run_that_waits_is_stopped_once_the_locks_are_gone(
    path: Path, journal: SqliteJournal
) -> None:
    stopped = anyio.Event()
    journal.on_stop(lambda run_id: stopped.set())
    writer = await journal.begin(started())
    open(f"{path}-shm").close()
    with anyio.fail_after(20):
        await stopped.wait()
    with refuses("agent", "is no longer used"):
        await writer.append([fact("more")])


# ---------------------------------------------------------------- files that change


def removes(path: Path) -> None:
    path.unlink()


def renames(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def restores(path: Path) -> None:
    copy = path.with_name("backup.db")
    shutil.copyfile(path, copy)
    os.replace(copy, path)


def links(path: Path) -> None:
    path.with_name("second.db").hardlink_to(path)


def tidies_locks(path: Path) -> None:
    for lock in path.with_name(path.name + "-workers").iterdir():
        lock.unlink()


def tidies_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def tidies_guard(path: Path) -> None:
    path.with_name(path.name + "-guard").unlink()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (removes, "journal.db' was removed or renamed"),
        (renames, "journal.db' was removed or renamed"),
        (restores, "journal.db' was replaced by another file"),
        (links, "was given a second name"),
        (tidies_locks, r"journal.db-workers/worker_\w+.lock' was removed or renamed"),
        (tidies_log, "journal.db-wal' was removed or renamed"),
        (tidies_guard, "journal.db-guard' was removed or renamed"),
    ],
)
async def test_nothing_is_appended_after_the_files_have_changed(
    path: Path, journal: SqliteJournal, change: Callable[[Path], None], why: str
) -> None:
    writer = await journal.begin(started())
    change(path)
    error = await lost(writer)
    assert (error.kind, "Restore its files, and restart this process" in error.message) == (
        "agent",
        True,
    )
    with refuses("agent", why):
        await writer.append([fact("more")])


async def test_a_run_whose_journal_is_removed_ends_in_an_error_that_says_so(path: Path) -> None:
    journal = SqliteJournal.open(path)
    rt = open_runtime(journal=journal)
    calls = 0

    @make_tool(effect="once")
    async def send(n: int) -> str:
        """Sends it."""
        nonlocal calls
        calls += 1
        if calls == 1:
            path.unlink()
        return f"sent {n}"

    turns = [asks(call("send", n=n)) for n in range(2_000)]
    with anyio.fail_after(20):
        result = await rt.run(agent([*turns, says("done")], send), "go", limits=Limits(turns=3_000))
    assert result.error is not None
    assert "was removed or renamed" in result.error.message
    await rt.aclose()


# ---------------------------------------------------------------- files of an open journal


@pytest.mark.parametrize(
    "name", ["journal.db", "journal.db-wal", "journal.db-shm", "journal.db-guard"]
)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {}),
        ("edit", {"edits": [{"old": "a", "new": "b"}]}),
        ("write", {"content": "x"}),
        ("grep", {"pattern": "x"}),
    ],
)
async def test_tools_do_not_open_files_of_an_open_journal(
    tmp_path: Path, path: Path, tool: str, arguments: dict[str, object], name: str
) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    rt = open_runtime()
    turns = [asks(call(tool, path=name, **arguments)), says("done")]
    result = await rt.run(agent(turns, *default_tools()), "go", cwd=tmp_path, mode="full")
    [told] = [r for m in result.messages for r in m.tool_results]
    if tool != "grep":  # searches in a process of its own
        assert told.is_error
        assert "belongs to a journal that this process has open" in told.text
    await rt.aclose()
    assert journal._guard._broken() is None  # pyright: ignore[reportPrivateUsage]
    await writer.append([fact("more")])
    await journal.aclose()


async def test_a_file_of_a_closed_journal_is_an_ordinary_file(path: Path) -> None:
    journal = SqliteJournal.open(path)
    assert HELD.has(path.stat())
    await journal.aclose()
    assert not HELD.has(path.stat())
    assert sorted(one.name for one in path.parent.iterdir()) == ["journal.db"]


async def test_two_journals_of_one_process_share_a_guard(path: Path, driver: Process) -> None:
    one, two = SqliteJournal.open(path), SqliteJournal.open(path)
    await one.aclose()
    assert HELD.has(path.stat())
    assert len(await two.read("run_1")) == 1
    await two.aclose()
    assert driver.ask("append run_1 more") == "2"


def test_a_file_with_the_inode_of_a_dropped_journal_can_be_read(tmp_path: Path) -> None:
    """As after a journal that was dropped without closing it."""
    path = tmp_path / "notes.txt"
    path.write_text("Ada")
    HELD.add("a journal", [(path.stat().st_dev, path.stat().st_ino)])
    try:
        with path.open("rb"), pytest.raises(OSError, match="a journal that this process has open"):
            read_checked(path)
        assert read_checked(path) == b"Ada"
    finally:
        HELD.remove("a journal")
