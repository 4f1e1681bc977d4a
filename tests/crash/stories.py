"""What runs under the crash tests do: tools that leave a witness, a model that knows from the
history alone what comes next.

Who starts, kills and resumes them is drive.py's and sweep.py's business. Entry: `STORIES`,
`agent_of`.

What a call does is named by its mark, which the story gives: the same however often the model is
asked again, while call ids are new each time, as with real providers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import anyio

from tests.crash.witness import chain
from treadle import (
    Agent,
    Deny,
    Hook,
    Message,
    ModelRequest,
    RunContext,
    RunResult,
    StopReason,
    ToolCall,
    ToolContext,
    ToolFailed,
    ToolResult,
    Usage,
)
from treadle.hooks import HookedRun, Stop
from treadle.journal.run_state import RunState
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.tools.function import FunctionTool
from treadle.tools.tool import DidNotHappen, Happened, ProbeAnswer
from treadle.types import NO_LIMITS, Limits, OnAsk, OnUnknown, new_id

THE_END = "The end."
CLOSER = "transfer_to_closer"
"""Call with which an agent hands over to another one."""
TOO_EARLY = "Your answer is rejected: say how it ends\n"
TRIES = 3
"""A person lets a call that times out each time begin so often, and then says no."""
_NAME = re.compile(r"run ([\w-]+)")
MARK = {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]}


_open_worlds: dict[tuple[int, Path], int] = {}
"""Descriptors of witnesses that are kept open, by process."""


class World:
    """The witness: a file that outlives every process, and that no test double forgets."""

    def __init__(self, witness: Path, *, stop_at: str = "") -> None:
        """`stop_at`: where this process stops itself, once:

        "model", "look" or "effect"; before anything comes of it.
        """
        self._path = witness
        self._peace = witness.with_name(f"{witness.name}-peace")
        self._stop_at = stop_at
        self._descriptor = _open_worlds.get((os.getpid(), witness))

    def keep_open(self) -> None:
        """For all objects of this process that are made afterwards: where no file can be opened any
        more, the witness still can be written and read.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        _open_worlds[os.getpid(), self._path] = self._descriptor

    def reached(self, place: str) -> None:
        if place == self._stop_at:
            self._stop_at = ""
            os.kill(os.getpid(), signal.SIGSTOP)

    def saw(self, *words: str) -> None:
        """One line, at once; whole also where many processes write."""
        line = f"{' '.join(words)}\n".encode()
        if self._descriptor is not None:
            os.write(self._descriptor, line)
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _lines(self) -> list[str]:
        if self._descriptor is None:
            return self._path.read_text(encoding="utf-8").splitlines()
        size = os.fstat(self._descriptor).st_size
        return os.pread(self._descriptor, size, 0).decode().splitlines()

    def make_peace(self) -> None:
        """From now on no process harms itself."""
        self._peace.touch()

    def is_at_peace(self) -> bool:
        return self._peace.exists()

    def entered(self, mark: str, ctx: ToolContext[object]) -> None:
        self.saw("entered", mark, ctx.call_id, *_here())

    def returned(self, mark: str, ctx: ToolContext[object]) -> None:
        """Right before the tool returns."""
        self.saw("returned", mark, ctx.call_id, *_here())

    def left(self, mark: str, ctx: ToolContext[object]) -> None:
        """The tool ended some other way."""
        self.saw("left", mark, ctx.call_id, *_here())

    def instructed(self, text: str) -> None:
        """Notes the instructions of a request, beside the witness."""
        with self._path.with_name("instructions").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def answered(self, name: str, response: str, usage: Usage) -> None:
        """Right before the last delta of a response."""
        self.saw("billed", name, str(usage.total_tokens))
        self.saw("answered", name, response, *_here())

    def ended(self, result: RunResult[Any]) -> None:
        """What a caller got."""
        told = {
            "id": result.run_id,
            "error": None if result.error is None else str(result.error.kind),
            "waiting": result.waiting,
            **account(result),
        }
        self.saw("result", json.dumps(told))

    def is_over(self, call: str) -> bool:
        """Whether no process that lives began this call and has not returned from it."""
        busy: set[str] = set()
        for line in self._lines():
            match line.split():
                case ["entered", _, who, pid, _] if who == call:
                    busy.add(pid)
                case ["returned" | "left", _, who, pid, _] if who == call:
                    busy.discard(pid)
                case _:
                    pass
        return not any(_lives(int(pid)) for pid in busy)

    def begun(self, call: str) -> int:
        """How often a tool began this call."""
        begun = (line.split() for line in self._lines() if line.startswith("entered "))
        return sum(words[2] == call for words in begun)

    def happened(self, mark: str) -> bool:
        try:
            lines = self._lines()
        except FileNotFoundError:
            return False
        return any(line.split()[:2] == ["did", mark] for line in lines)


