"""A server that goes away, or cannot be reached, or has no space left, under a whole run: what is
in doubt is looked up, and nothing is lost or doubled.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from tests.crash.nursery import Ended, Nursery
from tests.crash.postgres import ChaosServer
from tests.crash.proxy import Proxy
from tests.crash.sweep import Stage, Swept, robbed
from tests.crash.witness import read_witness
from tests.crash.zombies import Sleeper

MESSAGES_MOST = 300
"""Of a run and its server, in one way."""


@pytest.fixture
def proxy(chaos_server: ChaosServer) -> Proxy:
    assert chaos_server.proxy is not None
    return chaos_server.proxy


def whole(stage: Stage, last: Ended, *, crashes: int) -> None:
    """Everything comes to its end now."""
    swept = Swept()
    verdict = stage.judge(swept, last, crashes=crashes)
    assert not swept.violations
    assert verdict.finished == verdict.runs


@pytest.mark.parametrize("way", ["there", "back"])
def test_a_connection_that_is_lost_in_the_middle_of_any_message_is_made_again_and_the_run_goes_on(
    nursery: Nursery,
    tmp_path: Path,
    chaos_server: ChaosServer,
    proxy: Proxy,
    way: Literal["there", "back"],
) -> None:
    torn = 0
    for number in range(1, MESSAGES_MOST, 3):
        stage = robbed(nursery, tmp_path / f"{number}", "one", server=chaos_server)
        proxy.tear(way, number)
        ended = stage.start()
        if not proxy.tear_none():
            break
        torn += 1
        assert ended.said == "completed\n" or ended.said.startswith("refused"), (
            "only who has not begun gives up at once"
        )
        whole(stage, ended, crashes=0)
    assert torn > 10


def test_a_server_that_dies_at_any_moment_is_waited_for(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    for stop_at in ("model", "effect"):
        stage = robbed(nursery, tmp_path / stop_at, "one", server=chaos_server)
        with Sleeper(nursery, msgspec.structs.replace(stage.task, stop_at=stop_at)) as sleeper:
            chaos_server.stop()
            with ThreadPoolExecutor(1) as pool:
                waking = pool.submit(sleeper.wake)
                assert not wait([waking], timeout=0.5).done, "it waits"
                chaos_server.start()
                said = waking.result()
        assert said == "completed\n"
        whole(stage, Ended(0, said), crashes=0)


def test_a_server_that_is_not_there_is_told_before_anything_is_asked(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    stage = robbed(nursery, tmp_path / "x", "one", server=chaos_server)
    chaos_server.stop()
    try:
        ended = stage.start()
    finally:
        chaos_server.start()
    assert ended.said.startswith(
        "refused no PostgreSQL server responds at 'postgresql://postgres@127.0.0.1"
    )
    assert "see that the server runs there" in ended.said
    assert not read_witness(stage.witness).asked
    whole(stage, ended, crashes=0)


def test_a_stalled_connection_is_waited_for_and_nothing_is_sent_twice(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer, proxy: Proxy
) -> None:
    stage = robbed(nursery, tmp_path / "x", "parallel", server=chaos_server)
    with Sleeper(nursery, msgspec.structs.replace(stage.task, stop_at="model")) as sleeper:
        proxy.stall(0.5)
        said = sleeper.wake()
    assert said == "completed\n"
    whole(stage, Ended(0, said), crashes=0)


# ---------------------------------------------------------------- clocks


def test_the_clock_of_the_database_jumps_ahead_and_a_living_driver_goes_on(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    stage = robbed(nursery, tmp_path / "x", "one", server=chaos_server)
    with Sleeper(nursery, msgspec.structs.replace(stage.task, stop_at="effect")) as sleeper:
        chaos_server.expire(stage.url)
        said = sleeper.wake()
    assert said == "completed\n", "nobody took its run meanwhile"
    whole(stage, Ended(0, said), crashes=0)


def test_the_clock_of_the_database_jumps_back_and_a_dead_drivers_run_is_free_all_the_same(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    stage = robbed(nursery, tmp_path / "x", "one", server=chaos_server)
    assert stage.start(crash_at=7).killed
    chaos_server.sql_of(
        stage.url,
        "update treadle.workers set lease_until_us = lease_until_us + 3600000000, seen_at_us = seen_at_us + 3600000000",
    )
    ended = nursery.drive(msgspec.structs.replace(stage.task, do="go on"))
    assert ended.said == "completed\n"
    whole(stage, ended, crashes=1)


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_clock_of_the_driver_jumps_all_the_time(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer, hours: int
) -> None:
    stage = robbed(nursery, tmp_path / "x", "mixed", server=chaos_server)
    ended = nursery.drive(msgspec.structs.replace(stage.task, fault=f"clock:{hours}"))
    assert ended.said == "completed\n"
    whole(stage, ended, crashes=0)


# ---------------------------------------------------------------- disks


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Of 96 MB, where the user of the server can reach it."""
    with tempfile.TemporaryDirectory(prefix="treadle-disk-") as folder:
        os.chmod(folder, 0o755)
        try:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=96m,mode=755", "none", folder],
                capture_output=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no disk can be mounted here")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_server_without_space_stops_the_run_before_its_next_call_and_it_goes_on_afterwards(
    nursery: Nursery, tmp_path: Path, small_disk: Path
) -> None:
    with ChaosServer(folder=small_disk, max_wal_size="'32MB'", min_wal_size="'32MB'") as server:
        stage = robbed(nursery, tmp_path / "x", "long", server=server)
        with Sleeper(nursery, msgspec.structs.replace(stage.task, stop_at="effect")) as sleeper:
            ballast = small_disk / "ballast"
            _fill(ballast)
            said = sleeper.wake()
            ballast.unlink()
        assert said == "completed\n" or "space" in said
        whole(stage, Ended(0, said), crashes=1)


def _fill(file: Path) -> None:
    """The whole disk."""
    with file.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(b"x" * 4096)


def test_an_append_whose_memory_is_out_is_looked_up_and_told(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    """Once: another connection tells whether it is stored. For good: the cause is told, not what
    follows from it.
    """
    for fault, told in (
        ("memory:2-2", "completed"),
        ("memory:6-6", "completed"),
        ("memory:9-9", "completed"),
        ("memory:6", "error the process is out of memory: the journal "),
        ("memory:9", "error the process is out of memory: the journal "),
    ):
        stage = robbed(nursery, tmp_path / fault, "one", server=chaos_server)
        ended = nursery.drive(msgspec.structs.replace(stage.task, fault=fault))
        assert ended.said.startswith(told)
        whole(stage, ended, crashes=1)
