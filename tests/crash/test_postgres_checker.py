"""What guards the PostgreSQL journal is missed when it is gone: with each taken away the checker
turns red, and with all in place it is green.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from tests.crash.accounts import Bounds
from tests.crash.nursery import Nursery
from tests.crash.postgres import ChaosServer
from tests.crash.sabotage import Guard
from tests.crash.sweep import Stage, sweep
from tests.crash.zombies import zombie

AROUND_THE_FIRST_CALL = (8, 9, 11)


@pytest.mark.parametrize(
    ("without", "rules"),
    [
        ((), set[str]()),
        (("start",), {"once", "no effect without a start"}),
        (("barrier",), {"turn", "nothing acknowledged is lost"}),
    ],
    ids=["nothing", "the start of a call", "the second barrier"],
)
def test_without_a_barrier_the_checker_turns_red(
    nursery: Nursery,
    tmp_path: Path,
    chaos_server: ChaosServer,
    without: tuple[Guard, ...],
    rules: set[str],
) -> None:
    swept = sweep(
        nursery, tmp_path, "one", at=AROUND_THE_FIRST_CALL, without=without, server=chaos_server
    )
    assert swept.points == len(AROUND_THE_FIRST_CALL)
    assert rules <= swept.rules if rules else not swept.rules


def test_without_all_that_says_who_appends_a_sleeper_goes_on_when_it_wakes_up(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    verdict, _ = zombie(nursery, tmp_path / "x", "model", without=("fence",), server=chaos_server)
    assert {"once", "one end"} <= verdict.rules


@pytest.mark.parametrize("without", ["only fence", "only head", "only owner"])
def test_each_of_the_three_alone_is_made_up_for_by_the_others(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer, without: Guard
) -> None:
    verdict, said = zombie(
        nursery, tmp_path / "x", "model", without=(without,), server=chaos_server
    )
    assert not verdict.violations
    assert "is no longer held by this driver" in said


def test_where_the_fence_fails_the_index_still_refuses_a_second_result(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    kept, said = zombie(nursery, tmp_path / "with", "look", without=("fence",), server=chaos_server)
    assert "one result" not in kept.rules
    assert "rejected the operation" in said
    lost, _ = zombie(
        nursery, tmp_path / "without", "look", without=("fence", "index"), server=chaos_server
    )
    assert "one result" in lost.rules


@pytest.mark.parametrize("without", [(), ("only head", "index")], ids=["with", "without"])
def test_only_the_head_tells_an_append_that_is_sent_again_from_a_new_one(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer, without: tuple[Guard, ...]
) -> None:
    stage = Stage(nursery, tmp_path / "x", "one", without, chaos_server)
    said = nursery.drive(msgspec.structs.replace(stage.task, fault="answers")).said
    verdict = stage.judge_open()
    if without:
        assert "one result" in verdict.rules
    else:
        assert said == "completed\n"
        assert not verdict.violations


@pytest.mark.parametrize("without", [(), ("lease",)], ids=["with", "without"])
def test_only_the_look_at_the_lease_keeps_a_probe_from_being_asked_while_the_call_is_under_way(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer, without: tuple[Guard, ...]
) -> None:
    """Its model thinks for longer than its lease, which nobody renews.

    Without the look the effect happens twice if the other process comes in time, so it gets three
    chances, each with more time. With it, nothing is wrong: a driver without its lease may lose an
    answer (`cut_off`).
    """
    found = set[str]()
    stories = ("slow check", "slower check", "slowest check")
    for story in stories if without else stories[:1]:
        stage = Stage(nursery, tmp_path / story, story, without, chaos_server)
        with Nursery() as another:
            first = threading.Thread(
                target=another.drive,
                args=[msgspec.structs.replace(stage.task, fault="renewals", lease_s=1.0)],
            )
            first.start()
            while not _has_started(chaos_server, stage.url):
                assert first.is_alive()
            while first.is_alive():
                nursery.drive(msgspec.structs.replace(stage.task, do="go on"))
            first.join()
        stage.bounds = Bounds(cut_off=True)
        found |= stage.judge_open().rules
        if "once" in found:
            break
    assert found == ({"once"} if without else set())


def _has_started(server: ChaosServer, url: str) -> bool:
    return server.sql_of(url, "select 1 from treadle.entries where type = 'tool.started'") != []
