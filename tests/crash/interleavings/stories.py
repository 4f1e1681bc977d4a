"""The two drivers of an execution, what may happen around them, and the invariants. Entry:
`Execution`.

The effect of a call follows at once on the operation before it: a process that sleeps between its
last look at the journal and the effect is outside of the promise (docs/durability.md).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import anyio

import treadle
from tests.crash.interleavings.gates import GatedJournal
from tests.crash.interleavings.steps import Driver, Stage
from tests.crash.interleavings.stores import Store
from tests.doubles import PlainTool, label, text, wishes
from treadle import AgentError, Runtime, ToolContext
from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.journal.entries import Entry, RunFinished, RunResumed
from treadle.messages.message import Message, ToolResult
from treadle.messages.result import RunResult
from treadle.models.model import Delta, ModelRequest
from treadle.tools.tool import DidNotHappen, Happened
from treadle.types import now

Name = Literal[
    "resume twice",
    "resume what happened",
    "no probe",
    "prune",
    "start and resume",
    "session",
]
NAMES: tuple[Name, ...] = (
    "resume twice",
    "resume what happened",
    "no probe",
    "prune",
    "start and resume",
    "session",
)
DRIVERS = A, B = "A", "B"
EXPECTED = ("busy", "invalid", "cancelled")
"""Kinds of errors that a driver gets where another one was first, or where it was drained."""


class Violated(AssertionError):
    """An invariant does not hold."""


@dataclass
class Story:
    name: Name
    lapses: int = 2
    drains: int = 1

    @property
    def is_probed(self) -> bool:
        return self.name != "no probe"


@dataclass(eq=False)
class Execution:
    """One schedule of one story; ids of its runs and its session begin with `prefix`."""

    story: Story
    store: Store
    prefix: str
    config: Config
    stage: Stage = field(default_factory=lambda: Stage(A, B))
    effects: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    acknowledged: dict[str, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))
    results: dict[str, RunResult[Any]] = field(default_factory=dict[str, RunResult[Any]])
    requests: list[Sequence[Message]] = field(default_factory=list[Sequence[Message]])
    begun: anyio.Event = field(default_factory=anyio.Event)
    _runtimes: dict[str, Runtime] = field(default_factory=dict[str, Runtime])
    _left: dict[str, int] = field(default_factory=dict[str, int])
    """How often the world may still do what it does."""

    # ------------------------------------------------------------ the drivers

    @property
    def runs(self) -> list[str]:
        return (
            [f"{self.prefix}-a", f"{self.prefix}-b"] if self._is_session else [f"{self.prefix}-a"]
        )

    @property
    def _is_session(self) -> bool:
        return self.story.name == "session"

    @property
    def _is_prepared(self) -> bool:
        """The run of the story is there from the beginning."""
        return self.story.name not in ("session", "start and resume")

    async def prepare(self) -> None:
        """Bring about what was there before both drivers."""
        self.stage.digest, self.store.answered = self.shared, self._answered
        for is_second in (False, True):
            await self.store.renew(is_second)
        self._left = {"lapse": self.story.lapses, "drain": self.story.drains}
        self._left |= {"change": 0, "prune": int(self.story.name == "prune")}
        if self._is_session:
            self._left |= {"lapse": 0, "change": 1}
            await self._ran_before()
        elif self._is_prepared:
            await self._left_open()

    async def _ran_before(self) -> None:
        async with self._runtime(None) as runtime:
            await runtime.run(
                self._agent(None), "before", session=self.prefix, run_id=f"{self.prefix}-0"
            )

    async def _left_open(self) -> None:
        """A run whose call has started, and whose driver let go of it."""
        entered = anyio.Event()

        async def does(ctx: ToolContext[Any], arguments: Any) -> str:
            if self.story.name == "resume what happened":
                self.effects[ctx.call_id] += 1
            entered.set()
            await anyio.sleep_forever()
            return ""

        agent = Agent(name="a", model=_Model(self), tools=[PlainTool(name="pay", does=does)])
        async with self._runtime(None) as runtime, anyio.create_task_group() as group:
            group.start_soon(partial(self._attempt, runtime.run, agent, "a", run_id=self.runs[0]))
            await entered.wait()
            runtime.let_go()

    async def _attempt(self, does: Any, *given: Any, **options: Any) -> None:
        try:
            await does(*given, **options)
        except AgentError as e:
            if e.kind not in EXPECTED:
                raise

    def _runtime(self, driver: Driver | None) -> Runtime:
        journal = self.store.journals[0 if driver is None or driver.name == A else 1]
        if driver is not None:
            journal = GatedJournal(
                journal,
                self.stage,
                driver,
                acknowledged=self._note,
                needs_force=self.store.needs_force,
            )
        else:
            journal = _Kept(journal)
        return Runtime(journal=journal, config=self.config, on_close="let_go")  # pyright: ignore[reportArgumentType]

    async def _answered(self, is_second: bool) -> None:
        driver = self.stage.drivers[B if is_second else A]
        if driver.running:
            await self.stage.inside(driver, "answer")

    def _note(self, run_id: str, first: int, entries: Sequence[Entry]) -> None:
        self.acknowledged[run_id] |= dict(enumerate(entries, first))
        self.begun.set()

    def _agent(self, driver: Driver | None) -> Agent[Any, Any]:
        async def does(ctx: ToolContext[Any], arguments: Any) -> str:
            self.effects[ctx.call_id] += 1
            if driver is not None:
                await self.stage.inside(driver, "returning")
            return "paid"

        async def looks(ctx: ToolContext[Any], arguments: Any) -> Any:
            if not self.story.is_probed:
                return None
            if driver is not None:
                await self.stage.inside(driver, "probing")
            found = Happened("paid") if self.effects[ctx.call_id] else DidNotHappen()
            if driver is not None:
                await self.stage.inside(driver, f"probe found {type(found).__name__}")
            return found

        return Agent(
            name="a", model=_Model(self), tools=[PlainTool(name="pay", does=does, looks=looks)]
        )

    async def drive(self, name: str) -> None:
        await self.stage.drive(self.stage.drivers[name], partial(self._drive, name))

    async def _drive(self, name: str) -> None:
        driver = self.stage.drivers[name]
        starts = self._is_session or (self.story.name == "start and resume" and name == A)
        async with self._runtime(driver) as runtime:
            self._runtimes[name] = runtime
            try:
                if starts:
                    session = {"session": self.prefix} if self._is_session else {}
                    run_id = f"{self.prefix}-{name.lower()}"
                    result = await runtime.run(
                        self._agent(driver),
                        name.lower(),
                        run_id=run_id,
                        **session,  # pyright: ignore[reportArgumentType]
                    )
                else:
                    await self.stage.inside(driver, "waking")
                    result = await runtime.resume(self.runs[0], self._agent(driver))
                self.results[name] = result
            except AgentError as e:
                if e.kind not in EXPECTED:
                    raise Violated(f"driver {name} ended with {e.kind}: {e.message}") from e

    # ------------------------------------------------------------ choices

    def choices(self) -> list[str]:
        """Names of what can happen next."""
        found: list[str] = []
        for name, driver in self.stage.drivers.items():
            if driver.stops and not self._waits(driver):
                found.append(name)
        if not found:
            return []
        for name, driver in self.stage.drivers.items():
            if driver.has_ended:
                continue
            if driver.has_lapsed:
                found.append(f"renew {name}")
            elif driver.holds and self._left["lapse"]:
                found.append(f"lapse {name}")
            if driver.holds and self._left["drain"]:
                found.append(f"drain {name}")
        if self._left["change"]:
            found.append("change")
        if self._left["prune"] and not self._has_finished():
            found.append("prune")
        return found

    def _has_finished(self) -> bool:
        entries = self.acknowledged.get(self.runs[0], {}).values()
        return any(isinstance(entry, RunFinished) for entry in entries)

    def _waits(self, driver: Driver) -> bool:
        """There is nothing to resume yet."""
        return (
            self.story.name == "start and resume"
            and driver.stops[0].label == "waking"
            and not self.begun.is_set()
            and not self.stage.drivers[A].has_ended
        )

    async def choose(self, choice: str) -> None:
        what, _, name = choice.rpartition(" ")
        if what == "drain" or (what and not self.store.needs_force):
            # what a driver does after it depends on how far it was
            self.stage.drivers[name].seen.append(what)
        match what:
            case "":
                if choice == "prune":
                    self._left["prune"] -= 1
                    await self.store.journals[1].prune(now() + timedelta(days=1), apply=True)
                elif choice == "change":
                    self._left["change"] -= 1
                    self.store.journals[1].sessions.add_message(
                        self.prefix, Message.user("by hand")
                    )
                else:
                    self.stage.go_on(choice)
            case "lapse":
                self._left["lapse"] -= 1
                self.stage.drivers[name].has_lapsed = True
                self.stage.drivers[name].lapses += 1
                await self.store.lapse(name == B)
            case "renew":
                self.stage.drivers[name].has_lapsed = False
                await self.store.renew(name == B)
            case _:
                self._left["drain"] -= 1
                self._runtimes[name].let_go()

    # ------------------------------------------------------------ the state, and the invariants

    async def shared(self) -> str:
        """Digest of all that the drivers share, in the journal and in the world."""
        pieces = [repr(sorted(self.effects.items()))]
        for run_id in self.runs:
            pieces.append(await self._run_digest(run_id))
        if self._is_session:
            view = await self.store.journals[0].view(self.prefix)
            pieces += [_said(message) for message in view.messages]
        text = "\n".join(pieces).replace(self.prefix, "")
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    async def _run_digest(self, run_id: str) -> str:
        if run_id not in self.acknowledged and not self._is_prepared:
            return "none"
        records = await self.store.journals[0].read(run_id)
        status = (await self.store.journals[0].info(run_id)).status
        return " ".join([status, *(_digest(record.entry) for record in records)])

    async def key(self) -> str:
        """Determines everything that can follow."""
        drivers = [
            (one.seen, [stop.label for stop in one.stops], one.lapses, one.has_lapsed, one.holds)
            for one in self.stage.drivers.values()
        ]
        ends = sorted((name, result.outcome) for name, result in self.results.items())
        left = sorted(self._left.items())
        return repr((await self.shared(), drivers, ends, left, self.begun.is_set()))

    async def check(self) -> None:
        """Raise Violated where an invariant does not hold now."""
        for call_id, times in self.effects.items():
            if times > 1:
                raise Violated(f"once call {call_id} ran {times} times")
        for run_id, entries in self.acknowledged.items():
            stored = {one.seq: one.entry for one in await self.store.journals[0].read(run_id)}
            for seq, entry in entries.items():
                if (found := stored.get(seq)) is None or label(found) != label(entry):
                    raise Violated(f"entry {seq} of {run_id} was acknowledged, and is lost")
        for messages in self.requests:
            if wrong := treadle.check_history(messages):
                raise Violated(f"a request is no valid history: {wrong}")

    async def check_end(self) -> None:
        """The same after both drivers have ended: the runs are gone on with, and compared with what
        their callers were told.
        """
        await self.check()
        async with self._runtime(None) as runtime:
            for run_id in self.runs:
                await self._check_run(runtime, run_id)
        if self._is_session:
            view = (await self.store.journals[0].view(self.prefix)).messages
            info = self.store.journals[0].sessions.get(self.prefix)
            if wrong := treadle.check_history(view):
                raise Violated(f"the session is no valid history: {wrong}")
            if info is None or info.message_count != len(view):
                raise Violated(f"the session counts {info} of {len(view)} messages")
        await self.check()

    async def _check_run(self, runtime: Runtime, run_id: str) -> None:
        journal = self.store.journals[0]
        try:
            state = await journal.load(run_id)
        except AgentError:
            return
        for result in [one for one in self.results.values() if one.run_id == run_id]:
            if result.outcome != "completed":
                continue
            replayed = await runtime.replay(run_id)
            if [one.id for one in result.messages] != [one.id for one in replayed.messages]:
                raise Violated(f"{run_id}: its replay is not what its caller was told")
        if state.finished is None:
            await self.store.release([run_id])
            await runtime.resume(run_id, self._agent(None))
        await self._check_results(run_id)

    async def _check_results(self, run_id: str) -> None:
        state = await self.store.journals[0].load(run_id)
        if wrong := treadle.check_history(state.context.history[:]):
            raise Violated(f"{run_id} has no valid history: {wrong}")
        results = [
            part
            for one in state.context.history[:]
            for part in one.parts
            if type(part) is ToolResult
        ]
        for result in results:
            if result.call_id.rpartition("-")[0] != self.prefix:
                continue
            times = self.effects[result.call_id]
            if self.story.is_probed and (result.unknown or times != 1):
                raise Violated(f"{run_id}: {result.text!r}, and its call ran {times} times")
            if not result.unknown and times != 1:
                raise Violated(f"{run_id}: has a result, and its call ran {times} times")


def _said(message: Message) -> str:
    return f"{message.role}:{message.text}:{len(message.tool_calls)}:{len(message.tool_results)}"


def _digest(entry: Entry) -> str:
    match entry:
        case RunResumed():
            return f"resumed:{entry.fence}"
        case RunFinished():
            return f"finished:{entry.outcome}"
        case _:
            return label(entry)


class _Kept:
    """A journal that stays open when a runtime over it is closed."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def aclose(self, *, keep_runs: bool = False) -> None: ...


class _Model:
    """Asks for one call for each prompt, and ends once its result is there."""

    name = "steps:model"
    refuses: frozenset[str] = frozenset()

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        messages = list(request.messages)
        self._execution.requests.append(messages)
        await asyncio.sleep(0)
        steps = (
            text("done")
            if messages[-1].tool_results
            else wishes((f"{self._execution.prefix}-{messages[-1].text}", "pay", "{}"))
        )
        for step in steps:
            assert not isinstance(step, BaseException)
            assert not callable(step)
            yield step
