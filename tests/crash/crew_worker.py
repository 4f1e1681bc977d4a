"""What the processes of a crew do: one submits runs, workers drive them.

Who harms them is crew.py's business. Entry: `submit`, `work`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias
from zlib import crc32

import anyio
import msgspec

from tests.crash.inside import FAULTS, Fault, Inside
from tests.crash.openers import Meddling
from tests.crash.properties import OddStory, limits_of, odd_tools
from tests.crash.stories import Story, StoryModel, World, honest, tools_of
from tests.crash.turns import turns_of
from tests.crash.twice import Twice
from treadle import Agent, AgentError, Runtime
from treadle.journal import open_journal
from treadle.journal.engine import Engine
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo
from treadle.types import Limits, OnAsk, Settings
from treadle.workers.worker import Worker

Harm: TypeAlias = (
    Literal[
        "kill",
        "stop",
        "drain",
        "restart",
        "cut",
        "tear",
        "stall",
        "jump",
        "swallow",
        "lose",
        "answer",
        "engine",
    ]
    | Meddling
)
OF_FILES: tuple[Harm, ...] = ("kill", "drain")
"""A stopped process keeps the lock of its file: nobody takes its runs."""
AWAKE: tuple[Harm, ...] = ("kill", "drain", "restart", "cut", "tear", "stall")
"""Nobody sleeps between the look at its lease and the effect: a probe is an answer."""
APART: tuple[Harm, ...] = ("kill", "drain", "cut", "tear", "stall", "swallow", "lose")
"""Every worker has a line of its own, and is cut off alone."""
EVERYTHING: tuple[Harm, ...] = ("kill", "stop", "drain", "restart", "cut", "tear", "stall", "jump")
DELIVERED: tuple[Harm, ...] = ("kill", "stop", "drain", "restart", "cut", "tear", "stall", "engine")
MEDDLED: tuple[Harm, ...] = ("kill", "drain", "answer", "list", "export", "import", "backup")
ORDERLY: frozenset[Harm] = frozenset(MEDDLED)
"""They rob no living process of its journal."""
WEIGHTS: dict[Harm, int] = {
    "kill": 8,
    "stop": 5,
    "drain": 4,
    "restart": 1,
    "cut": 3,
    "tear": 4,
    "stall": 2,
    "jump": 1,
    "swallow": 4,
    "lose": 4,
    "answer": 4,
    "engine": 1,
    "list": 1,
    "export": 2,
    "import": 1,
    "backup": 3,
}
"""Of harm. jump: the clock of the database jumps ahead, so that no lease holds any more. swallow:
nothing goes through for longer than the lease, and neither side is told; lose: the same from the
next answer on. answer: two people answer all that waits, at once. engine: Temporal's server is
killed. list, export, import, backup:
another process reads the journal, or a copy of it."""
ENGINES = ("local", "dbos")
SLOTS = 6
LATER_S = 60.0
"""No worker holds a run off for longer."""
TOKENS = 40
"""Of a response of a model."""
ROOM = Settings(max_tokens=500, compact_at_tokens=6_000)
"""Runs with odd tools are summed up on the way."""
UNREACHED = 3
"""How a worker ends that did not find its journal; whatever runs workers begins another one."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Short names, so that a table can be read."""

    runs: int
    turns: int
    workers: int
    seconds: float
    """Of harm."""
    store: Literal["postgres", "sqlite"] = "postgres"
    engine: Literal["local", "dbos", "temporal"] = "local"
    harms: tuple[Harm, ...] = EVERYTHING
    lease_s: float = 1.5
    twice: bool = True
    """Tickets are delivered twice, and late."""
    probes: bool = False
    """Some calls have one.

    It is no answer where a process may sleep between the check of its lease and the effect.
    """
    odd: bool = False
    """Their tools have random properties, and probes all of them (properties.py); people are asked,
    and answer.
    """
    longest_s: float = 1.5
    """How long the effect of such a tool may take to come about."""
    grace_s: float = 1.0
    shards: int = 0
    """Runs are spread over so many servers; 0: one journal."""
    apart: bool = False
    """Each worker has a proxy of its own."""
    inside: tuple[Fault, ...] = ()
    """Faults inside of its processes."""
    fault_s: float = 0.04
    """Between two of them in each process, on average."""
    sessions: int = 0
    """Runs are driven by processes that begin them themselves, in so many conversations, and not by
    workers.
    """
    synced: bool = True
    pause_s: float = 0.01
    peace_s: float = 240.0
    """Within this every run has to end once nobody is harmed."""
    slack_s: float = 1.0
    """As `Bounds` has it."""
    seed: int = 1
    names: str = "r"
    """What the ids of the runs begin with."""