def _here() -> tuple[str, str]:
    return str(os.getpid()), f"{time.time():.3f}"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def account(result: RunResult[Any]) -> dict[str, Any]:
    """What a caller learns of the end of a run, as the witness holds it."""
    told = {
        "outcome": result.outcome.value,
        "text": result.text,
        "turns": result.metrics.turns,
        "tool_calls": result.metrics.tool_calls,
    }
    return {**told, "messages": chain(map(digest, result.messages))}


def digest(message: Message) -> str:
    return hashlib.sha256(message.to_json()).hexdigest()[:16]


class Showing:
    """Writes the messages of each request of this process to the witness: for each run those that
    its last request did not have.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._last: dict[str, tuple[list[Message], list[str]]] = {}

    def show(self, name: str, messages: Sequence[Message]) -> None:
        before, digests = self._last.get(name, ([], []))
        kept = next(
            (
                n
                for n, (ours, theirs) in enumerate(zip(before, messages, strict=False))
                if ours is not theirs
            ),
            min(len(before), len(messages)),
        )
        more = [
            (
                m.role,
                digest(m),
                [call.id for call in m.tool_calls],
                [result.call_id for result in m.tool_results],
            )
            for m in messages[kept:]
        ]
        self._last[name] = list(messages), [*digests[:kept], *(each[1] for each in more)]
        self._world.saw(
            "shown", json.dumps({"run": name, "pid": os.getpid(), "kept": kept, "more": more})
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The names of the tools that are called in each turn; after them comes a text."""

    turns: Sequence[Sequence[str]]
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    meanwhile: Literal["steer", "cancel"] | None = None
    """What somebody does: steers as soon as a call has started, cancels as soon as one says that it
    happened.
    """
    fork: bool = False
    """The run is forked after its first turn, with other words; what is killed is the fork."""
    pause_s: float = 0.0
    """How long the model and each tool take."""
    limits: Limits = NO_LIMITS
    tokens: int = 1
    """Of output, in each response. Its input counts as one, which is less than anybody estimates.
    """
    corrected: bool = False
    """The check of the output rejects the first text of the model."""
    guarded: bool = False
    """Hooks let the input pass, change each result, and send the first text of the model back."""
    blocked_by: str = ""
    """Tool whose result makes a hook end the run."""
    trimmed: bool = False
    """A function shows the model the prompt and its last two messages only."""
    dynamic: bool = False
    """A function gives the instructions, different ones each time."""
    hands_over: bool = False
    """Each agent before the last turn may hand over to another one, which goes on with the story.
    """
    agents: Sequence[str] = ()
    """Names of stories that are tools here: agents that tell them."""

    def turns_of(self, name: str) -> Sequence[Sequence[str]]:
        """Of the run of that name."""
        return self.turns

    @property
    def requests(self) -> int:
        """Of all agents in it."""
        below = sum(
            STORIES[tool].requests for turn in self.turns for tool in turn if tool in self.agents
        )
        return len(self.turns) + 1 + self.corrected + below

    @property
    def at_once(self) -> int:
        """How many may be under way when a process is killed."""
        return max(
            [
                1,
                *(
                    sum(STORIES[tool].at_once for tool in turn if tool in self.agents)
                    for turn in self.turns
                ),
            ]
        )


