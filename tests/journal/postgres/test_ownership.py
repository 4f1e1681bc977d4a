"""Who drives a run, among real processes that die, stop and wake up."""

from __future__ import annotations

import logging
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.processes import Process
from tests.journal.runs import entries_of, fact, finished, refuses, resumed, started
from tests.workers.worker.conftest import working
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.entries import ModelSwitched
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.queue import Ticket
from treadle.journal.run_info import Holder
from treadle.runtime.closing_runs import until_idle, waiting_for
from treadle.runtime.runtime import Runtime
from treadle.types import now
from treadle.workers.engines.local import LocalEngine
from treadle.workers.worker.driving import Driving

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")

EXPIRE = "update treadle.workers set lease_until_us = treadle.now_us() - 1"


Starts = Callable[..., Process]


@pytest.fixture
def start(postgres_url: str) -> Iterator[Starts]:
    running: list[Process] = []

    def begin(lease_s: float = 15) -> Process:
        running.append(Process("tests.journal.postgres.driver", postgres_url, str(lease_s)))
        running[-1].ready()
        return running[-1]

    yield begin
    for process in running:
        process.close()


async def _taken(journal: Journal, run_id: str) -> RunWriter:
    """As soon as its lease runs out."""
    with anyio.fail_after(30):
        while True:
            try:
                return await journal.take_over(run_id)
            except AgentError as e:
                if e.kind != "busy":
                    raise
                await anyio.sleep(0.05)  # asked again, not waited for


async def test_a_living_process_keeps_its_run(journal: Journal, start: Starts) -> None:
    process = start()
    assert process.ask("begin run_1") == "begun"
    assert (await journal.info("run_1")).status == "running"
    with refuses(
        "busy", f"run_1 is being driven by process {process.pid}: wait for its end, or stop it"
    ):
        await journal.take_over("run_1")
    assert process.ask("append run_1 a") == "2"


async def test_who_holds_a_session_is_told_across_processes(
    journal: Journal, start: Starts, look: Look
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
    look(EXPIRE)
    assert await journal.holder("ada") is None
    with refuses("busy", "run_1 of this session is not finished"):
        await journal.begin(started("run_2", session="ada"))
    assert start().ask("take run_1") == "fence 2"


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere nothing proves that a process is gone"
)
async def test_a_run_whose_process_was_killed_on_this_host_is_free_at_once(
    journal: Journal, start: Starts, look: Look
) -> None:
    process = start(3600)
    process.ask("begin run_1")
    process.kill()
    assert (await journal.info("run_1")).status == "stopped"
    assert (await journal.take_over("run_1")).fence == 2
    assert look("select count(*) from treadle.workers where lease_until_us > treadle.now_us()") == [
        (2,)
    ], "no lease has run out"


@pytest.mark.parametrize(
    "elsewhere", ["identity = 'another host, and ' || identity", "identity = null"]
)
async def test_a_run_whose_process_was_killed_elsewhere_is_free_when_its_lease_ends(
    journal: Journal,
    start: Starts,
    look: Look,
    elsewhere: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "treadle")
    process = start(3600)
    process.ask("begin run_1")
    process.kill()
    look(f"update treadle.workers set {elsewhere}")
    with refuses(
        "busy",
        "If that process has died, its lease ends in 3600 s.*`treadle runs resume run_1 --wait` waits",
    ):
        await journal.take_over("run_1")
    info = await journal.info("run_1")
    assert waiting_for(info) == (
        "waiting until no other process drives run run_1: if that process has died, its lease ends "
        "in 3600 s"
    )
    ticket = Ticket(
        run_id="run_1", queue="default", priority=0, tenant=None, delivery=1, queued_at=now()
    )
    runtime = Runtime(journal=journal)
    await Driving(runtime, LocalEngine(), None, None).deliver(ticket)
    async with working(runtime):
        pass
    lasts = r"its lease ends in 3\d{3} s"
    for said in (
        f"ignored a delivery: run run_1 is driven by another process: .* {lasts}",
        r"1 runs are driven on other hosts: .* ends in 3\d{3} s, and their runs are ready then",
    ):
        assert re.search(said, caplog.text)
    look(EXPIRE)
    assert (await until_idle(journal, "run_1")).lease_s is None
    await journal.take_over("run_1")


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere nothing proves that a process is gone"
)
async def test_a_process_that_took_the_id_of_a_dead_one_keeps_no_run(
    journal: Journal, start: Starts, look: Look
) -> None:
    process = start(3600)
    process.ask("begin run_1")
    look("update treadle.workers set identity = identity || '1'")
    assert (await journal.info("run_1")).status == "stopped"
    await journal.take_over("run_1")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_process_that_sees_the_processes_of_another_container_does_not_identify_itself() -> None:
    contained = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*contained, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("there are no containers here")
    asks = "from treadle.journal.postgres.workers import identity; print(identity())"
    for command, known in (([], True), (contained, False), ([*contained, "--mount-proc"], True)):
        done = subprocess.run(
            [*command, sys.executable, "-c", asks], capture_output=True, text=True, check=True
        )
        assert (done.stdout.strip() != "None") == known, command


