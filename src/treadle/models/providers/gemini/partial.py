"""Assembly of call arguments that arrive value by value, each at a JSON path, into one JSON text.

stream.py detects where calls begin and end. Entry points: `PartialArguments`. Source:
FunctionCall.partial_args and PartialArg of google-genai 3.4; the paths are RFC 9535's, without
queries.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, TypeAlias, cast

import msgspec

from treadle.messages.message import JsonText
from treadle.models.providers.encoding import dumped
from treadle.models.providers.gemini.chunks import PartialArgument, is_said

DEPTH_MAX = 200
"""Maximum depth of a call's arguments, below the interpreter's own recursion limit."""

Path: TypeAlias = tuple[str | int, ...]
Leaf: TypeAlias = list[str] | msgspec.Raw
"""Fragments of a string, or any other value."""

_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)


class PartialArguments:
    """Arguments of one call, in order of arrival."""

    __slots__ = ("_leaves", "_paths")

    def __init__(self) -> None:
        self._leaves: dict[Path, Leaf] = {}
        self._paths: dict[str, Path] = {}
        """Parsed paths by their text."""

    def add(self, pieces: list[PartialArgument]) -> None:
        """Add values; strings continue where they ended. Raises ValueError for an invalid path."""
        for piece in pieces:
            if (path := self._paths.get(piece.json_path)) is None:
                path = self._paths[piece.json_path] = _path(piece.json_path)
            if piece.string_value is None:
                self._leaves[path] = _value(piece)
                continue
            leaf = self._leaves.get(path)
            if isinstance(leaf, list):
                leaf.append(piece.string_value)
            else:
                self._leaves[path] = [piece.string_value]

    def text(self) -> JsonText:
        """Return the JSON text, or "" if there are no values.

        Raises ValueError if values contradict each other.
        """
        root: dict[str, Any] = {}
        for path, leaf in self._leaves.items():
            _put(root, path, "".join(leaf) if isinstance(leaf, list) else leaf)
        return dumped(root).decode() if root else ""


def _value(piece: PartialArgument) -> msgspec.Raw:
    if piece.bool_value is not None:
        return msgspec.Raw(b"true" if piece.bool_value else b"false")
    return piece.number_value if is_said(piece.number_value) else msgspec.Raw(b"null")


def _path(text: str) -> Path:
    steps: list[str | int] = []
    at = 1
    while at < len(text) and (found := _STEP.match(text, at)) is not None:
        name, index, single, double = found.groups()
        if index is not None:
            steps.append(int(index))
        elif name is not None:
            steps.append(name)
        else:
            steps.append(
                _unquoted(
                    single.replace("\\'", "'").replace('"', '\\"') if double is None else double
                )
            )
        at = found.end()
    if (
        not text.startswith("$")
        or at < len(text)
        or not steps
        or not isinstance(steps[0], str)
        or len(steps) > DEPTH_MAX
    ):
        raise ValueError(f"an argument has the path {text[:200]!r}")
    return tuple(steps)


def _unquoted(escaped: str) -> str:
    return json.loads(f'"{escaped}"', strict=False)


def _put(root: dict[str, Any], path: Path, value: object) -> None:
    inner: object = root
    for step, after in pairwise(path):
        inner = _place(inner, step, {} if isinstance(after, str) else [])
    if _place(inner, path[-1], value) is not value:
        raise ValueError(f"two values of one call have the path {path!r}")


def _place(container: object, step: str | int, new: object) -> object:
    """Return the value at `step`, or insert `new`. Lists only grow at their end, so that an index
    cannot allocate more than arrived.
    """
    if isinstance(container, dict) and isinstance(step, str):
        return cast("dict[str, object]", container).setdefault(step, new)
    if isinstance(container, list) and isinstance(step, int):
        places = cast("list[object]", container)
        if step == len(places):
            places.append(new)
        if step < len(places):
            return places[step]
    raise ValueError(f"an argument does not fit in at {step!r}")
