"""YAML text as nodes with positions, and edits that leave the rest of the text unchanged.

Plain data only: no tags, no objects, no unbounded aliases. keys.py defines the keys. This is the
only module that imports the YAML library, so it is imported only when there is a file to read.
Entry points: `parse`, `edited`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from treadle.config.file import Broken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yaml.events import Event


class Position(Protocol):
    line: int
    column: int


NODES_MAX = 10_000
"""Maximum number of nodes in a file. Each use of an alias counts all nodes it stands for."""
DEPTH_MAX = 12

Place: TypeAlias = tuple[int, int]
"""Line and column, both from 0."""
Scalar: TypeAlias = str | int | float | bool | None
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A scalar, list or mapping, with its position in the text."""

    value: Scalar | tuple[Node, ...] | dict[str, MappingEntry]
    start: Place
    end: Place
    """Position after the last character; for a block, after the last character of its last node."""
    inline: bool
    """True if the text from `start` to `end` is the node: a plain or quoted scalar, `[…]`, `{…}` or
    an alias, but not an indented block.
    """
    size: int = 1
    """Number of nodes, including this one."""

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return self.start[0] + 1

    def plain(self) -> Plain:
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value


class MappingEntry(msgspec.Struct, frozen=True):
    key: Node
    node: Node


class Duplicate(NamedTuple):
    line: int
    key: str
    first: int
    """Line of the entry that counts."""


class YamlDocument(NamedTuple):
    root: Node | None
    """Root node; None if the text is empty."""
    duplicates: tuple[Duplicate, ...] = ()


# ---------------------------------------------------------------- reading


INTEGER = re.compile(r"[-+]?\d[\d_]{0,17}")
FLOAT = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?")
WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def parse(text: str, *, depth_max: int = DEPTH_MAX) -> YamlDocument:
    """Parse a text that holds one document. `yes`, `no`, `on` and `off` are strings, as in YAML
    1.2.

    Raises Broken.
    """
    try:
        # compose() is not used: it recurses in C as deep as the text is nested
        return _Parser(
            yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), depth_max
        ).document()
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        raise Broken(
            mark.line + 1 if mark else 1, f"is not YAML: {e.problem or e.context}{_tab(text, mark)}"
        ) from e
    except yaml.YAMLError as e:
        raise Broken(1, f"is not YAML: {e}") from e


def _tab(text: str, mark: yaml.Mark | None) -> str:
    """Return a hint for the likeliest cause, which the parser does not name."""
    line = text.splitlines()[mark.line : mark.line + 1] if mark else []
    return (
        ": indent with spaces, not with tabs"
        if line and "\t" in line[0][: len(line[0]) - len(line[0].lstrip())]
        else ""
    )