async def test_a_killed_processs_run_is_free_once_its_lease_has_run_out(
    journal: Journal, start: Starts, look: Look
) -> None:
    process = start(1)
    process.ask("begin run_1")
    look("update treadle.workers set identity = null")
    process.ask("append run_1 a")
    process.kill()
    writer = await _taken(journal, "run_1")
    assert writer.fence == 2
    assert await writer.append([resumed(2), finished()]) == 3
    assert await entries_of(journal, after=1) == [fact("a"), resumed(2), finished()]


async def test_a_process_that_lives_keeps_its_run_past_many_leases(
    journal: Journal, start: Starts, look: Look
) -> None:
    process = start(1)
    process.ask("begin run_1")
    (given,) = look("select lease_until_us from treadle.workers")
    with anyio.fail_after(30):
        while look("select treadle.now_us() > %s + 1000000 from treadle.workers", *given) == [
            (False,)
        ]:
            assert (await journal.info("run_1")).status == "running"
            await anyio.sleep(0.1)  # looked at again, not waited for
    assert process.ask("append run_1 a") == "2"


async def test_a_zombie_whose_run_was_taken_appends_nothing_and_begins_no_call(
    journal: Journal, start: Starts
) -> None:
    process = start(1)
    process.ask("begin run_1")
    process.ask("append run_1 a")
    process.send(signal.SIGSTOP)
    writer = await _taken(journal, "run_1")
    assert await writer.append([resumed(writer.fence), fact("b")]) == 3
    process.send(signal.SIGCONT)
    assert process.ask("append run_1 too-late").startswith(
        "busy: run run_1 is no longer held by this driver"
    )
    assert process.ask("once run_1 c").startswith("busy")
    assert process.ask("finish run_1").startswith("busy")
    assert process.ask("release run_1") == "released"
    assert await writer.append([finished()]) == 5
    assert await entries_of(journal, after=1) == [fact("a"), resumed(2), fact("b"), finished()]


async def test_a_zombie_whose_run_nobody_took_goes_on(
    journal: Journal, start: Starts, look: Look
) -> None:
    process = start(1)
    process.ask("begin run_1")
    process.send(signal.SIGSTOP)
    with anyio.fail_after(30):
        while (await journal.info("run_1")).status != "stopped":
            await anyio.sleep(0.05)  # looked at again, not waited for
    process.send(signal.SIGCONT)
    assert process.ask("once run_1 c") == "2"
    assert look("select lease_until_us > treadle.now_us() from treadle.workers") == [(True,)]
    assert process.ask("finish run_1") == "3"


async def test_one_of_many_takes_a_dead_drivers_run_over(start: Starts, look: Look) -> None:
    process = start()
    process.ask("begin run_1")
    others = [start() for _ in range(3)]
    for other in others:
        other.ask("begin run_of_" + str(other.pid))
    process.kill()
    look(
        "update treadle.workers set lease_until_us = treadle.now_us() - 1 where pid = %s",
        process.pid,
    )
    for other in others:
        other.say("take run_1")
    said = sorted(other.hear() for other in others)
    assert said[-1] == "fence 2"
    assert [word.split(":")[0] for word in said[:-1]] == ["busy", "busy"]