_ODD = Plan(runs=6, turns=5, workers=3, seconds=5, synced=False, odd=True, longest_s=0.15)
_APART = msgspec.structs.replace(_ODD, harms=APART, apart=True)
ODD: dict[str, Plan] = {
    "odd tools": msgspec.structs.replace(
        _ODD, store="sqlite", harms=OF_FILES, longest_s=0.6, grace_s=0.4
    ),
    "conversations": msgspec.structs.replace(
        _ODD, runs=8, store="sqlite", harms=OF_FILES, sessions=2
    ),
    "cut off alone": _APART,
    "cut off alone, DBOS": msgspec.structs.replace(_APART, engine="dbos"),
    "conversations, cut off alone": msgspec.structs.replace(_APART, runs=8, sessions=3),
    "starved": msgspec.structs.replace(_ODD, store="sqlite", harms=OF_FILES, inside=FAULTS),
    "read by others": msgspec.structs.replace(_ODD, store="sqlite", harms=MEDDLED),
    "a second opener": msgspec.structs.replace(
        _ODD, store="sqlite", harms=OF_FILES, inside=("opener",)
    ),
    "no threads and wrong clocks": msgspec.structs.replace(
        _ODD, store="sqlite", harms=OF_FILES, inside=("thread", "fork", "clock")
    ),
    "starved, PostgreSQL": msgspec.structs.replace(
        _ODD, harms=OF_FILES, inside=("open", "thread", "fork", "descriptors")
    ),
    "starved, DBOS": msgspec.structs.replace(
        _ODD, harms=OF_FILES, engine="dbos", inside=("thread", "fork", "clock")
    ),
    "long calls": msgspec.structs.replace(_ODD, harms=OF_FILES, longest_s=2.0),
}
"""Crews whose tools have random properties, as the suite has them.

Effects that may come about after a lease are only asked of those that keep theirs.
"""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told."""

    url: str
    witness: Path
    parent: int
    plan: Plan
    temporal: str = ""
    """Address of Temporal's server, if it delivers."""

    def inside(self, number: int) -> Inside:
        """Before the journal is opened."""
        plan = self.plan
        return Inside(World(self.witness), plan.inside, f"{plan.seed}/{number}", self.url)

    def opened(self) -> Journal:
        return open_journal(self.url, lease_s=self.plan.lease_s)

    def agent(self, name: str = "") -> Agent[object, str]:
        """`name`: of the run that begins, whose limits these are."""
        plan, world = self.plan, World(self.witness)
        if plan.odd:
            odd = OddStory(
                turns=(), seed=plan.seed, length=plan.turns, pause_s=plan.pause_s, tokens=TOKENS
            )
            tools = [
                *tools_of(world, plan.pause_s),
                *odd_tools(world, plan.seed, longest_s=plan.longest_s),
            ]
            return Agent(
                name="story",
                model=StoryModel(odd, world),
                tools=tools,
                limits=limits_of(name),
                settings=ROOM,
            )
        story = Story(turns=turns_of(plan.turns, probes=plan.probes), pause_s=plan.pause_s)
        return Agent(
            name="story",
            model=StoryModel(story, world),
            tools=tools_of(world, plan.pause_s),
            limits=Limits(turns=10_000),
        )