class _Parser:
    def __init__(self, events: Iterable[Event], depth_max: int) -> None:
        self._events: Iterator[Event] = iter(events)
        self._depth_max = depth_max
        self._anchors: dict[str, Node] = {}
        self._duplicates: list[Duplicate] = []
        self._count = 0

    def document(self) -> YamlDocument:
        root: Node | None = None
        for event in self._events:
            if isinstance(event, NodeEvent):
                if root is not None:
                    raise Broken(_line(event), "contains a second document: only one is allowed")
                root = self._node(event, 0)
        return YamlDocument(root, tuple(self._duplicates))

    def _node(self, event: Event, depth: int) -> Node:
        if depth > self._depth_max:
            raise Broken(_line(event), f"is nested deeper than {self._depth_max} levels")
        if isinstance(event, AliasEvent):
            node = self._alias(event)
            self._grow(event, node.size)
            return node
        assert isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent)
        if event.tag:
            raise Broken(_line(event), f"has a tag, {event.tag!r}: only plain values are allowed")
        self._grow(event, 1)
        if isinstance(event, ScalarEvent):
            node = _scalar(event)
        elif isinstance(event, SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _grow(self, event: Event, size: int) -> None:
        self._count += size
        if self._count > NODES_MAX:
            raise Broken(
                _line(event), f"holds more than {NODES_MAX} values: too large for a configuration"
            )

    def _alias(self, event: AliasEvent) -> Node:
        if (node := self._anchors.get(event.anchor or "")) is None:
            raise Broken(
                _line(event),
                f"has an alias, *{event.anchor}, that is undefined or refers to its own container",
            )
        return msgspec.structs.replace(
            node, start=_place(event.start_mark), end=_place(event.end_mark), inline=True
        )

    def _sequence(self, start: SequenceStartEvent, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return _collection(start, event, tuple(items), items)

    def _mapping(self, start: MappingStartEvent, depth: int) -> Node:
        entries: dict[str, MappingEntry] = {}
        nodes: list[Node] = []
        while not isinstance(event := next(self._events), MappingEndEvent):
            if not isinstance(event, ScalarEvent) or event.tag:
                raise Broken(_line(event), "has a key that is not plain text")
            key, node = _scalar(event), self._node(next(self._events), depth + 1)
            nodes += (key, node)
            if (first := entries.setdefault(event.value, MappingEntry(key, node))).node is not node:
                self._duplicates.append(Duplicate(key.line, event.value, first.key.line))
        return _collection(start, event, entries, nodes)


def _scalar(event: ScalarEvent) -> Node:
    plain = event.implicit[0]
    return Node(
        value=_meaning(event.value) if plain else event.value,
        start=_place(event.start_mark),
        end=_place(event.end_mark),
        inline=event.style not in ("|", ">"),
    )


def _meaning(text: str) -> Scalar:
    if text in WORDS:
        return WORDS[text]
    if INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if FLOAT.fullmatch(text):
        return float(text)
    return text


def _collection(
    start: SequenceStartEvent | MappingStartEvent,
    end: Event,
    value: tuple[Node, ...] | dict[str, MappingEntry],
    nodes: list[Node],
) -> Node:
    inline = bool(start.flow_style)
    last = _place(end.end_mark) if inline or not nodes else nodes[-1].end
    return Node(
        value=value,
        start=_place(start.start_mark),
        end=last,
        inline=inline,
        size=1 + sum(node.size for node in nodes),
    )


def _place(mark: Position | None) -> Place:
    assert mark is not None
    return mark.line, mark.column


def _line(event: Event) -> int:
    return _place(event.start_mark)[0] + 1


# ---------------------------------------------------------------- editing


LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
BARE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NOT_BARE = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Strings here that other YAML readers interpret differently."""


def edited(text: str, path: tuple[str, ...], value: Plain) -> str:
    """Return the text with one value set, replaced in place or added. Comments and order stay.

    Raises Broken if the text cannot be edited safely. The result is verified to differ only in that
    value.
    """
    root = parse(text).root
    wanted = _with(root.plain() if root else {}, path, value)
    new = _edit(text, root, path, value)
    try:
        done = parse(new)
    except Broken:
        done = YamlDocument(None)
    if done.root is None or done.duplicates or done.root.plain() != wanted:
        raise Broken(
            root.line if root else 1, f"cannot be edited safely: set {'.'.join(path)} in it by hand"
        )
    return new


def written(value: Plain) -> str:
    """Format a value as one line of YAML."""
    if isinstance(value, str) and BARE.fullmatch(value) and value.lower() not in NOT_BARE:
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(k)}: {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _with(plain: Plain, path: tuple[str, ...], value: Plain) -> Plain:
    if not path:
        return value
    inside = plain if isinstance(plain, dict) else {}
    return {**inside, path[0]: _with(inside.get(path[0]), path[1:], value)}


def _nested(path: tuple[str, ...], value: Plain) -> Plain:
    return {path[0]: _nested(path[1:], value)} if path else value


def _edit(text: str, root: Node | None, path: tuple[str, ...], value: Plain) -> str:
    if root is None or root.value is None:
        return _append(text, len(text), 0, path, value)
    node, entry, rest = root, None, path
    while rest and isinstance(node.value, dict) and rest[0] in node.value:
        entry = node.value[rest[0]]
        node, rest = entry.node, rest[1:]
    breaks = [0, *(m.end() for m in LINE_BREAK.finditer(text))]
    if rest and isinstance(node.value, dict) and node.value:
        if node.inline:
            return _insert(text, _offset(breaks, node.end), rest, value)
        line = node.end[0] + (node.end[1] > 0)
        return _append(
            text, breaks[line] if line < len(breaks) else len(text), node.start[1], rest, value
        )
    if entry is None:
        if not isinstance(root.value, dict):
            raise Broken(root.line, "is not a mapping of keys to values")
        return (
            text[: _offset(breaks, root.start)]
            + written(_nested(rest, value))
            + text[_offset(breaks, root.end) :]
        )
    start, end = _offset(breaks, entry.key.end), _offset(breaks, node.end)
    if node.inline and node.start != node.end:
        start = _offset(breaks, node.start)
        return text[:start] + written(_nested(rest, value)) + text[end:]
    kept = len(text[start:end].rstrip(" \t\r\n"))
    return f"{text[:start]}: {written(_nested(rest, value))}{text[start + kept :]}"


def _offset(breaks: list[int], place: Place) -> int:
    return breaks[place[0]] + place[1]


def _append(text: str, at: int, column: int, path: tuple[str, ...], value: Plain) -> str:
    """Insert lines before offset `at`, the beginning of a line or the end of the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    head = text[:at]
    if head and not LINE_BREAK.fullmatch(head[-1]):
        head += newline
    indents = [" " * (column + 2 * i) for i in range(len(path))]
    above = "".join(
        f"{indent}{written(name)}:{newline}"
        for indent, name in zip(indents, path[:-1], strict=False)
    )
    return f"{head}{above}{indents[-1]}{written(path[-1])}: {written(value)}{newline}{text[at:]}"


def _insert(text: str, end: int, path: tuple[str, ...], value: Plain) -> str:
    """Insert before the closing brace of `{…}`, which ends at offset `end`."""
    head = text[: end - 1].rstrip(" \t\r\n")
    comma = "" if head.endswith((",", "{")) else ","
    return (
        f"{head}{comma} {written(path[0])}: "
        f"{written(_nested(path[1:], value))}{text[len(head) : end]}{text[end:]}"
    )
