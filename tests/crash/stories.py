"""What runs under the crash tests do: tools that leave a witness, a model that knows from the history alone what comes next.

Who starts, kills and resumes them is drive.py's and sweep.py's business. Entry: `STORIES`, `agent_of`.

What a call does is named by its mark, which the story gives: the same however often the model is asked again, while call ids
are new each time, as with real providers.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio

from treadle import Agent, Message, ModelRequest, StopReason, ToolContext, Usage
from treadle.model import ArgumentsDelta, Delta, PartEnd, ResponseEnd, TextDelta, ToolCallStart
from treadle.tooling import DidNotHappen, Happened, ProbeAnswer
from treadle.tools.function import FunctionTool
from treadle.types import OnAsk, OnUnknown, new_id

THE_END = "The end."
_NAME = re.compile(r"run ([\w-]+)")
_MARK = {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"]}


class World:
    """The witness: a file that outlives every process, and that no test double forgets."""

    def __init__(self, witness: Path, *, stop_at: str = "") -> None:
        """`stop_at`: where this process stops itself, once: "model", "look" or "effect"; before anything comes of it."""
        self._path = witness
        self._stop_at = stop_at

    def reached(self, place: str) -> None:
        if place == self._stop_at:
            self._stop_at = ""
            os.kill(os.getpid(), signal.SIGSTOP)

    def saw(self, *words: str) -> None:
        """One line, at once; whole also where many processes write."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, f"{' '.join(words)}\n".encode())
        finally:
            os.close(descriptor)

    def happened(self, mark: str) -> bool:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False
        return any(line.split()[:2] == ["did", mark] for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The names of the tools that are called in each turn; after them comes a text."""

    turns: Sequence[Sequence[str]]
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    meanwhile: Literal["steer", "cancel"] | None = None
    """What somebody does: steers as soon as a call has started, cancels as soon as one says that it happened."""
    fork: bool = False
    """The run is forked after its first turn, with other words; what is killed is the fork."""
    pause_s: float = 0.0
    """How long the model and each tool take."""
    agents: Sequence[str] = ()
    """Names of stories that are tools here: agents that tell them."""

    @property
    def requests(self) -> int:
        """Of all agents in it."""
        below = sum(STORIES[tool].requests for turn in self.turns for tool in turn if tool in self.agents)
        return len(self.turns) + 1 + below

    @property
    def at_once(self) -> int:
        """How many may be under way when a process is killed."""
        return max([1, *(sum(STORIES[tool].at_once for tool in turn if tool in self.agents) for turn in self.turns)])


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
    "long": Story(turns=[["long"], ["charge", "long"]]),
    "helper": Story(turns=[["charge", "stamp"], ["look"]]),
    "delegation": Story(turns=[["helper"], ["charge"]], agents=["helper"]),
    "family": Story(turns=[["delegation", "helper", "charge"]], agents=["delegation", "helper"]),
    "asker": Story(turns=[["guarded", "charge"]], on_ask="wait"),
    "asking family": Story(turns=[["asker", "look"], ["charge"]], agents=["asker"], on_ask="wait"),
}


class StoryModel:
    """Answers by the history alone, so that it may be asked again; tells the witness what it was told."""

    name = "story:model"
    refuses: frozenset[str] = frozenset()

    def __init__(self, story: Story, world: World) -> None:
        self._story, self._world = story, world

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self._world.saw("asked")
        for result in request.messages[-1].tool_results or (r for m in request.messages[-3:] for r in m.tool_results):
            told = {"call": result.call_id, "is_error": result.is_error, "unknown": result.unknown, "content": result.content}
            self._world.saw("told", json.dumps(told))
        await anyio.sleep(self._story.pause_s)
        self._world.reached("model")
        name, turn = where(request.messages)
        calls = self._story.turns[turn] if turn < len(self._story.turns) else ()
        for number, tool in enumerate(calls):
            yield ToolCallStart(new_id("call"), tool)
            place = f"{name}-{turn}-{number}"
            yield ArgumentsDelta(json.dumps({"prompt": f"run {place}"} if tool in self._story.agents else {"mark": f"mark-{place}"}))
            yield PartEnd()
        if not calls:
            yield TextDelta(THE_END)
        stop = StopReason.TOOL_USE if calls else StopReason.COMPLETE
        yield ResponseEnd(stop_reason=stop, usage=Usage(input_tokens=1, output_tokens=1))


def where(messages: Sequence[Message]) -> tuple[str, int]:
    """The name of the story that is being told, and how many of its turns are over."""
    begun = max(i for i, message in enumerate(messages) if message.role == "user" and _NAME.fullmatch(message.text))
    told = _NAME.fullmatch(messages[begun].text)
    assert told is not None, "it was found so"
    return told[1], sum(message.role == "assistant" for message in messages[begun:])


def agent_of(story: Story, world: World, name: str = "story") -> Agent[object, str]:
    below = [agent_of(STORIES[each], world, each) for each in story.agents]
    return Agent(name=name, model=StoryModel(story, world), tools=[*tools_of(world, story.pause_s), *below])


def tools_of(world: World, pause_s: float) -> list[FunctionTool[Any, ..., Any]]:
    """Each has one argument: `mark`."""

    async def effect(ctx: ToolContext[object], mark: str) -> str:
        world.reached("effect")
        await anyio.sleep(pause_s / 2)
        world.saw("did", mark, ctx.idempotency_key)
        await anyio.sleep(pause_s / 2)
        return f"done: {mark}"

    async def endless(ctx: ToolContext[object], mark: str) -> None:
        world.saw("did", mark, ctx.idempotency_key)
        ctx.progress("it happened")
        await anyio.sleep_forever()

    def slow(ctx: ToolContext[object], mark: str) -> str:
        """In a thread, which a timeout cannot end: what it gives comes late."""
        time.sleep(0.15)
        world.saw("did", mark, ctx.idempotency_key)
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
        return FunctionTool(name=name, description=f"Does {name}.", parameters=_MARK, execute=execute, **traits)

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
