"""Lossless JSON encoding and decoding of values, and splitting of JSON text without parsing it.

The values are in types.py, messages/ and journal/. Entry points: `encode_json`, `decode_json`,
`met`, `members`, `items`.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

JsonText: TypeAlias = str
"""JSON kept as its original text, so that 1e400, NaN, duplicate keys and any depth survive, and
nothing is parsed twice.
"""

LEVELS_MAX = 200
"""Deeper text is kept as text, never parsed, because the depth that parsers accept differs from
version to version.
"""

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
"""Decoders by type. Cached because msgspec inspects the types of an entry fifty times as long as it
decodes one.
"""
_making = threading.Lock()
"""Serializes the first inspection of a type: msgspec 0.22 exposes unfinished state to other
threads, which crashes the process.
"""

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""A string without an end reaches to the end of the text. If it were not matched, the search would
start again at each escaped quote in it, and take hours for a megabyte of them.
"""
_STRINGS = re.compile(_STRING, re.DOTALL)
_BRACKET = re.compile(rf'(?:[^"\[\]{{}}]++|{_STRING})*+([\[\]{{}}])', re.DOTALL)
"""Text up to the next bracket outside strings."""
_COMMA = re.compile(rf'(?:[^"\[\]{{}},]++|{_STRING})*+([\[\]{{}},])', re.DOTALL)
"""Text up to the next bracket or comma outside strings."""


def encode_json(value: object) -> bytes:
    """Encode any value as JSON.

    Escapes lone surrogates, which UTF-8 cannot encode. NaN and infinities become null.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(_countable(msgspec.to_builtins(value)), separators=(",", ":")).encode()


def encode_or_raise(value: object) -> bytes:
    """Encode any value as JSON. Raises MemoryError if there is not enough memory, where `encode` of
    msgspec 0.22 crashes the process (SIGSEGV). Takes 0.1 µs longer.
    """
    buffer = bytearray()
    try:
        _encoder.encode_into(value, buffer)
    except UnicodeEncodeError:
        return encode_json(value)
    return bytes(buffer)


def _countable(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _countable(inner) for key, inner in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_countable(inner) for inner in cast("list[Any]", value)]
        case _:
            return value


def decode_json(data: bytes, kind: type[T]) -> T:
    """Decode JSON that `encode_json` wrote.

    Raises ValueError; msgspec.ValidationError if it is JSON, but not a value of this type.
    """
    try:
        return cast("T", (_decoders.get(kind) or _decoder_of(kind)).decode(data))
    except msgspec.DecodeError:
        return msgspec.convert(_parsed(data.decode(), parse_float=_finite), kind)
    except RecursionError as e:
        raise ValueError("the text is nested too deeply") from e


def _decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    return _decoders.setdefault(kind, msgspec.json.Decoder(met(kind)))


def met(kind: type[T]) -> type[T]:
    """Return the type after msgspec has inspected it. For types without a decoder at import time.
    Takes 1 µs from the second call on.
    """
    with _making:
        msgspec.json.Decoder(kind)
    return kind


def parse_json(text: JsonText) -> object:
    """Parse JSON into new Python values. Raises ValueError if the text is not JSON, or is nested
    deeper than 200 levels.
    """
    return _parsed(text)


def _finite(text: str) -> float:
    """Parse a number. Raises ValueError if no float can hold it, since it would be written as
    null.
    """
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _parsed(text: JsonText, *, parse_float: Callable[[str], float] | None = None) -> object:
    if is_deeper(text):
        raise ValueError(f"the text is nested deeper than {LEVELS_MAX} levels")
    return json.loads(text, parse_float=parse_float)


# ---------------------------------------------------------------- without parsing


def is_deeper(text: JsonText, levels: int = LEVELS_MAX) -> bool:
    """Return True if the brackets are nested deeper than `levels`. Reads no further than needed."""
    if text.count("[") + text.count("{") <= levels:
        return False
    depth = at = 0
    while (found := _BRACKET.match(text, at)) is not None:
        at = found.end()
        depth += 1 if found[1] in "[{" else -1
        if depth > levels:
            return True
    return False


def count_values(text: JsonText) -> int:
    """Count the values in the text, including those in arrays and objects. The number is arbitrary
    if the text is not JSON.
    """
    bare = _STRINGS.sub("", text)
    return 1 + sum(bare.count(mark) for mark in ",[{")


def members(text: JsonText) -> dict[str, JsonText]:
    """Return the members of an object by name, each value as its original text.

    Raises ValueError if the text is not an object.
    """
    found: dict[str, JsonText] = {}
    for piece in _pieces(text, "{}"):
        name = _STRINGS.match(piece)
        if name is None or not piece[name.end() :].lstrip().startswith(":"):
            raise ValueError(f"not a member of an object: {piece[:80]!r}")
        found[str(json.loads(name[0]))] = piece[name.end() :].lstrip()[1:].strip()
    return found


def items(text: JsonText) -> list[JsonText]:
    """Return the items of an array, each as its original text.

    Raises ValueError if the text is not an array.
    """
    return list(_pieces(text, "[]"))


def object_of(fields: dict[str, JsonText]) -> JsonText:
    """Join members to the text of an object: the inverse of `members`."""
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items()) + "}"


def _pieces(text: JsonText, brackets: str) -> Iterator[JsonText]:
    """Yield the pieces between the commas of the outermost brackets."""
    whole = text.strip()
    if not (whole.startswith(brackets[0]) and whole.endswith(brackets[1])):
        raise ValueError(
            f"this is not a JSON {'object' if brackets == '{}' else 'array'}: {whole[:80]!r}"
        )
    start, depth, at = 0, 0, 1
    while (found := (_BRACKET if depth else _COMMA).match(whole, at, len(whole) - 1)) is not None:
        at = found.end()
        if found[1] == ",":
            yield whole[start + 1 : at - 1].strip()
            start = at - 1
        else:
            depth += 1 if found[1] in "[{" else -1
    if last := whole[start + 1 : -1].strip():
        yield last
