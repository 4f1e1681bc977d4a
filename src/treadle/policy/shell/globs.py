"""Expansion of the small language's patterns to the same file names as in bash. Entry points:
`expand`.

environment.py removes the settings of bash that would change the result, such as dotglob, nullglob
and GLOBIGNORE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

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
