"""Any value of a type of ours, for properties: the strategy is read off the type, so that a new
field or part is covered by itself.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.journal.entries import SCHEMA, RunStarted, ToolStarted
from treadle.messages.message import MediaPart, Message
from treadle.types import FileSearch, Limits, Settings, WebSearch


def _has_split_pair(text: str) -> bool:
    """JSON has no place for the two halves of a pair side by side: they come back as the one
    character they are.
    """
    return any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in pairwise(text))


nasty_text = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=12).filter(
        lambda text: not _has_split_pair(text)
    ),
    st.sampled_from(
        [
            "",
            "\ud800",
            "a\udfffb",
            "\x00\x1b[31m",
            '"\\',
            "\u2028\u2029",
            "🧵é",
            "\r\n",
            '{"a":1e400,"a":NaN}',
            "9" * 30,
        ]
    ),
    st.just("[").map(lambda bracket: bracket * 1_500),
)
"""Controls, quotes, lone surrogates, JSON that parsers choke on."""

json_value: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | nasty_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nasty_text, inner, max_size=3),
    max_leaves=6,
)

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: nasty_text,
    bool: st.booleans(),
    int: st.integers(0, 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    type(None): st.none(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    msgspec.UnsetType: st.just(msgspec.UNSET),
    object: json_value,
    MediaPart: st.builds(
        MediaPart, media_type=nasty_text, data=nasty_text, name=st.none() | nasty_text
    )
    | st.builds(MediaPart, media_type=nasty_text, url=nasty_text),
    Limits: st.builds(
        Limits, turns=st.none() | st.integers(1, 10**6), seconds=st.none() | st.floats(0.001, 10**6)
    ),
}
_FIELDS: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (Settings, "max_tokens"): st.none() | st.integers(1, 10**6),
    (Settings, "compact_at_tokens"): st.none() | st.integers(1, 10**6),
    (Settings, "temperature"): st.none() | st.floats(0, 2),
    (WebSearch, "max_uses"): st.none() | st.integers(1, 99),
    (WebSearch, "allowed_domains"): st.lists(nasty_text.filter(bool), max_size=2),
    (FileSearch, "stores"): st.lists(nasty_text.filter(bool), min_size=1, max_size=2),
    (Message, "source"): st.none(),
    (RunStarted, "schema"): st.just(SCHEMA),
    (ToolStarted, "attempt"): st.integers(1, 2**31 - 1),
}
"""Fields that hold less than their type says."""


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that fits the annotation `kind`."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values_of, arguments))
    if origin in (tuple, list, Sequence):
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple if origin is tuple else list)
    if origin is dict:
        return st.dictionaries(nasty_text, values_of(arguments[1]), max_size=3)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    assert issubclass(kind, msgspec.Struct), f"there is no strategy for {kind!r}"
    hints = typing.get_type_hints(kind)
    fields = {
        name: _FIELDS[kind, name] if (kind, name) in _FIELDS else values_of(hints[name])
        for name in kind.__struct_fields__
    }
    return st.builds(kind, **fields)


def examples_of(kind: Any, count: int = 1) -> list[Any]:
    """The same few of them every time, for tests that cannot afford many."""
    found: list[Any] = []

    @settings(max_examples=count, database=None, derandomize=True)
    @given(values_of(kind))
    def take(value: Any) -> None:
        found.append(value)

    take()
    return found


def without_half_pairs(data: bytes) -> bytes:
    """The same JSON, for readers that cannot take a lone surrogate."""
    return json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")


def cuts(text: str) -> st.SearchStrategy[list[str]]:
    """The text in pieces, some of them empty; joined, they are the text."""

    def cut(places: Sequence[int]) -> list[str]:
        edges = [0, *sorted(places), len(text)]
        return [text[a:b] for a, b in pairwise(edges)]

    return st.lists(st.integers(0, len(text)), max_size=4).map(cut)


def with_images_only(messages: list[Message]) -> list[Message]:
    """The same, where each file of a person is one that every wire sends."""
    image = MediaPart(media_type="image/png", data="QUJD")
    return [
        m.with_parts([image if isinstance(p, MediaPart) else p for p in m.parts])
        if m.role == "user"
        else m
        for m in messages
    ]