STORIES = {
    "one": Story(turns=[["charge"], ["charge"]]),
    "parallel": Story(turns=[["charge", "charge", "charge", "look"]]),
    "sequential": Story(turns=[["alone", "alone", "alone"]]),
    "mixed": Story(turns=[["look", "charge", "stamp"], ["alone", "checked"]]),
    "approval": Story(turns=[["charge", "guarded", "look"], ["charge"]], on_ask="wait"),
    "person": Story(turns=[["charge", "alone"], ["stamp"]], on_unknown="wait"),
    "timeout": Story(turns=[["slow", "charge"], ["charge"]]),
    "timeout, person": Story(turns=[["slow", "charge"]], on_unknown="wait"),
    "cancel": Story(turns=[["endless", "charge"]], meanwhile="cancel"),
    "steering": Story(turns=[["charge"], ["charge"]], meanwhile="steer"),
    "fork": Story(turns=[["charge"], ["alone", "charge"]], fork=True),
    "zombie": Story(turns=[["look"], ["charge"], ["stamp"]]),
    "slow check": Story(turns=[["checked"]], pause_s=1.3),
    "slower check": Story(turns=[["checked"]], pause_s=4),
    "slowest check": Story(turns=[["checked"]], pause_s=12),
    "long": Story(turns=[["long"], ["charge", "long"]]),
    "helper": Story(turns=[["charge", "stamp"], ["look"]]),
    "delegation": Story(turns=[["helper"], ["charge"]], agents=["helper"]),
    "family": Story(turns=[["delegation", "helper", "charge"]], agents=["delegation", "helper"]),
    "budget": Story(turns=[["charge"]] * 9, limits=Limits(tokens=9_000), tokens=1_500),
    "corrected": Story(turns=[["charge"]], corrected=True),
    "guarded": Story(turns=[["charge", "look"], ["charge"]], corrected=True, guarded=True),
    "blocked": Story(turns=[["charge"], ["alone", "look", "alone"]], blocked_by="look"),
    "trimmed": Story(turns=[["charge"], ["look"], ["charge"]], trimmed=True),
    "dynamic": Story(turns=[["charge"], ["charge"]], dynamic=True),
    "handoff": Story(turns=[["charge", CLOSER], ["charge"]], hands_over=True),
    "asker": Story(turns=[["guarded", "charge"]], on_ask="wait"),
    "asking family": Story(turns=[["asker", "look"], ["charge"]], agents=["asker"], on_ask="wait"),
}


class StoryModel:
    """Answers by the history alone, so that it may be asked again; tells the witness what it was
    told.
    """

    name = "story:model"
    refuses: frozenset[str] = frozenset()

    def __init__(self, story: Story, world: World) -> None:
        self._story, self._world, self._showing = story, world, Showing(world)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        name, turn = where(request.messages)
        if not name:
            yield TextDelta("In short.")
            yield ResponseEnd(
                stop_reason=StopReason.COMPLETE,
                usage=Usage(input_tokens=1, output_tokens=self._story.tokens),
            )
            return
        if self._story.dynamic:
            self._world.instructed(request.system[0].text)
        self._world.saw("asked", name)
        self._showing.show(name, request.messages)
        for result in request.messages[-1].tool_results or (
            r for m in request.messages[-3:] for r in m.tool_results
        ):
            told = {
                "call": result.call_id,
                "is_error": result.is_error,
                "unknown": result.unknown,
                "content": result.content,
            }
            self._world.saw("told", json.dumps(told))
        await anyio.sleep(self._story.pause_s)
        self._world.reached("model")
        turns = self._story.turns_of(name)
        calls = turns[turn] if turn < len(turns) else ()
        for number, tool in enumerate(calls):
            yield ToolCallStart(new_id("call"), tool)
            place = f"{name}-{turn}-{number}"
            yield ArgumentsDelta(
                json.dumps(
                    {"prompt": f"run {place}"}
                    if tool in self._story.agents
                    else {"reason": f"mark-{place}"}
                    if tool == CLOSER
                    else {"mark": f"mark-{place}"}
                )
            )
            yield PartEnd()
        if not calls:
            rejected = request.messages[-1].text.startswith(TOO_EARLY)
            yield TextDelta(THE_END if rejected or not self._story.corrected else "Well.")
        stop = StopReason.TOOL_USE if calls else StopReason.COMPLETE
        usage, response = Usage(input_tokens=1, output_tokens=self._story.tokens), new_id("resp")
        self._world.answered(name, response, usage)
        yield ResponseEnd(stop_reason=stop, usage=usage, id=response)


def where(messages: Sequence[Message]) -> tuple[str, int]:
    """The name of the story that is being told, and how many of its turns are over, also where old
    ones have gone from view.

    The empty name where none is told: a summary is asked for.
    """
    told = [
        found[1]
        for message in messages
        if message.role == "user" and (found := _NAME.fullmatch(message.text))
    ]
    if not told:
        return "", 0
    asked = re.compile(rf"(?:mark-|run ){re.escape(told[-1])}-(\d+)-\d+\"")
    turns = [
        int(turn)
        for message in messages
        for call in message.tool_calls
        for turn in asked.findall(call.arguments_json)
    ]
    return told[-1], max(turns, default=-1) + 1


