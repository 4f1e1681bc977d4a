"""A parsed command line: its simple commands, in order, and descriptions of all other syntax.

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
    """Text of a here-document or here-string."""
    fed_by: ParsedCommand | None = None
    """The command whose output it reads in a pipeline."""
    feeds: bool = False
    """True if another command reads its output in a pipeline."""
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
    """Words of `[ … ]` and `[[ … ]]`, including the brackets."""
    problems: list[str] = field(default_factory=list[str])
    """Descriptions of everything that is not a simple command."""
    is_whole: bool = True
    """False if part of the line could not be parsed, so that `commands` may be incomplete."""
    functions: set[str] = field(default_factory=set[str])
    root: Node | None = None
