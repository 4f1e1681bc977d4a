"""Actions of the keys in an open chat; the bindings are in keys.py. Entry points: `Acting`,
`edited`.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from treadle.errors import AgentError
from treadle.tui.confirm import confirm
from treadle.types import Mode

if TYPE_CHECKING:
    from treadle.tui.chat import Chat
    from treadle.tui.screen import Screen

TWICE_S: Final = 1.5
"""Time within which a second Escape or Ctrl-C counts as a repetition, in seconds."""
MODES: Final[tuple[Mode, ...]] = ("ask", "accept-edits", "plan")
"""Modes that Shift-Tab cycles through; `full` needs the /mode command."""


class Acting:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._escaped_at = self._stopped_at = -TWICE_S

    def send(self) -> None:
        self._chat.said(self._chat.line.take())

    def steer(self) -> None:
        if (text := self._chat.line.take()).strip():
            self._chat.steer(text)

    def escape(self) -> None:
        if self._interrupted():
            return
        if self._is_second(self._escaped_at):
            self._escaped_at = -TWICE_S
            self._note("")
            self._chat.soon(self._go_back)
        else:
            self._escaped_at = anyio.current_time()
            self._note("Escape again: back to an earlier point")

    def interrupt(self) -> None:
        if not self._chat.line.is_empty:
            self._chat.line.clear()
        elif not self._interrupted():
            if self._is_second(self._stopped_at):
                self._chat.screen.close()
            self._stopped_at = anyio.current_time()
            self._note("Ctrl-C again to quit")

    def leave(self) -> None:
        if self._chat.conversation.is_running:
            self._chat.soon(self._leave_anyway)
        else:
            self._chat.screen.close()

    def cycle_mode(self) -> None:
        mode = self._chat.conversation.setting.mode
        self._chat.use_mode(
            MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]
        )

    def view(self) -> None:
        self._chat.soon(self._chat.view, "Everything so far", list(self._chat.blocks))

    def show_todos(self) -> None:
        self._chat.said("/todos")

    def edit(self) -> None:
        self._chat.soon(self._edit)

    def redraw(self) -> None:
        self._chat.screen.redraw()

    def _interrupted(self) -> bool:
        """Interrupt the run, and return queued messages to the input, because they may no longer
        apply. Return False if there was no run.
        """
        if not self._chat.conversation.is_running:
            return False
        self._chat.give_back()
        return self._chat.conversation.interrupt()

    def _is_second(self, before: float) -> bool:
        return anyio.current_time() - before < TWICE_S

    def _note(self, text: str) -> None:
        """Show a text in the status line for a moment."""
        self._chat.status.note = text
        self._chat.screen.refresh()
        if text:
            self._chat.soon(self._forget_note, text)

    async def _forget_note(self, text: str) -> None:
        await anyio.sleep(TWICE_S)
        if self._chat.status.note == text:
            self._note("")

    async def _leave_anyway(self) -> None:
        if await confirm(
            self._chat.screen, "A run is in progress. Interrupt it and quit?", yes="Quit", no="Stay"
        ):
            self._chat.screen.close()

    async def _go_back(self) -> None:
        from treadle.tui.pickers.points import pick_point  # noqa: PLC0415  only for this action

        await pick_point(self._chat)

    async def _edit(self) -> None:
        line = self._chat.line
        text = line.whole(line.buffer.text)
        line.clear()  # text given back during the edit is kept
        try:
            text = await edited(self._chat.screen, text)
            line.pasted.remember(text)
        finally:
            line.give_back(text)
            self._chat.screen.refresh()


async def edited(screen: Screen, text: str) -> str:
    """Open $VISUAL, $EDITOR or vi on the terminal and return the saved text.

    Raises AgentError(invalid) if the editor cannot be started or fails.
    """
    import tempfile  # noqa: PLC0415  only for this action

    said = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(said)
    except ValueError as e:
        raise AgentError("invalid", f"EDITOR={said!r} is not a valid command: {e}") from e
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:  # readable only by the user
        file = Path(folder) / "prompt.md"
        file.write_text(text, "utf-8", "replace")
        async with screen.lent():
            try:
                done = await anyio.run_process(
                    [*command, str(file)], stdin=None, stdout=None, stderr=None, check=False
                )
            except OSError as e:
                raise AgentError(
                    "invalid",
                    (
                        f"{command[0]!r} cannot be started: {e.strerror or e}. Set EDITOR to your "
                        "editor"
                    ),
                ) from e
        if done.returncode:
            raise AgentError(
                "invalid", f"{command[0]!r} ended with {done.returncode}: the input is unchanged"
            )
        return file.read_text("utf-8", "replace").rstrip("\n")
