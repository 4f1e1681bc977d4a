"""Tools of `once` calls with random properties, the same in every process that is given the same
seed. Entry: `properties_of`, `odd_tools`, `OddStory`.

All have a probe: that a probe may be asked whenever the journal asks it is what is promised. Each
has the argument `mark`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import anyio
from typing_extensions import override

from tests.crash.stories import MARK, Story, World
from treadle import ToolContext
from treadle.tools.function import FunctionTool
from treadle.tools.tool import DidNotHappen, Happened, ProbeAnswer, ToolDeferred
from treadle.types import Limits

ODD = 8
"""Tools of a crew."""
OTHERS = ("look", "stamp", "long", "guarded")
FIRST_TURN = ("odd0", "look")


class Properties(NamedTuple):
    kind: Literal["async", "sync", "shielded", "spawning"]
    """`sync` runs in a thread, which nobody can stop; `shielded` does not heed cancellation;
    `spawning` starts a process meanwhile.
    """
    before_s: float
    """Until the effect."""
    after_s: float
    slow_probe_s: float
    """How long a probe takes to give what it found when it began."""
    timeout_s: float | None
    deferred: bool
    """Its result comes from outside."""
    parallel: bool


def properties_of(seed: int, number: int, *, longest_s: float) -> Properties:
    """`longest_s`: how long the effect of a call may take to come about."""
    chance = random.Random(f"{seed}/{number}")
    kind = chance.choice(("async", "sync", "sync", "shielded", "spawning"))
    before_s, after_s = (chance.choice((0.0, 0.0, 0.1, 0.4, 1.0)) * longest_s for _ in range(2))
    may_time_out = kind in ("async", "sync") and chance.random() < 0.3
    return Properties(
        kind=kind,
        before_s=before_s,
        after_s=after_s,
        slow_probe_s=chance.choice((0.0, 0.0, 0.5, 1.5)) * longest_s,
        timeout_s=max(before_s + after_s, 0.05) * chance.choice((0.5, 0.9))
        if may_time_out
        else None,
        deferred=chance.random() < 0.15,
        parallel=chance.random() < 0.8,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OddStory(Story):
    """Each run has turns of its own."""

    seed: int
    length: int
    """Turns of a run."""

    @override
    def turns_of(self, name: str) -> Sequence[Sequence[str]]:
        chance = random.Random(f"{self.seed}/{name}")
        tools = [f"odd{number}" for number in range(ODD)] * 2 + list(OTHERS)
        return [
            FIRST_TURN,
            *(
                tuple(chance.sample(tools, chance.choice((1, 1, 2, 3))))
                for _ in range(self.length - 1)
            ),
        ]


def limits_of(name: str) -> Limits:
    """One run in five may spend less than it needs."""
    chance = random.Random(name)
    return Limits(
        turns=10_000,
        tokens=chance.randrange(1_500, 6_000) if name and chance.random() < 0.2 else None,
    )


def odd_tools(world: World, seed: int, *, longest_s: float) -> list[FunctionTool[Any, ..., Any]]:
    return [
        _odd(world, f"odd{number}", properties_of(seed, number, longest_s=longest_s))
        for number in range(ODD)
    ]


def _odd(world: World, name: str, properties: Properties) -> FunctionTool[Any, ..., Any]:
    does = (
        partial(_in_thread, world, properties)
        if properties.kind == "sync"
        else partial(_in_loop, world, properties)
    )

    async def probe(ctx: ToolContext[object], mark: str) -> ProbeAnswer:
        happened = world.happened(mark)
        await anyio.sleep(properties.slow_probe_s)
        return Happened(f"found: {mark}") if happened else DidNotHappen()

    return FunctionTool(
        name=name,
        description=f"Does {name}.",
        parameters=MARK,
        execute=_sync(does) if properties.kind == "sync" else _async(does),
        timeout_s=properties.timeout_s,
        parallel=properties.parallel,
        probe=probe,
    )


def _sync(does: Callable[..., Any]) -> Callable[..., Any]:
    def execute(ctx: ToolContext[object], mark: str) -> str:
        return does(ctx, mark)

    return execute


def _async(does: Callable[..., Any]) -> Callable[..., Any]:
    async def execute(ctx: ToolContext[object], mark: str) -> str:
        return await does(ctx, mark)

    return execute


def _in_thread(world: World, properties: Properties, ctx: ToolContext[object], mark: str) -> str:
    world.entered(mark, ctx)
    time.sleep(properties.before_s)
    world.saw("did", mark, ctx.idempotency_key)
    time.sleep(properties.after_s)
    return _over(world, properties, ctx, mark)


async def _in_loop(
    world: World, properties: Properties, ctx: ToolContext[object], mark: str
) -> str:
    world.entered(mark, ctx)
    try:
        with anyio.CancelScope(shield=properties.kind == "shielded"):
            await anyio.sleep(properties.before_s)
            if properties.kind == "spawning":
                await anyio.run_process([sys.executable, "-S", "-E", "-c", ""])
            world.saw("did", mark, ctx.idempotency_key)
            await anyio.sleep(properties.after_s)
    except BaseException:
        world.left(mark, ctx)
        raise
    return _over(world, properties, ctx, mark)


def _over(world: World, properties: Properties, ctx: ToolContext[object], mark: str) -> str:
    if properties.deferred:
        world.left(mark, ctx)
        raise ToolDeferred
    world.returned(mark, ctx)
    return f"done: {mark}"


def described(seed: int, *, longest_s: float) -> Sequence[str]:
    """A line for each tool, for whoever reads what a run came to."""
    return [
        f"odd{number}: {properties_of(seed, number, longest_s=longest_s)}" for number in range(ODD)
    ]
