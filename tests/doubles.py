"""What the tests of a run share: short scripts, models and journals that do as they are told, and
checks that hold for every run.

Tools are made with `@tool`, or with `PlainTool` where a test needs what that does not let through.
Entry: `watch`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import anyio
from msgspec import UNSET

import treadle
from tests.stores import new_journal
from treadle import Hook, Tool, ToolContext
from treadle._internal.uninterrupted import uninterrupted
from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.journal.entries import Entry, Record, RunStarted, ToolFinished, ToolStarted
from treadle.journal.journal import RunWriter
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.projection import events_of
from treadle.journal.queue import QueuePlace
from treadle.journal.sessions import ViewMark
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.message import Message
from treadle.messages.result import RunResult
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ModelRequest,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
    ToolDefinition,
)
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import RunOptions
from treadle.testing import FakeClock, ScriptedModel
from treadle.tools.tool import MAX_OUTPUT_CHARS, ProbeAnswer, Touched
from treadle.types import Effect, Outcome, StopReason, Usage

USED = {"input_tokens": 10, "output_tokens": 5}

# ---------------------------------------------------------------- scripts


def says(text: str, **more: Any) -> dict[str, Any]:
    """An answer in words."""
    return {"text": text, "usage": USED, **more}


def asks(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An answer that calls tools."""
    return {"tool_calls": list(calls), "usage": USED, **more}


def call(name: str, call_id: str = "", /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "id": call_id, "arguments": arguments}


def fails(kind: str, **more: Any) -> dict[str, Any]:
    """An answer that does not come."""
    return {"error": {"kind": kind, **more}}


Step = Delta | BaseException | Callable[[], Awaitable[object]]


def end(stop: StopReason = StopReason.COMPLETE, **more: Any) -> ResponseEnd:
    known: dict[str, Any] = {"stop_reason": stop, "usage": Usage(**USED)}
    return ResponseEnd(**(known | more))


def text(words: str) -> list[Step]:
    return [TextDelta(words), end()]


def wishes(*calls: tuple[str, str, str], stop: StopReason = StopReason.TOOL_USE) -> list[Step]:
    """Tool calls as (id, name, arguments)."""
    steps: list[Step] = []
    for call_id, name, arguments in calls:
        steps += [ToolCallStart(call_id, name), ArgumentsDelta(arguments), PartEnd()]
    return [*steps, end(stop)]


class PlayedModel:
    """Gives deltas one by one, a list of them for each request; raises the exceptions among them,
    awaits the functions.
    """

    def __init__(self, *turns: Sequence[Step], refuses: frozenset[str] = frozenset()) -> None:
        self.name = "played:model"
        self.refuses = refuses
        self.requests: list[ModelRequest] = []
        self.histories: list[list[Message]] = []
        self.open = 0
        """Streams that nobody closed yet."""
        self._turns = iter(turns)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        self.histories.append(list(request.messages))
        self.open += 1
        try:
            for step in next(self._turns):
                if isinstance(step, BaseException):
                    raise step
                if callable(step):
                    await step()
                else:
                    yield step
        finally:
            self.open -= 1


# ---------------------------------------------------------------- tools


@dataclass(kw_only=True)
class PlainTool:
    """A tool that is nothing but its contract:

    `does(ctx, arguments)` is its execution, `reads` its parsing, `looks(ctx, arguments)` its probe.
    """

    name: str
    does: Callable[[ToolContext[Any], Any], Awaitable[Any]]
    reads: Callable[[str], Any] = json.loads
    effect: Effect = "once"
    parallel: bool = True
    timeout_s: float | None = None
    needs_approval: bool = False
    max_output: int = MAX_OUTPUT_CHARS
    polls: bool = False
    changes: Callable[[Any, Path], Any] = lambda arguments, cwd: None
    looks: Callable[[ToolContext[Any], Any], Awaitable[Any]] | None = None

    @property
    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            name=self.name, description=f"Does {self.name}.", parameters={"type": "object"}
        )

    def parse(self, arguments_json: str) -> Any:
        return self.reads(arguments_json)

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        changed = self.changes(arguments, cwd)
        return None if changed is None else Touched(writes=tuple(map(str, changed)))

    async def execute(self, ctx: ToolContext[Any], arguments: Any) -> Any:
        return await self.does(ctx, arguments)

    async def probe(self, ctx: ToolContext[Any], arguments: Any) -> ProbeAnswer:
        return None if self.looks is None else await self.looks(ctx, arguments)


def gives(name: str, result: Any = "ok", **more: Any) -> PlainTool:
    """A tool that gives the same result every time."""

    async def does(ctx: ToolContext[Any], arguments: Any) -> Any:
        return result

    return PlainTool(name=name, does=does, **more)


def breaks(name: str, error: BaseException, **more: Any) -> PlainTool:
    async def does(ctx: ToolContext[Any], arguments: Any) -> Any:
        raise error

    return PlainTool(name=name, does=does, **more)


