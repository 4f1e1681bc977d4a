"""Commands on settings of the next run: model, mode and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rich.console import Group
from rich.table import Table
from rich.text import Text

from treadle._internal.json_text import encode_json
from treadle._internal.terminal_text import one_line
from treadle.errors import AgentError
from treadle.tui.confirm import confirm
from treadle.tui.drawing import Drawing
from treadle.types import Mode

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

MODES: Final[dict[Mode, tuple[str, str]]] = {
    "plan": ("reading, inside the project", "changes are denied, the rest needs approval"),
    "ask": ("reading, inside the project", "everything else needs approval"),
    "accept-edits": (
        "reading and editing files, inside the project",
        "everything else needs approval",
    ),
    "full": (
        "everything, with the hosts that permissions.network allows",
        "except what your rules deny or ask about",
    ),
}
"""For each mode, the actions that run without approval, and what happens to the rest."""
VALUE_CHARS: Final = 60


async def choose_model(desk: Desk, rest: str) -> None:
    if not rest:
        from treadle.tui.pickers.models import pick_model  # noqa: PLC0415  only for the picker

        rest = await pick_model(desk) or ""
    if rest:
        desk.use_model(rest)
        when = "from the next run on" if desk.conversation.is_running else "from now on"
        desk.tell(f"{one_line(cast('str', desk.conversation.setting.agent.model))} is used {when}.")


async def choose_mode(desk: Desk, rest: str) -> None:
    now = desk.conversation.setting.mode
    if not rest:
        desk.show(_modes(desk, now))
        return
    mode = mode_of(rest)
    if mode == now:
        desk.tell(f"The mode is already {mode}.")
        return
    if mode == "full" and not await _is_meant(desk):
        return
    desk.conversation.use_mode(mode)
    desk.status.mode = mode
    desk.screen.refresh()
    unasked, other = MODES[mode]
    desk.tell(f"Mode {mode}: allows {unasked}; {other}.", "warning" if mode == "full" else "dim")


def mode_of(given: str) -> Mode:
    """Return the mode with this name or prefix; `full` must be written out.

    Raises AgentError(invalid).
    """
    word = given.lower()
    meant: list[Mode] = [
        mode for mode in MODES if mode == word or (mode != "full" and mode.startswith(word))
    ]
    if len(meant) == 1:
        return meant[0]
    if word and "full".startswith(word):
        raise AgentError("invalid", "write it out: /mode full runs every call without asking")
    raise AgentError(
        "invalid", f"there is no mode {one_line(given, 40)!r}: there are {', '.join(MODES)}"
    )


async def _is_meant(desk: Desk) -> bool:
    sandbox = "" if desk.status.confined else " There is NO SANDBOX."
    what = (
        "every call runs without asking, and commands reach the hosts that permissions.network "
        "allows"
    )
    question = f"Mode full: {what}.{sandbox} What your rules deny stays denied. Switch it on?"
    return await confirm(desk.screen, question, yes="Run everything", no="No", danger=True)


def _modes(desk: Desk, now: Mode) -> Group:
    drawing = Drawing(desk.screen.columns, desk.theme)
    grid = Table.grid(padding=(0, 2))
    for mode, (unasked, other) in MODES.items():
        mark = drawing.theme.glyphs.prompt if mode == now else " "
        style = drawing.style("mode.unsafe" if mode == "full" else "key")
        grid.add_row(
            Text(mark, drawing.style("prompt")),
            Text(mode, style),
            Text(unasked),
            Text(other, drawing.style("dim")),
        )
    return Group(
        Text("What runs without approval in each mode:", drawing.style("title")),
        grid,
        Text("/mode NAME changes it; Shift-Tab cycles through them.", drawing.style("dim")),
    )


async def show_config(desk: Desk, rest: str) -> None:
    """Show the settings that differ from the defaults."""
    drawing = Drawing(desk.screen.columns, desk.theme)
    grid = Table.grid(padding=(0, 2))
    rows = [row for row in desk.config.rows() if row.origin.source != "default"]
    for row in rows:
        value = row.value if isinstance(row.value, str) else encode_json(row.value).decode()
        shown = one_line(desk.conversation.runtime.redact(value), VALUE_CHARS)
        grid.add_row(
            Text(one_line(row.key), drawing.style("key")),
            Text(shown),
            Text(one_line(str(row.origin), 400), drawing.style("dim")),
        )
    if not rows:
        desk.tell(
            "All settings have their defaults. `treadle config show` lists every setting, `treadle "
            "config set KEY VALUE` changes one."
        )
        return
    desk.show(
        Group(
            grid,
            Text(
                "Other settings have their defaults: `treadle config show` lists all.",
                drawing.style("dim"),
            ),
        )
    )
