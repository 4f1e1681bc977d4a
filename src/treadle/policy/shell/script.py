"""A command line as values: its simple commands, in order, and descriptions of the rest.

Entry point: `Script`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treadle.policy.shell.words import ShellWord

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, slots=True)
class Redirect:
    operator: str
    target: ShellWord
    descriptor: str = ""


@dataclass(slots=True)
class ParsedCommand:
    """A simple command: assignments, words, redirects."""

    words: list[ShellWord]
    assignments: list[tuple[str, ShellWord]] = field(default_factory=list[tuple[str, ShellWord]])
    redirects: list[Redirect] = field(default_factory=list[Redirect])
    body: str | None = None
    """Literal text of a here-document or here-string."""
    fed_by: ParsedCommand | None = None
    """The command before it in a pipeline."""
    feeds: bool = False
    """Another command reads what it prints."""
    in_function: str = ""

    @property
    def argv(self) -> list[str]:
        return [word.value for word in self.words]

    @property
    def has_input(self) -> bool:
        return self.fed_by is not None or any(
            redirect.operator in ("<", "<<", "<<<", "<>") for redirect in self.redirects
        )


@dataclass(slots=True)
class Script:
    commands: list[ParsedCommand] = field(default_factory=list[ParsedCommand])
    tests: list[list[ShellWord]] = field(default_factory=list[list[ShellWord]])
    """Words of `[ … ]` and `[[ … ]]`, with the brackets."""
    problems: list[str] = field(default_factory=list[str])
    """Descriptions of everything that is not a simple command."""
    is_whole: bool = True
    """False if part of it could not be read, so that something in it may have been missed."""
    functions: set[str] = field(default_factory=set[str])
    root: Node | None = None
