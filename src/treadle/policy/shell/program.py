"""A program that only reads, as a row of a table: its options, and which of its arguments are
paths.

Entry points: `Program`, `gnu_options`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.policy.decision import FindingKind
from treadle.policy.shell.options import Options, Parsed, any_given

Operands: TypeAlias = Literal["contents", "names", "words", "none", "pattern"]
"""Kinds of operands: files whose contents are shown, files of which only names are shown, mere
text, forbidden ones; a pattern and then files.
"""

NO_OPTIONS = Options()


@dataclass(frozen=True)
class Program:
    operands: Operands
    options: Options = NO_OPTIONS
    kind: FindingKind = FindingKind.READS
    most: int | None = None
    """Operands; one more is written to."""
    recursive: str = ""
    """Options that make it tell the contents of all below a folder, besides each other by blanks.
    """
    always_recursive: bool = False
    held_with: str = ""
    """Options with which only the sandbox holds it: it ends when it is stopped, or follows links.
    """
    held_alone: bool = False
    """The same, where it has no operand: it copies its input for as long as there is any."""
    takes_anything: bool = False
    """Options are words like others."""
    pattern_options: str = "e regexp f file"
    """Options that make all operands files."""
    check: Callable[[Parsed], str | None] | None = None
    """Why this use of it is none that only reads."""


def gnu_options(
    short: str = "",
    values: str = "",
    paths: str = "",
    long: str = "",
    *,
    glued: str = "",
    numbers: bool = False,
) -> Options:
    """Return options with `--help` and `--version`."""
    return Options(short, values, paths, f"{long} help version", glued=glued, numbers=numbers)


def is_recursive(program: Program, parsed: Parsed) -> bool:
    return program.always_recursive or any_given(parsed, program.recursive.split())


def is_held(program: Program, parsed: Parsed) -> bool:
    return any_given(parsed, program.held_with.split()) or (
        program.held_alone and not parsed.operands
    )