async def test_a_process_that_is_killed_while_it_appends_loses_nothing_it_was_told(
    postgres_url: str, start: Starts, look: Look
) -> None:
    for time in range(3):
        process, told = start(), 0
        process.ask(f"begin run_{time}")
        process.say(f"flood run_{time}")
        for _ in range(20 * (time + 1)):
            told = int(process.hear())
        process.kill()
        look(EXPIRE)
        journal = open_journal(postgres_url)
        assert (await journal.take_over(f"run_{time}")).fence == 2
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
        await journal.aclose()


async def test_a_driver_in_another_process_hears_that_it_shall_stop(
    journal: Journal, start: Starts, look: Look
) -> None:
    process = start()
    process.ask("begin run_1")
    process.ask("begin run_2")
    assert await journal.ask_to_stop("run_2")
    with anyio.fail_after(20):
        assert await anyio.to_thread.run_sync(process.hear) == "stop run_2"
    assert process.ask("finish run_2") == "2"
    assert look("select * from treadle.stops") == []
    process.kill()
    look(EXPIRE)
    assert not await journal.ask_to_stop("run_1")


async def test_a_driver_hears_that_it_shall_stop_also_where_nobody_notifies(
    journal: Journal, look: Look
) -> None:
    stopped = anyio.Event()
    journal.on_stop(lambda run_id: stopped.set())
    await journal.begin(started())
    look("insert into treadle.stops select num from treadle.runs")
    with anyio.fail_after(20):
        await stopped.wait()


async def test_a_request_to_stop_waits_for_a_listener(postgres_url: str, look: Look) -> None:
    renewed = "select seen_at_us from treadle.workers"
    journal = open_journal(postgres_url, lease_s=1)
    try:
        await journal.begin(started())
        look("insert into treadle.stops select num from treadle.runs")
        stopped = anyio.Event()
        with anyio.fail_after(30):
            for _ in range(2):  # each renewal is followed by a check
                before = look(renewed)
                while look(renewed) == before:
                    await anyio.sleep(0.01)
            journal.on_stop(lambda run_id: stopped.set())
            await stopped.wait()
    finally:
        await journal.aclose()


async def test_a_wish_to_stop_dies_with_the_driver(
    journal: Journal, start: Starts, look: Look
) -> None:
    process = start()
    process.ask("begin run_1")
    process.send(signal.SIGSTOP)
    assert await journal.ask_to_stop("run_1")
    process.kill()
    look(EXPIRE)
    assert look("select count(*) from treadle.stops") == [(1,)]
    await journal.take_over("run_1")
    assert look("select count(*) from treadle.stops") == [(0,)]


FORKED = """
import os, sys
import anyio
from tests.journal.runs import fact, started
from treadle.errors import AgentError
from treadle.journal import open_journal

journal = open_journal(sys.argv[1], lease_s=1)

async def begin():
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    await journal.read("run_1")
    return writer

async def in_the_child():
    refused = 0
    for what in (lambda: writer.append([fact("child")]), lambda: journal.read("run_1"), lambda: journal.begin(started("run_2"))):
        try:
            await what()
        except AgentError as e:
            refused += "is closed: open it again" in e.message
    await journal.aclose()
    return refused

async def in_the_parent():
    await writer.append([fact("b")])
    assert [record.seq for record in await journal.read("run_1")] == [1, 2, 3]
    assert (await journal.info("run_1")).status == "running"
    await journal.aclose()

writer = anyio.run(begin)
if (child := os.fork()) == 0:
    sys.exit(anyio.run(in_the_child))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
anyio.run(in_the_parent)
"""


def test_a_forked_child_writes_and_reads_nothing_through_its_parents_journal(
    postgres_url: str,
) -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, postgres_url],
        check=True,
        timeout=200,
        cwd=Path(__file__).parents[3],
    )
