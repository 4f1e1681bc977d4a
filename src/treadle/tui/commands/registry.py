"""All slash commands by name, and the parsing of typed commands. Entry points: `SlashCommands`.

The implementations are imported on use, so the completions stay cheap.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from treadle._internal.terminal_text import one_line
from treadle.tui.commands.command import SlashCommand

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

NEAREST: Final = 3
_TYPED: Final = re.compile(r"/([A-Za-z0-9][\w.:-]*)(?:\s+(.*))?\s*", re.DOTALL)


class _Ours(NamedTuple):
    name: str
    place: str
    """Module in this package, with the name of the function in it."""
    usage: str
    summary: str
    while_running: bool = True


_OURS: Final = (
    _Ours("help", "view:show_help", "", "keys and commands"),
    _Ours("model", "settings:choose_model", "[NAME]", "choose the model"),
    _Ours("mode", "settings:choose_mode", "[MODE]", "choose the mode"),
    _Ours("sessions", "conversation:pick", "", "open a conversation", while_running=False),
    _Ours("resume", "conversation:resume", "[ID]", "open one by id", while_running=False),
    _Ours("new", "conversation:begin", "", "start a new one", while_running=False),
    _Ours("rename", "conversation:rename", "TITLE", "set its title"),
    _Ours("compact", "conversation:compact", "", "compact the context"),
    _Ours("clear", "conversation:clear", "", "clear all messages", while_running=False),
    _Ours("undo", "undo:undo", "", "undo the last prompt", while_running=False),
    _Ours("diff", "files:show_changes", "", "changes to files"),
    _Ours("cost", "account:show_cost", "", "tokens and money"),
    _Ours("context", "account:show_context", "", "context usage"),
    _Ours("todos", "view:show_todos", "", "the to-do list"),
    _Ours("agents", "around:show_agents", "", "available agents"),
    _Ours("mcp", "around:show_servers", "", "MCP servers, tools"),
    _Ours("config", "settings:show_config", "", "changed settings"),
    _Ours("copy", "files:copy", "[N]", "copy the answer"),
    _Ours("export", "export:export", "[FILE]", "save to a file"),
    _Ours("quit", "conversation:leave", "", "end the chat"),
)
"""Built-in commands in the order of `/help`; each summary fits its cell there."""
OUR_NAMES: Final = frozenset(one.name for one in _OURS)
"""Names reserved for built-in commands."""


@dataclass(frozen=True, slots=True)
class UnknownCommand:
    """Result for a name that matches no command, or more than one."""

    name: str
    """Name as typed, without the slash."""
    nearest: tuple[str, ...] = ()
    is_beginning: bool = False
    """True if the nearest names begin with the typed name."""

    @property
    def message(self) -> str:
        """Message for the user that names the nearest commands."""
        name, near = one_line(f"/{self.name}", 40), [f"/{each}" for each in self.nearest]
        if self.is_beginning:
            return f"{name} is the beginning of {', '.join(near)}: write more of it"
        return f"unknown command {name}: " + (
            f"did you mean {' or '.join(near)}?" if near else "/help lists them"
        )


class SlashCommands:
    """Built-in commands followed by user-defined ones."""

    def __init__(self, own: Sequence[SlashCommand] = ()) -> None:
        self._ours = {
            one.name: SlashCommand(
                name=one.name,
                summary=one.summary,
                usage=one.usage,
                run=self._of(one),
                while_running=one.while_running,
            )
            for one in _OURS
        }
        self._by_name = dict[str, SlashCommand]()
        self.use_own(own)

    def _of(self, one: _Ours) -> Callable[[Desk, str], Awaitable[None]]:
        return self._help if one.name == "help" else partial(_imported, one.place)

    async def _help(self, desk: Desk, rest: str) -> None:
        from treadle.tui.commands.view import show_help  # noqa: PLC0415  brings Rich, which the start does not need

        await show_help(desk, [*self])

    def use_own(self, own: Sequence[SlashCommand]) -> None:
        """Replace the user-defined commands. One with the name of a built-in command is ignored."""
        theirs = {
            command.name: command for command in sorted(own, key=lambda command: command.name)
        }
        self._by_name = {
            **self._ours,
            **{name: command for name, command in theirs.items() if name not in self._ours},
        }

    def __iter__(self) -> Iterator[SlashCommand]:
        """Yield built-in commands in the order of `/help`, then user-defined ones by name."""
        return iter(self._by_name.values())

    def find(self, text: str) -> tuple[SlashCommand, str] | UnknownCommand:
        """Return the command that the typed text means, with its stripped arguments.

        The name may be shortened to an unambiguous prefix.
        """
        name, rest = _taken_apart(text)
        if (command := self._by_name.get(name) or self._by_name.get(name.lower())) is not None:
            return command, rest
        begun = [known.name for known in self if name and known.name.startswith(name.lower())]
        if len(begun) == 1:
            return self._by_name[begun[0]], rest
        if begun:
            return UnknownCommand(name, tuple(begun), is_beginning=True)
        from difflib import get_close_matches  # noqa: PLC0415  costs 5 ms of start-up; only needed for wrong names

        return UnknownCommand(
            name,
            tuple(get_close_matches(name.lower()[:80], [known.name for known in self], n=NEAREST)),
        )


def is_command(text: str) -> bool:
    """Return True for `/name …`, but not for a path such as `/etc/hosts`."""
    return _TYPED.fullmatch(text.strip()) is not None


def _taken_apart(text: str) -> tuple[str, str]:
    if (typed := _TYPED.fullmatch(text.strip())) is not None:
        return typed[1], (typed[2] or "").strip()
    name, _, rest = text.strip().removeprefix("/").partition(" ")
    return name, rest.strip()


async def _imported(place: str, desk: Desk, rest: str) -> None:
    module, _, function = place.partition(":")
    run = cast(
        "Callable[[Desk, str], Awaitable[None]]",
        getattr(import_module(f"treadle.tui.commands.{module}"), function),
    )
    await run(desk, rest)
