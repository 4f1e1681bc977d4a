"""An open chat as it is, on a real screen whose keys come through a pipe; the model is scripted.

Entry: `a_chat`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from tests.tui.standing import THEME, Stage, standing
from treadle.agents.agent import Agent
from treadle.config import Config, load
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.builtin.coding import default_tools
from treadle.tui.chat import Chat, Open
from treadle.tui.commands.registry import SlashCommands
from treadle.tui.conversation import RunSetting
from treadle.tui.status import Status
from treadle.tui.transcript import Transcript
from treadle.types import Mode


class Chatting:
    """A chat and what stands around it."""

    def __init__(self, chat: Chat, stage: Stage) -> None:
        self.chat, self.stage = chat, stage

    def says(self, text: str) -> None:
        """Typed and sent."""
        self.chat.line.put(text)
        self.chat.acting.send()

    async def until(self, what: Callable[[], object]) -> None:
        with anyio.fail_after(20):
            while not what():
                await anyio.sleep(0)

    async def is_idle(self) -> None:
        await self.until(
            lambda: not self.chat.conversation.is_running and not self.chat.conversation.queued
        )


@asynccontextmanager
async def a_chat(
    folder: Path,
    script: Sequence[Any] = (),
    *,
    url: str = "memory:",
    mode: Mode = "full",
    session: str | None = None,
    config: Config | None = None,
    **agent: Any,
) -> AsyncGenerator[Chatting]:
    """`folder`: the working directory; `session`: the conversation that is opened."""
    config = config or load(cwd=folder)
    given: dict[str, Any] = {
        "model": ScriptedModel([*script]),
        "tools": default_tools(),
        "instructions": "Help.",
        **agent,
    }
    made = Agent[Any, Any](name="helper", **given)
    async with Runtime.open(url, config=config) as runtime, standing() as stage:
        transcript = Transcript()
        status = Status(theme=THEME, live=lambda: transcript.live)
        parts = Open(
            config=config,
            theme=THEME,
            screen=stage.screen,
            line=stage.screen.line,
            status=status,
            transcript=transcript,
            commands=SlashCommands(),
        )
        chat = Chat(parts, runtime, RunSetting(agent=made, cwd=folder, mode=mode), session)
        begun = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: chat.run([], then=begun.set))
            if session is None:
                await begun.wait()
            yield Chatting(chat, stage)
            stage.screen.close()
