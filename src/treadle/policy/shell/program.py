"""Table entry of a program that only reads: its options, and the kind of its operands.

Entry points: `Program`, `gnu_options`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.policy.decision import FindingKind
from treadle.policy.shell.options import Options, Parsed, any_given

Operands: TypeAlias = Literal["contents", "names", "words", "none", "pattern"]
"""Kinds of operands: files that are read; paths of which only names and metadata are shown; plain
text; not allowed; a pattern and then files that are read.
"""

NO_OPTIONS = Options()


@dataclass(frozen=True)
class Program:
    operands: Operands
    options: Options = NO_OPTIONS
    kind: FindingKind = FindingKind.READS
    most: int | None = None
    """Maximum number of operands that are read. The program writes to a further one."""
    recursive: str = ""
    """Options that make it read all files below a folder, separated by blanks."""
    always_recursive: bool = False
    held_with: str = ""
    """Options that require a sandbox, because the program then runs until it is stopped, or follows
    links.
    """
    held_alone: bool = False
    """True if it requires a sandbox without operands, because it then copies endless input."""
    takes_anything: bool = False
    """True if it treats options like other words."""
    pattern_options: str = "e regexp f file"
    """Options with which the first operand is a file, not the pattern."""
    check: Callable[[Parsed], str | None] | None = None
    """Function that returns the reason why a use does more than read; None if it only reads."""


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
