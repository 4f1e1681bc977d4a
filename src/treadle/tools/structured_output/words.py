"""JSON in the text of a model: the whole text, a code fence in it, or one object with text around
it.

The JSON is not validated against a schema. Entry points: `bare`, `check_sound`, `find`.
"""

from __future__ import annotations

import json
import re
from typing import Final

from treadle._internal.json_text import LEVELS_MAX, JsonText, is_deeper
from treadle.tools.schemas.problems import finite_json, why_unparsable

_EXPONENT: Final = re.compile(r"[eE]\+?\d{3}")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_DIGITS: Final = re.compile(r"\d\d")
_STRIDE: Final = 100
_FENCE: Final = re.compile(
    r"^[ \t]*```[ \t]*[\w+-]*[ \t]*\r?\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE
)
_OBJECT: Final = re.compile(r"\{(?=\s*[\"}])")
"""Possible beginning of an object; the braces of `{name}` are not one."""
_ARRAY: Final = re.compile(r"\[\s*(?:[\"\d{\[-]|true\b|false\b|null\b)")
"""Possible beginning of an array; `[note]` is not one."""
_HALF: Final = "it contains half of a surrogate pair"


class NotJson(ValueError):
    """Raised when a text has no usable JSON. The message gives the model the reason."""


def bare(text: str) -> str:
    """Return the text without a byte order mark and whitespace around it."""
    return text.strip().removeprefix("\ufeff").strip()


def check_sound(text: JsonText) -> None:
    """Raise NotJson for JSON that parsers disagree on or reject: NaN, 1e400, lone surrogates, more
    than 200 levels.

    Accepts any other text, even if it is not JSON.
    """
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise NotJson(_HALF) from e
    if is_deeper(text):
        raise NotJson(f"it is nested deeper than {LEVELS_MAX} levels")
    if _may_be_odd(text):
        _decode(text)


def _may_be_odd(text: JsonText) -> bool:
    """Return True if the text contains anything that parsers disagree on, even inside a string;
    Python's parser then decides. Takes two microseconds per thousand characters.
    """
    if "NaN" in text or "Infinity" in text or ("\\u" in text and _SURROGATE.search(text)):
        return True
    # with this step, a number of two hundred digits covers two consecutive samples
    return bool(_EXPONENT.search(text) or _DIGITS.search(text[::_STRIDE]))


def find(text: str) -> tuple[JsonText, object]:
    """Return the one JSON value in a `bare` text, as text and parsed.

    Raises NotJson if there is none, or if it is unclear which one is meant.
    """
    try:
        return text, decode(text)
    except NotJson as e:
        if (fenced := _fenced(text)) is not None:
            return fenced
        begin = _OBJECT.search(text)
        if begin is None or _ARRAY.match(text):
            raise
        return _surrounded(text, begin.start(), e)


def decode(text: JsonText) -> object:
    """Parse a text. Raises NotJson."""
    if not text:
        raise NotJson("it is empty")
    check_sound(text)
    return _decode(text)


def _decode(text: JsonText) -> object:
    try:
        document = finite_json.decode(text)
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as e:
        raise NotJson(_HALF) from e
    except RecursionError as e:
        raise NotJson("it is nested too deeply") from e
    except ValueError as e:
        raise NotJson(why_unparsable(text, str(e))) from e
    return document


def _fenced(text: str) -> tuple[JsonText, object] | None:
    """Return the JSON in a code fence; None if no code fence contains JSON. Raises NotJson if
    several do.
    """
    found: list[tuple[JsonText, object]] = []
    for body in map(bare, _FENCE.findall(text)):
        try:
            found.append((body, decode(body)))
        except NotJson:
            continue
    if len(found) > 1:
        raise NotJson(
            f"there are {len(found)} code fences with JSON in it, so it is unclear which is meant"
        )
    return found[0] if found else None


def _surrounded(text: str, begin: int, whole: NotJson) -> tuple[JsonText, object]:
    """Return the one object in a text. The first object that begins must be complete; otherwise, a
    part of a truncated answer would pass for an answer.

    `whole`: the error of the text as a whole.
    """
    before, rest = text[:begin], text[begin:]
    try:
        end = finite_json.raw_decode(rest)[1]
    except (ValueError, RecursionError):
        decode(rest)
        raise
    after = rest[end:]
    if _OBJECT.search(after):
        raise NotJson(
            "there is more than one JSON object in it, so it is unclear which is meant"
        ) from whole
    if before.rstrip().endswith("[") or after.lstrip()[:1] in ("]", ","):
        raise whole
    return rest[:end], decode(rest[:end])
