"""Settings of one file, read by the schema, each with its line. Problems are collected, not raised.

keys.py defines the schema; layers.py merges the files. Entry points: `read_settings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from treadle.config.keys import (
    SCHEMA,
    KeyPath,
    KeySpec,
    NamedMapping,
    Schema,
    dotted,
    inside,
    read_value,
    refusal,
    shown,
)
from treadle.config.readers import Wrong
from treadle.config.workspace import CLOSED, UNKNOWN_YET

if TYPE_CHECKING:
    from treadle.config.document import Node

COMMANDS_OF_A_WORKSPACE = frozenset({"hooks", "environment", "env"})
"""Unknown keys that are ignored in a workspace file and are errors elsewhere. A workspace could use
them only to run commands.
"""


class FoundValue(NamedTuple):
    path: KeyPath
    value: object
    line: int


class Remark(NamedTuple):
    line: int
    text: str
    path: KeyPath = ()
    """Path of the key with the invalid value."""


class ReadResult(NamedTuple):
    found: list[FoundValue]
    wrong: list[Remark]
    ignored: list[Remark]
    """Settings that a workspace may not make."""


def read_settings(
    root: Node | None, *, workspace: bool = False, trusted: bool = False
) -> ReadResult:
    """Read every setting of a file with its line. Problems are collected instead of raised."""
    walk = _Walk(workspace, trusted)
    if root is not None:
        walk.visit(root, SCHEMA, (), root.line)
    return walk.reading


class _Walk:
    def __init__(self, workspace: bool, trusted: bool) -> None:
        self._workspace = workspace
        self._trusted = trusted
        self.reading = ReadResult([], [], [])

    def visit(self, node: Node, schema: Schema, path: KeyPath, line: int) -> None:
        if self._workspace and (reason := self._closed(schema)):
            self.reading.ignored.extend(
                Remark(at, f"{dotted(leaf)} is ignored: {reason}")
                for leaf, at in _leaves(node, path, line)
            )
        elif isinstance(schema, KeySpec):
            self._read(node, schema, path, line)
        elif isinstance(node.value, dict):
            for name, entry in node.value.items():
                self._enter(entry.node, name, schema, path, entry.key.line)
        elif node.value is not None:
            self._wrong(
                line, f"{dotted(path) or 'a configuration'} must be a mapping of keys to values"
            )

    def _closed(self, schema: Schema) -> str | None:
        """Return the reason that a workspace may set nothing under `schema`, or None if it may set
        something.
        """
        if isinstance(schema, KeySpec):
            rule = schema.workspace
            return (
                None
                if callable(rule) or (rule == "when trusted" and self._trusted)
                else CLOSED[rule]
            )
        reasons = [
            self._closed(inner)
            for inner in ([schema.inner] if isinstance(schema, NamedMapping) else schema.values())
        ]
        return reasons[0] if all(reasons) else None

    def _enter(
        self,
        node: Node,
        name: str,
        schema: dict[str, Schema] | NamedMapping,
        path: KeyPath,
        line: int,
    ) -> None:
        try:
            inner = inside(schema, name, path)
        except LookupError as e:
            if self._workspace and not path and name in COMMANDS_OF_A_WORKSPACE:
                self.reading.ignored.append(
                    Remark(
                        line,
                        (
                            f"{name} is ignored: "
                            f"{UNKNOWN_YET if self._trusted else CLOSED['when trusted']}"
                        ),
                    )
                )
            else:
                self._wrong(line, str(e.args[0]))
        else:
            before = len(self.reading.found), len(self.reading.wrong)
            self.visit(node, inner, (*path, name), line)
            if (
                isinstance(schema, NamedMapping)
                and schema.bare
                and before == (len(self.reading.found), len(self.reading.wrong))
            ):
                self.reading.found.append(FoundValue((*path, name, schema.bare), None, line))

    def _read(self, node: Node, key: KeySpec, path: KeyPath, line: int) -> None:
        if node.value is None and not key.nullable:
            return
        if key.absent_if_empty and isinstance(plain := node.plain(), str) and not plain.strip():
            return
        try:
            value = None if node.value is None else read_value(key, node.plain())
        except Wrong as e:
            items = node.value if isinstance(node.value, tuple) else ()
            at = items[e.item].line if e.item is not None else line
            self._wrong(at, refusal(path, e, "" if key.secret else shown(node.plain())), path)
        else:
            self.reading.found.append(FoundValue(path, value, line))

    def _wrong(self, line: int, text: str, path: KeyPath = ()) -> None:
        self.reading.wrong.append(Remark(line, text, path))


def _leaves(node: Node, path: KeyPath, line: int) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(node.value, dict) and node.value:
        for name, entry in node.value.items():
            yield from _leaves(entry.node, (*path, name), entry.key.line)
    else:
        yield path, line