class Gate:
    """A tool that stands still until somebody opens it, and says that it has been reached."""

    def __init__(self, name: str = "gate", **more: Any) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()
        self.tool = PlainTool(name=name, does=self._does, **more)

    async def _does(self, ctx: ToolContext[Any], arguments: Any) -> str:
        await self.stop()
        return "went through"

    async def stop(self) -> None:
        """Also a step of a PlayedModel."""
        self.reached.set()
        await self.opened.wait()


def skip(seconds: float) -> None:
    """Move the clock of this event loop forward, so that a deadline passes on any machine when the
    test says so.
    """
    loop = asyncio.get_running_loop()
    time = loop.time
    loop.time = lambda: time() + seconds


def skips(seconds: float) -> Callable[[], object]:
    """Return `skip` for this event loop as a function that other threads may call."""
    return partial(asyncio.get_running_loop().call_soon_threadsafe, skip, seconds)


# ---------------------------------------------------------------- hooks


def hook(name: str = "Says", /, **points: Any) -> Hook:
    """One that does at each point what it is given: a function of what it is told, or the answer
    itself.
    """
    return type(name, (Hook,), {point: _method(point, said) for point, said in points.items()})()


def _method(point: str, said: Any) -> Any:
    if point == "on_event":
        return lambda self, event: said(event)

    async def method(self: Hook, *told: Any) -> Any:
        found = said(*told) if callable(said) else said
        return await found if hasattr(found, "__await__") else found

    return method


# ---------------------------------------------------------------- journals


@dataclass
class WatchedJournal(MemoryJournal):
    """A journal in memory that notes what is appended, in `log`, and does `at` before each append:
    to hold it, or to raise.
    """

    at: Callable[[Sequence[Entry]], Awaitable[object]] | None = None
    log: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        return _WatchedWriter(await super().begin(started, found=found), self)

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        return _WatchedWriter(await super().take_over(run_id, force=force), self)

    async def before(self, entries: Sequence[Entry]) -> None:
        assert self.at is not None, "somebody wants to be asked"
        await self.at(entries)

    def note(self, entries: Sequence[Entry]) -> None:
        self.log.append("append " + " ".join(map(label, entries)))


@dataclass
class _WatchedWriter:
    _writer: RunWriter
    _journal: WatchedJournal

    @property
    def run_id(self) -> str:
        return self._writer.run_id

    @property
    def fence(self) -> int:
        return self._writer.fence

    @property
    def failed_over(self) -> bool:
        return self._writer.failed_over

    async def append(
        self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None, wakes: bool = False
    ) -> int:
        if self._journal.at is not None:  # as the contract says: an append that began is finished
            await uninterrupted(
                asyncio.get_running_loop().create_task(self._journal.before(entries))
            )
        first = await self._writer.append(entries, put_back=put_back, wakes=wakes)
        self._journal.note(entries)
        return first

    async def verify(self) -> None:
        await self._writer.verify()

    async def release(self, *, waiting: bool | None = False) -> None:
        await self._writer.release(waiting=waiting)


def label(entry: Entry) -> str:
    """What it is, and of which call."""
    kind = entry.__struct_config__.tag
    match entry:
        case ToolStarted():
            return f"{kind}:{entry.call_id}"
        case ToolFinished():
            return f"{kind}:{entry.result.call_id}:{entry.status}"
        case _:
            return str(kind)


# ---------------------------------------------------------------- a run, watched


def open_runtime(**more: Any) -> Runtime:
    """A runtime that depends on nothing around it, and whose waits take no time."""
    known: dict[str, Any] = {"config": Config(), "clock": FakeClock()}
    if "journal" not in more:
        known["journal"] = new_journal()
    return Runtime(**(known | more))


def agent(model: Model | list[dict[str, Any]] | str, *tools: Tool[Any], **more: Any) -> Agent[Any]:
    return Agent(
        name="tester",
        model=ScriptedModel(model) if isinstance(model, list) else model,
        tools=tools,
        **more,
    )


@dataclass(frozen=True)
class Seen:
    """All that there is to see of a run."""

    result: RunResult[Any]
    events: list[Event]
    records: list[Record]

    @property
    def outcome(self) -> str:
        return self.result.outcome.value

    @property
    def results(self) -> list[str]:
        return [r.text for m in self.result.new_messages for r in m.tool_results]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def kinds(self) -> list[str]:
        return [kind_of(event) for event in self.events]

    @property
    def entries(self) -> list[str]:
        return [label(record.entry) for record in self.records]


