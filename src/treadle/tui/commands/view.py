"""Commands that only display: `/help` and `/todos`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from treadle._internal.terminal_text import columns, cut, one_line
from treadle.messages.todos import progress
from treadle.tui.commands.command import SlashCommand
from treadle.tui.drawing import Drawing
from treadle.tui.keys import KEYS

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

CELL_COLUMNS: Final = 40
"""Minimum width of a command in `/help`."""


async def show_help(desk: Desk, commands: Sequence[SlashCommand]) -> None:
    """Show the keys, the built-in and the user-defined commands in as many columns as fit."""
    drawing = Drawing(desk.screen.columns, desk.theme)
    shown: list[RenderableType] = [Text("Keys", drawing.style("title")), _keys(drawing)]
    for title, own in (("Commands", False), ("Your own commands", True)):
        if some := [command for command in commands if command.own is own]:
            shown += [Text(title, drawing.style("title")), _commands(some, drawing)]
    hint = (
        "Commands can be abbreviated: /comp. Add your own as .treadle/commands/NAME.md, here or in "
        "your home."
    )
    desk.show(Group(*shown, Text(hint, drawing.style("dim"))))


def _keys(drawing: Drawing) -> Text:
    wide = min(max(len(key) for key, _ in KEYS), max(drawing.width // 2 - 4, 8))
    text = Text()
    for number, (key, what) in enumerate(KEYS):
        text.append("\n" if number else "")
        text.append(f"  {key:<{wide}}  ", drawing.style("key"))
        text.append(cut(what, max(drawing.width - max(wide, len(key)) - 4, 8)))
    return text


def _commands(commands: Sequence[SlashCommand], drawing: Drawing) -> Table:
    """Lay out the commands column by column."""
    beside = max(drawing.width // CELL_COLUMNS, 1)
    rows = -(-len(commands) // beside)
    cell = drawing.width // beside
    wide = min(max(columns(_called(command)) for command in commands), cell // 2)
    grid = Table.grid()
    for row in range(rows):
        grid.add_row(*(_cell(command, wide, cell, drawing) for command in commands[row::rows]))
    return grid


def _called(command: SlashCommand) -> str:
    return one_line(f"/{command.name} {command.usage}".rstrip(), 60)


def _cell(command: SlashCommand, wide: int, cell: int, drawing: Drawing) -> Text:
    called = cut(_called(command), wide)
    text = Text("  ", no_wrap=True)
    text.append(called + " " * (wide - columns(called)), drawing.style("key"))
    text.append(
        f"  {cut(one_line(command.summary, 200), max(cell - wide - 5, 4))}", drawing.style("dim")
    )
    return text


async def show_todos(desk: Desk, rest: str) -> None:
    if not (todos := desk.transcript.live.todos):
        desk.tell("There is no to-do list yet: the agent writes one for tasks with several steps.")
        return
    drawing = Drawing(desk.screen.columns, desk.theme)
    desk.show(Group(Text(progress(todos), drawing.style("title")), *_todos(desk, drawing)))


def _todos(desk: Desk, drawing: Drawing) -> Iterator[Text]:
    glyphs = drawing.theme.glyphs
    marks = {
        "completed": (glyphs.checked, "dim"),
        "in_progress": (glyphs.arrow, "todo"),
        "pending": (glyphs.unchecked, "assistant"),
    }
    wide = max(columns(mark) for mark, _ in marks.values())
    for todo in desk.transcript.live.todos:
        mark, style = marks[todo.status]
        words = todo.now if todo.status == "in_progress" else todo.content
        yield Text(
            f"  {mark}{' ' * (wide - columns(mark))} {one_line(words, 1_000)}", drawing.style(style)
        )
