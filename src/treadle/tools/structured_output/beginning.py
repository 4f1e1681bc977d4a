"""Parser for an incomplete answer. More text only adds to its result.

The result is not validated. Entry points: `beginning`, `shortened`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, cast

_OBJECT: Final = re.compile(r"\{(?=\s*[\"}])")
_OPENING: Final = re.compile(r"[\s\ufeff]*(?:```[ \t]*[\w+-]*[ \t]*\r?\n\s*)?")
_NUMERIC: Final = "-+.0123456789eE"
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(u[dD](?:[c-fC-F][0-9a-fA-F]{2}|[89abAB][0-9a-fA-F]{2}(?!(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?$)))"
    r"|.)",
    re.DOTALL,
)
"""Complete escapes. Group 1 is half of a surrogate pair whose other half can no longer follow."""
_HALF: Final = re.compile("[\ud800-\udfff]")
_NOTHING: Final = object()


def beginning(text: str) -> object | None:
    """Parse the beginning of an object or an array into plain data; None if there is no content
    yet.

    A string grows with the text. A number is included once something follows it, a literal once it
    is complete. If no name is repeated in an object, more text only adds to the result. Never
    raises.
    """
    found = _from_its_start(text)
    if found is None:
        return None
    for attempt in (found, _mended(found)):
        if (value := _parsed(_without_open_number(attempt))) is not _NOTHING:
            return value
    return _whole(found)


def shortened(value: object) -> Iterator[object]:
    """Yield prefixes of plain data, longest first: without the last element of the innermost list
    or object at its end, then without that list or object, and so on.
    """
    if isinstance(value, list) and value:
        *before, last = cast("list[object]", value)
        for shorter in shortened(last):
            yield [*before, shorter]
        yield before
    elif isinstance(value, dict) and value:
        fields = cast("dict[str, object]", value)
        name, last = next(reversed(fields.items()))
        for shorter in shortened(last):
            yield {**fields, name: shorter}
        yield {key: fields[key] for key in fields if key != name}


def _from_its_start(text: str) -> str | None:
    opening = _OPENING.match(text)
    rest = text[opening.end() :] if opening else text
    if rest[:1] in ("[", "{"):
        return rest
    start = _OBJECT.search(rest)
    return rest[start.start() :] if start else None


def _parsed(text: str) -> object:
    from pydantic_core import from_json  # noqa: PLC0415  not pydantic itself: a third of its time, and only if partial answers are read

    try:
        return from_json(text, allow_partial="trailing-strings")
    except (
        ValueError,
        TypeError,
        RecursionError,
    ):  # TypeError: text that UTF-8 cannot encode
        return _NOTHING


def _without_open_number(text: str) -> str:
    """Remove a number at the end of the text, because 12 may become 123 or 12.5."""
    before = text.rstrip(_NUMERIC)
    tail = text[len(before) :]
    # the end of a word, or inside a string
    if (
        tail.strip("eE.+") == ""
        or (_ESCAPED.sub("", text) if "\\" in text else text).count('"') % 2
    ):
        return text
    return before


def _mended(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded, with U+FFFD."""
    return _HALF.sub(
        "\ufffd", _ESCAPE.sub(lambda escape: "\\ufffd" if escape[1] else escape[0], text)
    )


def _whole(text: str) -> object | None:
    """Return a complete value that is followed by other text or a code fence; None if there is
    none.
    """
    from treadle.tools.schemas.problems import strict_json  # noqa: PLC0415  only where an answer is not JSON alone

    try:
        return strict_json.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None
