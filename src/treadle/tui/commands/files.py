"""Commands on the results of the work: `/diff` and `/copy`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.text import Text

from treadle._internal.terminal_text import plain
from treadle._internal.units import count, size
from treadle.errors import AgentError
from treadle.runtime.undo import changed_files
from treadle.tools.builtin.restore import ChangedFile
from treadle.tui import differences
from treadle.tui.drawing import Drawing

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

FILES_MAX: Final = 20
LINES_MAX: Final = 60
"""Maximum lines of the difference of one file."""
CLIPBOARD_BYTES: Final = 74_000
"""Size that most terminals accept in one sequence."""


# ---------------------------------------------------------------- changes


async def show_changes(desk: Desk, rest: str) -> None:
    """Show what `write` and `edit` changed, from before the conversation to the current files."""
    conversation = desk.conversation
    changed = await changed_files(conversation.runtime.journal, await conversation.runs())
    if not changed:
        desk.tell(
            "No file was changed by write or edit in this conversation. Changes by commands are "
            "not tracked: `git diff` may show them."
        )
        return
    drawing = Drawing(desk.screen.columns, desk.theme)
    shown = [part for file in changed[:FILES_MAX] for part in _drawn(file, desk.cwd, drawing)]
    if len(changed) > FILES_MAX:
        shown.append(
            Text(f"… and {count(len(changed) - FILES_MAX, 'more file')}", drawing.style("dim"))
        )
    desk.show(Group(*shown))


def _drawn(file: ChangedFile, cwd: Path, drawing: Drawing) -> Iterator[RenderableType]:
    path = shown_path(file.path, cwd)
    before, now = _text_of(file.before), _text_of(file.now)
    if file.why:
        yield Text(f"{path}: {plain(file.why)}", drawing.style("warning"))
    elif before is None or now is None:
        yield Text(f"{path}: changed (binary)", drawing.style("dim"))
    else:
        what = " (new)" if file.before is None else " (removed)" if file.now is None else ""
        yield Text(path + what, drawing.style("title"))
        yield differences.drawn(path, before, now, drawing, most=LINES_MAX)


def shown_path(path: str, cwd: Path) -> str:
    """Return the path relative to `cwd` if it is inside."""
    base = os.path.realpath(cwd)
    return plain(os.path.relpath(path, base) if Path(path).is_relative_to(base) else path)


def _text_of(data: bytes | None) -> str | None:
    """Return the decoded text, or None for binary data."""
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else "\n".join(map(plain, text.split("\n")))


# ---------------------------------------------------------------- the clipboard


async def copy(desk: Desk, rest: str) -> None:
    answer = desk.transcript.answer
    if not answer.strip():
        raise AgentError("invalid", "there is no answer to copy yet")
    text, what = (
        (_block(answer, rest), f"Code block {rest}")
        if rest
        else (answer.strip(), "The last answer")
    )
    data = plain(text)
    desk.screen.copy(data)
    length = len(data.encode())
    desk.tell(f"{what} ({size(length)}) was sent to the terminal's clipboard.")
    if length > CLIPBOARD_BYTES:
        desk.tell(
            (
                f"Many terminals accept at most {size(CLIPBOARD_BYTES)} at once: /export writes "
                "it to a file."
            ),
            "warning",
        )


def _block(answer: str, which: str) -> str:
    """Return the code block with that number. Raises AgentError(invalid)."""
    blocks = code_blocks(answer)
    if not which.isascii() or not which.isdecimal():
        raise AgentError(
            "invalid",
            "say which code block, by its number: /copy 1 is the first one of the last answer",
        )
    if not 0 < int(which[:6]) <= len(blocks):
        raise AgentError(
            "invalid",
            (
                f"the last answer has {count(len(blocks), 'code block')}: there is no code block "
                f"{which[:6]}"
            ),
        )
    return blocks[int(which) - 1]


def code_blocks(answer: str) -> list[str]:
    """Return the contents of the code blocks, without fences."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  only to copy

    return [
        token.content.rstrip("\n")
        for token in MarkdownIt().parse(answer)
        if token.type in ("fence", "code_block")
    ]