async def watch(
    model: Model | list[dict[str, Any]],
    *tools: Tool[Any],
    runtime: Runtime | None = None,
    deps: Any = None,
    prompt: Any = "go",
    while_running: Callable[[Any, Event], object] | None = None,
    **options: Unpack[RunOptions],
) -> Seen:
    """Runs to the end, `while_running(stream, event)` being told of each event, and checks what
    must hold for every run.
    """
    rt = runtime or open_runtime()
    seen: list[Event] = []
    with anyio.fail_after(30):
        async with rt.stream(agent(model, *tools), prompt, deps=deps, **options) as stream:
            async for event in stream:
                seen.append(event)
                if while_running is not None:
                    while_running(stream, event)
    records = await rt.journal.read(stream.run_id)
    check(stream.result, seen, records)
    if runtime is None:
        await rt.aclose()
    return Seen(stream.result, seen, records)


def kind_of(event: Event) -> str:
    return str(event.__struct_config__.tag)


# ---------------------------------------------------------------- what must hold


def check(result: RunResult[Any], seen: list[Event], records: list[Record]) -> None:
    check_history(result.messages)
    check_events(seen)
    check_records(records, seen)
    last = seen[-1]
    assert isinstance(last, events.RunEnd)
    assert (last.outcome, last.text, last.turns, last.tool_calls) == (
        result.outcome,
        result.text,
        result.metrics.turns,
        result.metrics.tool_calls,
    )
    assert (last.usage, last.validated) == (result.metrics.usage, result.success)
    assert (None if last.cost_usd is UNSET else last.cost_usd) == result.metrics.cost_usd


def check_history(messages: Sequence[Message]) -> None:
    """Each tool call has exactly one result, directly after it, and no call has the id of another."""
    assert treadle.check_history(messages) == []


def check_events(seen: Sequence[Event], *, turns: int = 0, asked: Collection[str] = ()) -> None:
    """The order of events.py: what opens closes, inside what it belongs to, and numbers rise.

    `turns` and `asked`: the turns and calls of drivers before.
    """
    assert kind_of(seen[0]) == "run_start"
    assert [i for i, event in enumerate(seen) if kind_of(event) == "run_end"] == [len(seen) - 1]
    numbers = [event.seq for event in seen]
    assert numbers == sorted(set(numbers)), "seq must rise"
    ids = [tuple(map(int, event.id.split("."))) for event in seen if isinstance(event.id, str)]
    assert ids == sorted(set(ids)), "ids must rise"
    turn, reasoning = False, False
    before, asked = {*asked}, {*asked}
    running: set[str] = set()
    ended: set[str] = set()
    said: list[str] = []
    for event in seen:
        match event:
            case events.TurnStart():
                assert not turn
                turn, turns = True, turns + 1
                assert event.turn == turns
                said.clear()
            case events.TurnEnd():
                assert turn
                assert event.turn == turns
                assert not reasoning
                assert not running
                turn = False
            case events.ReasoningStart():
                assert turn
                assert not reasoning
                reasoning = True
            case events.ReasoningEnd():
                assert reasoning
                reasoning = False
            case events.ReasoningDelta():
                assert reasoning
            case events.TextDelta():
                assert turn
                assert not reasoning
                said.append(event.text)
            case events.Retry():
                assert turn
                assert not reasoning
                said.clear()
            case events.MessageAdded():
                assert turn
                assert not reasoning
                assert "".join(said) == event.message.text
            case events.ToolCallAsked():
                assert turn
                assert event.call_id not in asked
                asked.add(event.call_id)
            case events.ToolCallStart():
                assert event.call_id in asked - running - ended
                running.add(event.call_id)
            case events.ToolProgress():
                assert event.call_id in running
            case events.ToolCallEnd(refused=True):
                assert event.call_id in asked - running - ended
                assert event.reason == event.result
                ended.add(event.call_id)
            case events.ToolCallEnd():
                assert event.call_id in running
                running.remove(event.call_id)
                # else a person was asked what became of it, and it may begin again
                if isinstance(event.id, str):
                    ended.add(event.call_id)
            case events.RunEnd():
                assert not turn
                assert not running
                assert not reasoning
                assert event.outcome is not Outcome.COMPLETED or asked - before <= ended
            case _:
                pass


def check_records(records: Sequence[Record], seen: Sequence[Event]) -> None:
    """No gap, one start and one end, and the journal alone gives the durable events that were seen."""
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    kinds = [label(record.entry) for record in records]
    assert kinds[0] == "run.started"
    assert kinds.count("run.finished") == 1
    assert kinds[-1] == "run.finished"
    durable = [event for event in seen if isinstance(event.id, str)]
    replayed = [
        (kind, fields, f"{record.seq}.{k}")
        for record in records
        for k, (kind, fields) in enumerate(events_of(record.entry))
    ]
    assert [(type(event), event.id) for event in durable] == [
        (kind, place) for kind, _, place in replayed
    ]
    for event, (_, fields, _) in zip(durable, replayed, strict=True):
        assert {name: getattr(event, name) for name in fields} == fields
