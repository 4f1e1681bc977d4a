"""An open chat as commands see it: real runs, a real screen whose keys come through a pipe, and
what was told and shown, as it would be drawn.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from rich.console import RenderableType

from tests.tui.standing import THEME, Stage, standing
from treadle.agents.agent import Agent
from treadle.config import Config, load
from treadle.messages.events import Event
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.approval import ApprovalRequest, Approve
from treadle.tools.builtin.coding import default_tools
from treadle.tui.commands.registry import SlashCommands, UnknownCommand
from treadle.tui.conversation import ChatConversation, RunSetting
from treadle.tui.drawing import Drawing
from treadle.tui.status import Status
from treadle.tui.transcript import Transcript

SGR = re.compile(r"\x1b\[[0-9;]*m")


async def everything(_: ApprovalRequest) -> Approve:
    return Approve()


class FakeDesk:
    """A `Desk` whose scrollback is `told`, one entry for each block."""

    def __init__(self, stage: Stage, runtime: Runtime, setting: RunSetting, config: Config) -> None:
        self.stage, self.config = stage, config
        self.theme, self.screen, self.line, self.cwd = (
            THEME,
            stage.screen,
            stage.screen.line,
            setting.cwd,
        )
        self.transcript = Transcript()
        self.status = Status(theme=THEME, live=lambda: self.transcript.live)
        self.conversation = ChatConversation(
            runtime, setting, session_id=None, approver=everything, show=self._happened
        )
        self.commands = SlashCommands()
        self.told: list[str] = []
        self.sent: list[tuple[str, str | None]] = []
        self.opened: list[str | None] = []
        self.has_left = False

    def _happened(self, event: Event) -> None:
        self.transcript.apply(event)

    def tell(self, text: str, style: str = "dim") -> None:
        self.told.append(text)

    def show(self, renderable: RenderableType) -> None:
        self.told.append(SGR.sub("", Drawing(self.screen.columns, self.theme).ansi(renderable)))

    def send(self, text: str, *, shown: str | None = None) -> None:
        self.sent.append((text, shown))

    async def open(self, session_id: str | None) -> None:
        self.conversation.open(session_id)
        self.opened.append(session_id)

    def use_model(self, model: str) -> None:
        self.conversation.runtime.models.get(model, scope="test")
        self.conversation.use_model(model)

    def leave(self) -> None:
        self.has_left = True

    async def say(self, text: str) -> None:
        await self.conversation.say(text)

    async def command(self, typed: str, *keys: str) -> str:
        """What it told; the keys answer a question that comes, once it can hear."""
        before = len(self.told)
        found = self.commands.find(typed)
        assert not isinstance(found, UnknownCommand), found.message
        command, rest = found

        async def run() -> None:
            await command.run(self, rest)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                for key in keys:
                    while not self.screen.is_asking:
                        await anyio.sleep(0)
                    self.stage.press(key)
        return "\n".join(self.told[before:])


@asynccontextmanager
async def a_desk(
    folder: Path,
    script: Sequence[Any] = (),
    *,
    url: str = "memory:",
    columns: int = 80,
    rows: int = 24,
    config: Config | None = None,
    **agent: Any,
) -> AsyncGenerator[FakeDesk]:
    """`folder`: the working directory."""
    config = config or load(cwd=folder)
    given: dict[str, Any] = {
        "model": ScriptedModel([*script]),
        "tools": default_tools(),
        "instructions": "Help.",
        **agent,
    }
    made = Agent[Any, Any](name="helper", **given)
    async with Runtime.open(url, config=config) as runtime, standing(columns, rows) as stage:
        yield FakeDesk(stage, runtime, RunSetting(agent=made, cwd=folder, mode="full"), config)