async def submit(share: Share) -> int:
    """Until every run is in the queue.

    What was in doubt is submitted again under the same id, which is refused where it is there.
    """
    names = [f"{share.plan.names}{number}" for number in range(share.plan.runs)]
    while names:
        try:
            async with Runtime(journal=share.opened()) as runtime:
                while names:
                    await _submit(
                        runtime,
                        share.agent(names[0]),
                        names[0],
                        on_ask="wait" if share.plan.odd else "deny",
                    )
                    names.pop(0)
        except AgentError as e:
            print("submitting:", e.message, flush=True)
            await anyio.sleep(0.1)
    return 0


async def _submit(runtime: Runtime, agent: Agent[object, str], name: str, *, on_ask: OnAsk) -> None:
    try:
        await runtime.submit(
            agent,
            f"run {name}",
            run_id=name,
            on_ask=on_ask,
            on_unknown="wait" if on_ask == "wait" and crc32(name.encode()) % 3 == 0 else "tell",
        )
    except AgentError as e:
        if e.kind != "busy":
            raise


async def wake(share: Share) -> int:
    """What is parked now. Where the journal is away, another one tries again."""
    try:
        async with Runtime(journal=share.opened()) as runtime:
            for parked in await runtime.journal.queue.parked():
                await runtime.wake(parked.run_id)
            for info in await runtime.journal.runs() if share.plan.odd else ():
                if info.status == "waiting":
                    await _answer(share, runtime, info.run_id)
                elif info.status in ("queued", "stopped"):
                    await _bring_forward(runtime, info.run_id)
    except AgentError as e:
        print("waking:", e.message, flush=True)
    return 0


async def _bring_forward(runtime: Runtime, run_id: str) -> None:
    """What was put back by a clock that is hours ahead is not ready for hours."""
    place = await runtime.journal.queue.place(run_id)
    at = None if place is None else place.ready_at
    if at is not None and at.timestamp() > time.time() + LATER_S:
        with suppress(AgentError):  # another one drives it by now
            await runtime.wake(run_id)


async def _answer(share: Share, runtime: Runtime, run_id: str) -> None:
    """Another one may have answered, or it is not known yet what became of a call."""
    state = await runtime.journal.load(run_id)
    answers = honest(World(share.witness), state, moody=True)
    if any(answers.values()):
        with suppress(AgentError):
            await runtime.wake(run_id, seen=state.seq, **answers)


async def work(share: Share, number: int) -> int:
    """Until it is told to drain; gives how the process shall end."""
    inside = share.inside(number)
    agent, plan, ended = share.agent(), share.plan, 0

    async def agent_of(info: RunInfo) -> Agent[object, str]:
        return agent

    try:
        async with Runtime(journal=share.opened()) as runtime, _engine(share) as engine:
            worker = Worker(
                runtime,
                engine,
                name=f"w{number}",
                slots=SLOTS,
                poll_s=0.2,
                grace_s=plan.grace_s,
                agent_of=agent_of,
            )
            async with worker, anyio.create_task_group() as group:
                group.start_soon(_drained, worker)
                group.start_soon(orphaned, share.parent)
                group.start_soon(inside.harm, plan.fault_s)
                await worker.work()
                group.cancel_scope.cancel()
    except* AgentError as errors:  # nobody answered when it began
        print("not reached:", *(str(e) for e in errors.exceptions), flush=True)
        await anyio.sleep(plan.pause_s * 10)
        ended = UNREACHED
    return ended


def _engine(share: Share) -> Engine:
    engine: Engine
    if share.plan.engine == "dbos":
        from treadle.workers.engines.dbos import DbosEngine

        engine = DbosEngine.open(share.url)
    else:
        from treadle.workers.engines.local import LocalEngine

        engine = LocalEngine()
    return Twice(engine) if share.plan.twice else engine


async def _drained(worker: Worker) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            worker.drain()


async def orphaned(parent: int) -> None:
    """Nobody is left to end it."""
    while os.getppid() == parent:
        await anyio.sleep(1)
    os._exit(4)


if __name__ == "__main__":
    what, file = sys.argv[1:]
    told = msgspec.json.decode(
        Path(file).read_bytes(), type=Share, dec_hook=lambda kind, value: kind(value)
    )
    sys.exit(anyio.run(submit, told) if what == "submit" else anyio.run(work, told, os.getpid()))
