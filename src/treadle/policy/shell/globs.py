"""Names of files that a pattern of the small language stands for, exactly as bash finds them.
Entry: `expand`.

Bash is started without the settings that change this (dotglob, nullglob, GLOBIGNORE and the like),
which environment.py withholds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

MAX_ENTRIES = 4_000
"""Maximum number of names in all folders that one pattern searches."""
MAX_NAMES = 300
MAX_STARS = 4
"""Maximum number of stars in a file name, so that matching stays fast."""


class TooManyNames(Exception):
    """Raised if the pattern matches too many names, or searches where only bash may."""


class _Part(NamedTuple):
    """A path component. `pattern`: None if it is literal."""

    text: str
    pattern: re.Pattern[str] | None
    has_any_character: bool
    """True if it holds a `?`, which is one byte or one character, depending on the locale."""


def expand(
    value: str, wild: frozenset[int], cwd: str, is_inside: Callable[[str], bool]
) -> list[str]:
    """List what bash puts in place of the word `value`: the word itself where nothing matches.
    Bash's order is that of its locale, ours is not.

    `wild`: indices of the `*` and `?` that are patterns. `is_inside`: whether a folder, resolved,
    may be looked into. Raises TooMany.
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
    ):  # bash finds nothing there either
        return []
    except OSError as e:
        raise TooManyNames from e
    if len(names) > most:
        raise TooManyNames
    return names