def agent_of(story: Story, world: World, name: str = "story") -> Agent[object, str]:
    below = [agent_of(STORIES[each], world, each) for each in story.agents]
    return Agent(
        name=name,
        model=StoryModel(story, world),
        tools=[*tools_of(world, story.pause_s), *below],
        limits=story.limits,
        instructions=(lambda ctx: f"These are {new_id('words')}.") if story.dynamic else "",
        history=trim if story.trimmed else None,
        hooks=[Guarding(story)] if story.guarded or story.blocked_by else [],
        output_check=check_end if story.corrected and not story.guarded else None,
        handoffs=[agent_of(replace(story, hands_over=False), world, "closer")]
        if story.hands_over
        else [],
    )


def trim(ctx: RunContext[object], messages: list[Message]) -> list[Message]:
    return messages if len(messages) < 4 else [messages[0], *messages[-2:]]


class Guarding(Hook):
    """Hooks of a guarded story."""

    def __init__(self, story: Story) -> None:
        self._story = story

    async def check_input(self, run: HookedRun, message: Message) -> Stop | None:
        return None if _NAME.fullmatch(message.text) else Stop("no story")

    async def after_tool(
        self, run: HookedRun, call: ToolCall, result: ToolResult
    ) -> str | Stop | None:
        return Stop("too much") if call.name == self._story.blocked_by else f"{result.text}!"

    async def check_output(self, run: HookedRun, output: object) -> Deny | None:
        return None if output == THE_END else Deny("say how it ends")


def check_end(ctx: RunContext[object], output: str) -> None:
    if output != THE_END:
        raise ToolFailed("say how it ends")


def honest(world: World, state: RunState, *, moody: bool = False) -> dict[str, Any]:
    """The answers of a person who looks at the world first, and says nothing of a call that a
    living process may still be busy with.

    `moody`: says no to some of the calls that have not begun.
    """
    answers: dict[str, Any] = {"approve": [], "deny": {}, "results": {}}
    for call in state.current.open_calls:
        if (
            call.id not in state.approvals.asked
            or (mark := json.loads(call.arguments_json).get("mark")) is None
        ):
            continue
        is_over = world.is_over(call.id)  # first: else it may happen and be over in between
        if world.happened(mark):
            answers["results"][call.id] = f"a person found out: {mark}"
        elif is_over:
            if call.id in state.current.starts:
                refused = world.begun(call.id) >= TRIES
            else:
                refused = moody and crc32(call.id.encode()) % 5 == 0
            if refused:
                answers["deny"][call.id] = "not today"
            else:
                answers["approve"].append(call.id)
    return answers


def tools_of(world: World, pause_s: float) -> list[FunctionTool[Any, ..., Any]]:
    """Each has one argument: `mark`."""

    async def effect(ctx: ToolContext[object], mark: str) -> str:
        world.entered(mark, ctx)
        world.reached("effect")
        await anyio.sleep(pause_s / 2)
        world.saw("did", mark, ctx.idempotency_key)
        await anyio.sleep(pause_s / 2)
        world.returned(mark, ctx)
        return f"done: {mark}"

    async def endless(ctx: ToolContext[object], mark: str) -> None:
        world.saw("did", mark, ctx.idempotency_key)
        ctx.progress("it happened")
        await anyio.sleep_forever()

    def slow(ctx: ToolContext[object], mark: str) -> str:
        """In a thread, which a timeout cannot end: what it gives comes late."""
        world.entered(mark, ctx)
        time.sleep(0.15)
        world.saw("did", mark, ctx.idempotency_key)
        world.returned(mark, ctx)
        return f"done after all: {mark}"

    async def look(mark: str) -> str:
        world.reached("look")
        await anyio.sleep(pause_s)
        return f"seen: {mark}"

    async def long(ctx: ToolContext[object], mark: str) -> str:
        return (await effect(ctx, mark)) + " ö" * 5000

    async def probe(ctx: ToolContext[object], mark: str) -> ProbeAnswer:
        return Happened(f"found: {mark}") if world.happened(mark) else DidNotHappen()

    def made(name: str, execute: Any, **traits: Any) -> FunctionTool[Any, ..., Any]:
        return FunctionTool(
            name=name, description=f"Does {name}.", parameters=MARK, execute=execute, **traits
        )

    return [
        made("charge", effect),
        made("alone", effect, parallel=False),
        made("guarded", effect, needs_approval=True),
        made("stamp", effect, effect="idempotent"),
        made("checked", effect, probe=probe),
        made("look", look, effect="pure"),
        made("slow", slow, timeout_s=0.05),
        made("endless", endless),
        made("long", long),
    ]
