"""Typed reading of the values under the keys of a definition file, which notes each problem with
its line. Entry points: `KeyReader`, `unknown_key`.

keys.py defines the keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle.agents.definitions.places import DefinitionFile, DefinitionProblem
from treadle.config.document import MappingEntry, Node
from treadle.config.keys import refusal, shown
from treadle.config.readers import Reader, Wrong, nearest, positive, text, whole

LIMITS: Mapping[str, Reader] = {
    "turns": whole,
    "tool_calls": whole,
    "seconds": positive,
    "tokens": whole,
    "cost_usd": positive,
    "repeats": whole,
}


@dataclass(frozen=True, kw_only=True)
class SourceText:
    """A text in the file, with its line."""

    text: str
    line: int


def unknown_key(name: str, known: Collection[str], where: str) -> str:
    said = f"unknown key {name[:60]!r}{f' in {where}' if where else ''}"
    if not where and name == "name":
        return f"{said}: an agent has the name of its file"
    if near := nearest(name, known):
        return f"{said}: did you mean {near!r}?"
    if not where and name in LIMITS:
        return f"{said}: did you mean 'limits.{name}'?"
    return f"{said}: known keys are {', '.join(known)}"


@dataclass
class KeyReader:
    """Reader of the values in one file."""

    file: DefinitionFile
    problems: list[DefinitionProblem] = field(default_factory=list[DefinitionProblem], kw_only=True)

    def known(
        self, entries: Mapping[str, MappingEntry], known: Collection[str], where: str
    ) -> None:
        for name, entry in entries.items():
            if name not in known:
                self.wrong(entry.key.line, unknown_key(name, known, where))

    def source_text(self, entry: MappingEntry | None, name: str) -> SourceText | None:
        if entry is None or entry.node.value is None:
            return None
        found = self.value(entry, (name,), text)
        return None if found is None else SourceText(text=str(found), line=entry.node.line)

    def value(self, entry: MappingEntry, path: tuple[str, ...], read: Reader) -> Any:
        """Return the parsed value, or None if it is invalid."""
        try:
            return read(entry.node.plain())
        except Wrong as e:
            self.wrong(entry.node.line, refusal(path, e, shown(entry.node.plain())))
            return None

    def list(self, entry: MappingEntry | None, name: str) -> tuple[Node, ...]:
        if entry is None or entry.node.value is None:
            return ()
        if not isinstance(entry.node.value, tuple):
            self.wrong(
                entry.node.line,
                f"{name} must be a list, like [read, grep], not {shown(entry.node.plain())}",
            )
            return ()
        return entry.node.value

    def entries(self, entry: MappingEntry | None, name: str) -> dict[str, MappingEntry]:
        return (
            {}
            if entry is None or entry.node.value is None
            else self.mapping(entry.node, name, entry.key.line)
        )

    def mapping(self, node: Node, name: str, line: int) -> dict[str, MappingEntry]:
        if isinstance(node.value, dict):
            return node.value
        self.wrong(line, f"{name} must be a mapping of keys to values, not {shown(node.plain())}")
        return {}

    def wrong(self, line: int, what: str) -> None:
        self.problems.append(DefinitionProblem(str(self.file.path), line, what))
