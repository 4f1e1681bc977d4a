"""What a frame costs while an answer is streamed, in calls of functions, and what it writes:
neither has to do with what was said before.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import FrameType

import pytest

from tests.tui.standing import Stage, standing
from treadle.agents.agent import Agent
from treadle.messages import events
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tui.transcript import Transcript

STREAMED = (
    "Some *words* of `an answer` which goes on for a while. " * 6
    + "\n\n```python\nfor n in range(10):\n    print(n)\n```\n\n- one\n- two\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\nDone.\n"
)
MOVES = re.compile(r"\n|\x1b\[(\d*)([ABHJ])")

pytestmark = pytest.mark.anyio


class Watched:
    """Real runs of one conversation, drawn on a real screen: a frame after every event."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.transcript = stage, Transcript()
        stage.screen.region._live = lambda: self.transcript.live  # pyright: ignore[reportPrivateUsage]  the stage has one that stays empty
        self._app = stage.screen._app  # pyright: ignore[reportPrivateUsage]  it draws with the clock, and this is to be counted
        self._row = self._top = self._read = 0
        self._model = ScriptedModel([])
        self.frames = 0

    def draw(self, event: events.Event) -> None:
        self.stage.screen.print(*self.transcript.apply(event))
        self._app._redraw()  # pyright: ignore[reportPrivateUsage]  likewise
        self.frames += 1
        self._follow()

    def _follow(self) -> None:
        """On paper without an end: the cursor never goes above the row where the region began."""
        self.stage.out.seek(self._read)
        text = self.stage.out.read()
        for move in MOVES.finditer(text):
            count = int(move[1] or 1)
            if move[2] in ("H", "J") and move[0] not in ("\x1b[J", "\x1b[0J"):
                raise AssertionError(f"{move[0]!r} says nothing of where the region is")
            self._row += {None: 1, "A": -count, "B": count}.get(move[2], 0)
            assert self._row >= self._top, (
                f"frame {self.frames} went {self._top - self._row} rows above the region"
            )
        self._read += len(text)
        self._top = self._row - self._app.renderer._cursor_pos.y  # pyright: ignore[reportPrivateUsage]  where the region stands now

    async def say(self, runtime: Runtime, *, counted: bool = False) -> int:
        """The calls of functions in all frames, where they are counted."""
        calls = 0

        def count(frame: FrameType, kind: str, argument: object) -> None:
            nonlocal calls
            calls += kind == "call"

        self.transcript.begin()
        agent = Agent(
            name="a",
            instructions="",
            model=ScriptedModel([{"text": STREAMED if counted else "Yes.\n\n- so it is\n"}]),
        )
        async with runtime.stream(agent, "Go on", session="s") as stream:
            async for event in stream:
                if counted and isinstance(event, events.TextDelta):
                    sys.setprofile(count)
                try:
                    self.draw(event)
                finally:
                    sys.setprofile(None)
        return calls


@asynccontextmanager
async def watched() -> AsyncGenerator[tuple[Watched, Runtime]]:
    async with Runtime.open("memory:") as runtime, standing(100, 30) as stage:
        yield Watched(stage), runtime


async def test_a_frame_costs_after_a_thousand_messages_what_it_costs_after_ten() -> None:
    async with watched() as (chat, runtime):
        for _ in range(4):
            await chat.say(runtime)
        await chat.say(runtime, counted=True)  # imports, and what is kept once it was found out
        early = await chat.say(runtime, counted=True)
        for _ in range(494):
            await chat.say(runtime)
        late = await chat.say(runtime, counted=True)
    assert early > 1_000
    assert late <= early * 1.02


async def test_nothing_above_the_region_is_written_again() -> None:
    async with watched() as (chat, runtime):
        for _ in range(3):
            await chat.say(runtime, counted=True)
    assert chat.frames > 100
    assert (
        chat.stage.written.count("Some words of an answer") == 3 * 6
        or "Done." in chat.stage.written
    )
