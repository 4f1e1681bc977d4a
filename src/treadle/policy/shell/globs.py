"""Arguments of a command after the expansion of patterns to the same file names as in bash. Entry
points: `expanded`, and `expand` for a pattern of the small language.

environment.py removes the settings of bash that would change the result, such as dotglob, nullglob
and GLOBIGNORE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from treadle.policy.guarded_paths import may_name_a_secret
from treadle.policy.shell.ground import MAX_PATHS, Ground
from treadle.policy.shell.script import ParsedCommand
from treadle.policy.shell.words import ShellWord

MAX_ENTRIES = 4_000
"""Maximum number of entries in all folders that one pattern searches."""
MAX_NAMES = 300
MAX_STARS = 4
"""Maximum number of stars in a path component, so that matching stays fast."""


class TooManyNames(Exception):
    """Raised if a pattern matches too many names, or its matches cannot be determined."""


class _Part(NamedTuple):
    """A path component. `pattern`: None if it is literal."""

    text: str
    pattern: re.Pattern[str] | None
    has_any_character: bool
    """True if it contains `?`, which matches a byte or a character, depending on the locale."""


def expand(
    value: str, wild: frozenset[int], cwd: str, is_inside: Callable[[str], bool]
) -> list[str]:
    """Return the words to which bash expands `value`; `value` itself if nothing matches. The order
    may differ from bash's, which depends on the locale.

    `wild`: indices of the unquoted `*` and `?`. `is_inside`: returns True if a resolved folder may
    be searched. Raises TooManyNames.
    """
    parts = list(_parts(value, wild))
    if any(not part.text for part in parts[1:]) or any(
        part.pattern is not None and part.text.startswith(".") for part in parts
    ):
        raise TooManyNames
    left = MAX_ENTRIES
    found = [""]
    for i, part in enumerate(parts):
        if part.pattern is None:
            found = [above + part.text for above in found]
            if i == len(parts) - 1:
                found = [place for place in found if os.path.lexists(os.path.join(cwd, place))]
        else:
            matching: list[str] = []
            for above in found:
                names = _names(os.path.join(cwd, above or "."), left, is_inside)
                left -= len(names)
                if part.has_any_character and not all(map(str.isascii, names)):
                    raise TooManyNames
                matching += [
                    above + name
                    for name in names
                    if not name.startswith(".") and part.pattern.fullmatch(name)
                ]
            found = matching
        if len(found) > MAX_NAMES:
            raise TooManyNames
        if i < len(parts) - 1:
            found = [f"{place}/" for place in found]
    return found or [value]


def _parts(value: str, wild: frozenset[int]) -> Iterator[_Part]:
    at = 0
    for text in value.split("/"):
        places = frozenset(place - at for place in wild if at <= place < at + len(text))
        at += len(text) + 1
        yield _Part(
            text,
            _pattern(text, places) if places else None,
            any(text[place] == "?" for place in places),
        )


def _pattern(text: str, places: frozenset[int]) -> re.Pattern[str]:
    pieces: list[str] = []
    for i, c in enumerate(text):
        piece = re.escape(c) if i not in places else "." if c == "?" else ".*"
        if piece != ".*" or pieces[-1:] != [".*"]:
            pieces.append(piece)
    if pieces.count(".*") > MAX_STARS:
        raise TooManyNames
    return re.compile("".join(pieces), re.DOTALL)


def _names(folder: str, most: int, is_inside: Callable[[str], bool]) -> list[str]:
    if not is_inside(os.path.realpath(folder)):
        raise TooManyNames
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, most + 1)]
    except (
        FileNotFoundError,
        NotADirectoryError,
        PermissionError,
    ):  # bash finds no names either
        return []
    except OSError as e:
        raise TooManyNames from e
    if len(names) > most:
        raise TooManyNames
    return names


# ---------------------------------------------------------------- commands


def expanded(command: ParsedCommand, ground: Ground, most: int) -> list[list[str]]:
    """Return the argument lists that the program may receive, one for each possible working
    directory; empty if they are unknown.

    `most`: maximum number of words; longer commands are not expanded.
    """
    if (
        not command.words
        or len(command.words) > most
        or not all(word.is_literal for word in command.words)
    ):
        return []
    if not any(word.has_glob for word in command.words):
        return [command.argv]
    if ground.names_left < 0:
        return []
    found: list[list[str]] = []
    try:
        for cwd in ground.cwds:
            names = [
                [word.value] if not word.has_glob else _matches(word, cwd, ground)
                for word in command.words
            ]
            found.append([name for each in names for name in each])
            ground.names_left -= len(found[-1])
            if ground.names_left < 0:
                return []
    except TooManyNames:
        return []
    return found


def _matches(word: ShellWord, cwd: str, ground: Ground) -> list[str]:
    if word.wild is None:
        if (others := _matched(word.value, ground)) is None:
            raise TooManyNames
        return others
    names = expand(word.value, word.wild, cwd, ground.reach.is_inside)
    if any(name.startswith("-") for name in names) and names != [word.value]:
        # the name would act as an option, at a position that depends on bash's sort order
        raise TooManyNames
    return names


def _matched(pattern: str, ground: Ground) -> list[str] | None:
    import glob  # noqa: PLC0415  needed only for patterns

    if (
        may_name_a_secret(pattern)
        or pattern.count("*") > 4
        or pattern.startswith(("-", "*-"))
        or "**" in pattern
    ):
        return None
    found: list[str] = []
    for cwd in ground.cwds:
        at = os.path.join(cwd, pattern)
        if not ground.reach.is_inside(
            os.path.realpath(os.path.dirname(re.split(r"[*?\[]", at)[0] + "x"))
        ) or not _few_entries(at):
            return None
        found += [
            os.path.relpath(place, cwd) if not pattern.startswith("/") else place
            for place in glob.iglob(at)
        ]
        if len(found) > MAX_PATHS:
            return None
    names = [
        name if name.startswith(("/", "./", "../")) or not name.startswith("-") else f"-{name}"
        for name in dict.fromkeys(found)
    ]
    return names or [pattern]


def _few_entries(pattern: str) -> bool:
    """Return True if the first folder that a pattern searches is small."""
    top = os.path.dirname(re.split(r"[*?\[]", pattern)[0] + "x")
    deep = "/" in pattern[len(top) + 1 :]
    try:
        with os.scandir(top) as entries:
            return sum(1 for _ in zip(entries, range(401), strict=False)) <= (40 if deep else 400)
    except OSError:
        return True
