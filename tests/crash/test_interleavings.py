"""Two drivers over one journal, in every order of their operations up to a depth. `make chaos` goes
deeper.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.crash.interleavings import stores
from tests.crash.interleavings.search import explore
from tests.crash.interleavings.stories import Execution, Name, Story
from tests.service.database.postgres import postgres_server, postgres_urls  # noqa: F401  fixtures

DEPTHS: dict[Name, int] = {
    "resume twice": 8,
    "resume what happened": 5,
    "no probe": 5,
    "prune": 5,
    "start and resume": 6,
    "session": 4,
}


@pytest.fixture(autouse=True)
def small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each execution looks through all variables for credentials."""
    for name in os.environ.keys() - {"HOME", "PATH", "PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", DEPTHS)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_no_order_of_two_drivers_breaks_the_promise(name: Name, kind: str, tmp_path: Path) -> None:
    make = stores.memory if kind == "memory" else partial(stores.sqlite, tmp_path)
    found = explore(Story(name), make, DEPTHS[name] - (kind == "sqlite"), most=1)
    assert found.violations == []
    assert found.interleavings >= found.executions > 10


@pytest.mark.parametrize("name", DEPTHS)
def test_no_order_of_two_drivers_over_postgresql_breaks_the_promise(
    request: pytest.FixtureRequest, tmp_path: Path, name: Name
) -> None:
    urls: Callable[[object], str] = request.getfixturevalue("postgres_urls")
    found = explore(Story(name), partial(stores.postgres, urls(tmp_path)), 3, most=1)
    assert found.violations == []
    assert found.interleavings >= found.executions > 5


def test_no_end_of_a_lease_breaks_the_promise(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    urls: Callable[[object], str] = request.getfixturevalue("postgres_urls")
    make = partial(stores.postgres, urls(tmp_path))
    story = Story("start and resume", lapses=1, drains=0)
    # A is to be answered that the start of its call stands
    found = explore(story, make, 9, most=1, begins=("A",) * 4)
    assert found.violations == []
    assert found.interleavings >= found.executions > 10


@pytest.mark.parametrize("name", ["resume twice", "session", "start and resume"])
def test_schedules_that_are_left_out_lead_to_no_other_end(name: Name) -> None:
    pruned = explore(Story(name), stores.memory, 5)
    every = explore(Story(name), stores.memory, 5, prune=False)
    assert pruned.ends == every.ends
    assert every.executions == every.interleavings == pruned.interleavings


def test_a_state_that_does_not_determine_what_follows_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A drain once was in no state: the driver had stopped before its next operation already, or
    had not, and the schedules after one of both were left out.
    """
    choose = Execution.choose

    async def forget_drain(execution: Execution, choice: str) -> None:
        await choose(execution, choice)
        for driver in execution.stage.drivers.values():
            driver.seen[:] = [one for one in driver.seen if one != "drain"]

    monkeypatch.setattr(Execution, "choose", forget_drain)
    found = explore(Story("resume twice"), stores.memory, 7, prune=False, most=1)
    assert "A leads from" in found.violations[0][1]


def test_a_driver_that_does_not_ask_before_it_repeats_a_call_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.crash.interleavings.gates import GatedWriter

    async def nothing(writer: GatedWriter) -> None:
        """Ask nothing."""

    monkeypatch.setattr(GatedWriter, "verify", nothing)
    found = explore(Story("resume twice"), stores.memory, 8, most=1)
    ((_, what),) = found.violations
    assert what.endswith("-a ran 2 times")
