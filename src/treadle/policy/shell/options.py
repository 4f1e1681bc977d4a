"""Options and operands of a command, parsed by a table of its program's options, and the table
entry of a program that only reads.

Entry points: `Options`, `read_options`, `Program`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from treadle.policy.decision import FindingKind


def names(text: str) -> frozenset[str]:
    """Return the names in `text`, separated by blanks."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Options:
    """Options of a program.

    Names are separated by blanks. A name ends in `=` if the option takes a value, and in `:` if
    that value is a path to read.
    """

    short: str = ""
    """Letters of options without a value."""
    short_values: str = ""
    short_paths: str = ""
    long: str = ""
    glued: str = ""
    """Letters of options whose optional value is the rest of the word."""
    single: str = ""
    """Long names after a single dash, as in find and go."""
    numbers: bool = False
    """True if `-20` is an option."""
    plus: bool = False
    """True if `+20` is an option."""
    stops_at_operand: bool = False
    """True if the first operand ends the options."""
    clusters: bool = True
    """True if letters can be combined: `-la`."""
    value_glued: bool = True
    """True if a letter's value can follow in the same word: `-n5`."""


@dataclass(slots=True)
class Parsed:
    operands: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    """Values of options that are paths."""
    values: list[str] = field(default_factory=list[str])
    """All values of options, including paths."""
    by_name: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Values by option, in order."""
    given: set[str] = field(default_factory=set[str])
    """Names of the options that occur: `r`, `recursive`."""
    unknown: str | None = None
    """The first unknown option."""

    def has_any(self, names: str) -> bool:
        """Return True if one of the options in `names`, separated by blanks, is given."""
        return not self.given.isdisjoint(names.split())

    def take(self, name: str, value: str, *, is_path: bool = False) -> None:
        self.values.append(value)
        self.by_name.setdefault(name, []).append(value)
        if is_path:
            self.paths.append(value)


@lru_cache(maxsize=512)
def _names(text: str) -> dict[str, str]:
    """Map each name to "" for a flag, "=" for a value, ":" for a path."""
    return {name.rstrip("=:"): name[len(name.rstrip("=:")) :] for name in text.split()}


def read_options(argv: Sequence[str], options: Options) -> Parsed:
    """Parse `argv`, without the program's name."""
    parsed = Parsed()
    i = 0
    while i < len(argv):
        word = argv[i]
        i += 1
        if word == "--":
            parsed.operands += argv[i:]
            break
        if (word.startswith("-") and len(word) > 1) or (
            options.plus and re.fullmatch(r"\+\d+", word)
        ):
            i += _option(word, argv[i : i + 1], options, parsed)
        else:
            if options.stops_at_operand:
                parsed.operands += argv[i - 1 :]
                break
            parsed.operands.append(word)
    return parsed


def _option(word: str, following: Sequence[str], options: Options, parsed: Parsed) -> int:
    """Return the number of following words that belong to the option."""
    if re.fullmatch(r"[-+]\d+", word) and (options.numbers or word[0] == "+"):
        return 0
    if word.startswith("--"):
        return _named(word[2:], following, _names(options.long), parsed)
    if options.single and word[1:].partition("=")[0] in _names(options.single):
        return _named(word[1:], following, _names(options.single), parsed)
    return _letters(word, following, options, parsed)


def _named(text: str, following: Sequence[str], known: dict[str, str], parsed: Parsed) -> int:
    name, equals, value = text.partition("=")
    parsed.given.add(name)
    form = known.get(name)
    if form is None:
        parsed.unknown = parsed.unknown or (f"--{name}" if len(name) > 1 else f"-{name}")
        return 0
    if form and not equals:
        if not following:
            parsed.unknown = parsed.unknown or f"--{name}"
            return 0
        value = following[0]
    if form or equals:
        parsed.take(name, value, is_path=form == ":")
    return int(bool(form) and not equals)


def _letters(word: str, following: Sequence[str], options: Options, parsed: Parsed) -> int:
    for at, letter in enumerate(word[1:], 1):
        parsed.given.add(letter)
        if letter in options.short_values or letter in options.short_paths:
            rest = word[at + 1 :]
            if not rest and not following:
                parsed.unknown = parsed.unknown or f"-{letter}"
                return 0
            if (rest and not options.value_glued) or (at > 1 and not options.clusters):
                parsed.unknown = parsed.unknown or word
                return 0
            parsed.take(letter, rest or following[0], is_path=letter in options.short_paths)
            return int(not rest)
        if letter in options.glued:
            parsed.take(letter, word[at + 1 :])
            return 0
        if letter not in options.short or (len(word) > 2 and not options.clusters):
            parsed.unknown = parsed.unknown or f"-{letter}"
            return 0
    return 0


# ---------------------------------------------------------------- programs

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
