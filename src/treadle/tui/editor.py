"""Editing of the input in the user's own editor. Entry points: `edited`."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.tui.screen import Screen


async def edited(screen: Screen, text: str) -> str:
    """Open $VISUAL, $EDITOR or vi on the terminal and return the saved text.

    Raises AgentError(invalid) if the editor cannot be started or fails.
    """
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
