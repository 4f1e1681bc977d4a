"""Every journal's queue against a simple model of it: whatever is done in whatever order, both say
the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.journal.runs import answers, finished, resumed, started
from tests.profiles import BY_CHANCE
from tests.service.database.postgres import postgres_server as postgres_server
from tests.service.database.postgres import postgres_urls as postgres_urls
from tests.stores import reuse_connections
from treadle.journal import open_journal
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.queue import FRUITLESS_MOST, QueuePlace
from treadle.types import Time, now

RUNS, QUEUES, ENGINES = range(4), ("a", "b"), ("near", "far")
STATES = ("ready", "later", "sent", "running", "waiting", "parked")
_numbers = count()
"""Each example has runs and queues of its own."""


@dataclass
class Model:
    """A run as the contract tells of it."""

    queue: str
    priority: int
    later: bool
    order: int
    owner: int | None = None
    holder: int | str | None = None
    """A claimant, or the name of an engine."""
    waiting: bool = False
    parked: bool = False
    over: bool = False
    deliveries: int = 0
    fruitless: int = 0
    fruit: bool = True
    """It got further since its last delivery, or had none."""

    @property
    def state(self) -> str:
        if self.owner is not None:
            return "running"
        if self.waiting or self.parked:
            return "waiting" if self.waiting else "parked"
        return "sent" if self.holder is not None else "later" if self.later else "ready"

    @property
    def status(self) -> str:
        if self.over:
            return "finished"
        return {"running": "running", "waiting": "waiting", "parked": "stopped"}.get(
            self.state, "queued"
        )

    def is_ready(self, engine: str) -> bool:
        return not self.over and (
            self.state == "ready"
            or (
                self.state == "sent"
                and not self.later
                and self.holder in ENGINES
                and self.holder != engine
            )
        )


@dataclass
class Stage:
    """A journal as several processes have it open, and what it should say."""

    url: str
    journals: list[Journal]
    prefix: str = ""
    runs: dict[str, Model] = field(default_factory=dict[str, Model])
    writers: dict[str, RunWriter] = field(default_factory=dict[str, RunWriter])

    def queue(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def at(self, who: int) -> Journal:
        return self.journals[who % len(self.journals)]

    def known(self, run: str) -> Model | None:
        """One that is not over."""
        one = self.runs.get(run)
        return None if one is None or one.over else one

    # ------------------------------------------------------------ what is done

    async def add(self, who: int, run: str, queue: str, priority: int, later: bool) -> None:
        if run not in self.runs:
            self.runs[run] = Model(
                queue=queue, priority=priority, later=later, order=len(self.runs)
            )
            place = QueuePlace(queue=self.queue(queue), priority=priority, ready_at=hour(later))
            await self.at(who).queue.add([started(run)], place)

    async def claim(self, who: int, run: str, queues: set[str], engine: str, most: int) -> None:
        expected: list[tuple[str, int, int]] = []
        ready = [
            (run, one)
            for run, one in self.runs.items()
            if one.queue in queues and one.is_ready(engine)
        ]
        for run_id, one in sorted(ready, key=lambda pair: (-pair[1].priority, pair[1].order)):
            if len(expected) == most:
                break
            fruitless = 0 if one.fruit else one.fruitless
            if fruitless >= FRUITLESS_MOST:
                one.parked, one.holder = True, None
                continue
            one.fruitless, one.deliveries, one.fruit, one.holder = (
                fruitless + 1,
                one.deliveries + 1,
                False,
                who % len(self.journals),
            )
            expected.append((run_id, one.deliveries, one.fruitless))
        tickets = await self.at(who).queue.claim(
            {self.queue(queue) for queue in queues}, engine=engine, most=most
        )
        assert [
            (ticket.run_id, ticket.delivery, ticket.fruitless) for ticket in tickets
        ] == expected

    async def sent(self, who: int, run: str, engine: str) -> None:
        if (one := self.known(run)) is not None and one.holder == who % len(self.journals):
            one.holder = engine
        await self.at(who).queue.sent([run], engine=engine)

    async def take(self, who: int, run: str) -> None:
        if (one := self.known(run)) is not None and one.owner is None:
            one.owner, one.waiting = who % len(self.journals), False
            one.holder = one.holder if one.holder in (one.owner, *ENGINES) else None
            writer = self.writers[run] = await self.at(who).take_over(run)
            await writer.append([resumed(writer.fence)])

    async def get_further(self, who: int, run: str) -> None:
        if (one := self.known(run)) is not None and one.owner is not None:
            one.fruit = True
            await self.writers[run].append(answers(run, "so far"))

    async def release(self, who: int, run: str, waiting: bool) -> None:
        if (one := self.known(run)) is not None and one.owner is not None:
            one.owner, one.holder, one.waiting, one.later = None, None, waiting, False
            one.fruitless = one.fruitless if waiting else max(one.fruitless - 1, 0)
            await self.writers[run].release(waiting=waiting)

    async def finish(self, who: int, run: str) -> None:
        if (one := self.known(run)) is not None and one.owner is not None:
            one.owner, one.over = None, True
            await self.writers[run].append([finished()])

    async def put_back(self, who: int, run: str, later: bool, moves: str | None) -> None:
        if run not in self.runs:
            return
        one, put = self.runs[run], not self.runs[run].over and self.runs[run].owner is None
        if put:
            one.fruitless, one.fruit = (0, True) if one.parked else (one.fruitless, one.fruit)
            one.waiting, one.parked, one.holder, one.later = False, False, None, later
            one.queue, one.priority = (one.queue, one.priority) if moves is None else (moves, 0)
        place = None if moves is None else QueuePlace(queue=self.queue(moves))
        assert await self.at(who).queue.put_back(run, at=hour(later), place=place) is put

    async def park(self, who: int, run: str) -> None:
        if run in self.runs:
            if (one := self.known(run)) is not None:
                one.parked, one.holder, one.later = True, None, False
            await self.at(who).queue.park(run, "why")

    async def restart(self, who: int, run: str) -> None:
        if len(self.journals) > 1:
            await self.journals[who].aclose()
            self.journals[who] = open_journal(self.url)
            for one in self.runs.values():
                one.owner = None if one.owner == who else one.owner
                # an engine still has what it was sent, and delivers it again
                one.holder = None if one.holder == who else one.holder

    # ------------------------------------------------------------ what it says

    async def check(self, journal: Journal) -> None:
        open_ones = {run: one for run, one in self.runs.items() if not one.over}
        found = {
            one.queue: {state: getattr(one, state) for state in STATES}
            for one in await journal.queue.backlogs()
            if one.queue.startswith(self.prefix)
        }
        names = sorted({self.queue(one.queue) for one in open_ones.values()})
        assert list(found) == names
        for name in names:
            theirs = [one.state for one in open_ones.values() if self.queue(one.queue) == name]
            assert found[name] == {state: theirs.count(state) for state in STATES}
        parked = {
            one.run_id for one in await journal.queue.parked(limit=100_000)
        } & self.runs.keys()
        assert parked == {run for run, one in open_ones.items() if one.parked}
        for engine in ENGINES:
            theirs = [
                one.run_id
                for one in await journal.queue.with_engine(engine=engine, most=100_000)
                if one.run_id in self.runs
            ]
            assert theirs == sorted(
                run
                for run, one in open_ones.items()
                if one.state == "sent" and one.holder == engine
            )
        for run, one in self.runs.items():
            assert (await journal.info(run)).status == one.status


def hour(later: bool) -> Time | None:
    return now() + timedelta(hours=1) if later else None


QUEUE, ENGINE = st.sampled_from(QUEUES), st.sampled_from(ENGINES)
KINDS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "add": st.tuples(QUEUE, st.integers(-1, 1), st.booleans()),
    "claim": st.tuples(st.sets(QUEUE, min_size=1), ENGINE, st.integers(1, 3)),
    "sent": st.tuples(ENGINE),
    "take": st.just(()),
    "get_further": st.just(()),
    "release": st.tuples(st.booleans()),
    "finish": st.just(()),
    "put_back": st.tuples(st.booleans(), st.none() | QUEUE),
    "park": st.just(()),
    "restart": st.just(()),
}
STEP = st.sampled_from(list(KINDS)).flatmap(
    lambda name: st.tuples(st.just(name), st.integers(0, 1), st.sampled_from(RUNS), KINDS[name])
)
"""What, from where, with which run, and how."""
Step = tuple[str, int, int, tuple[Any, ...]]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def stage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    url = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path / 'journal.db'}"}.get(request.param)
    if url is None:
        urls: Callable[[object], str] = request.getfixturevalue("postgres_urls")
        url = urls(tmp_path)
        reuse_connections(monkeypatch)
    opened = Stage(url, [open_journal(url) for _ in range(1 if request.param == "memory" else 2)])
    yield opened
    for journal in opened.journals:
        await journal.aclose()


A_DRIVER_ENDS: list[Step] = [("take", 0, 0, ()), ("restart", 0, 0, ())]
CLAIMED: Step = ("claim", 0, 0, ({"a"}, "near", 1))
SENT: Step = ("sent", 0, 0, ("near",))


@given(steps=st.lists(STEP, min_size=8, max_size=40))
@example([CLAIMED, *A_DRIVER_ENDS])
@example([CLAIMED, SENT, *A_DRIVER_ENDS])
@example([CLAIMED, A_DRIVER_ENDS[0], SENT, A_DRIVER_ENDS[1]])
@example([("claim", 1, 0, ({"a"}, "near", 1)), *A_DRIVER_ENDS])
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
async def test_it_says_what_the_model_says(stage: Stage, steps: list[Step]) -> None:
    here = replace(stage, prefix=f"{next(_numbers):06}_", runs={}, writers={})
    first: list[Step] = [("add", 0, run, ("a", 0, False)) for run in RUNS[:2]]
    for name, who, run, values in first + steps:
        await getattr(here, name)(who, f"{here.prefix}{run}", *values)
        await here.check(here.journals[-1])
