"""YAML text as nodes with positions, and edits that leave the rest of the text unchanged.

Plain data only: no tags, no objects, no unbounded aliases. keys.py defines the keys. This is the
only module that imports the YAML library, so it is imported only when there is a file to read.
Entry points: `parse`, `edited`.
"""

from __future__ import annotations

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
"""Maximum number of nodes in a file. Each use of an alias counts all nodes that it refers to."""
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
            mark.line + 1 if mark else 1,
            f"invalid YAML: {e.problem or e.context}{_tab(text, mark)}",
        ) from e
    except yaml.YAMLError as e:
        raise Broken(1, f"invalid YAML: {e}") from e


def _tab(text: str, mark: yaml.Mark | None) -> str:
    """Return a hint if the cause is a tab, which the parser does not name; else ""."""
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
                _line(event),
                f"contains more than {NODES_MAX} values: too large for a configuration",
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
