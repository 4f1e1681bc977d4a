"""Limits on schemas that a caller wrote, checked before compilation, and on the work of one
validation.

jsonschema-rs has no limits and holds the GIL during validation, so deadlines and signals wait for
it. The unfolded schema is counted, not built: at each place of a value, every schema counts once,
multiplied by the number of paths that lead to it. Entry points: `Bounds`, `TooMuch`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final, cast

from treadle.tools.schemas.graph import Node, SchemaGraph
from treadle.tools.schemas.graph import TooMuch as TooMuch

_TIMES: Final = re.compile(r"\{(\d*)(?:(,)(\d*))?\}")
_FOLDS_CASE: Final = re.compile(r"\(\?[\w-]*i")
_IS_VERBOSE: Final = re.compile(r"\(\?[A-Za-z-]*x")
_NAMED: Final = re.compile(r"\\(?:[pP](?:\{[^}]*\}?|.?)|[xu]\{[^}]*\}?)", re.DOTALL)
"""Escapes of more than two characters."""
_WIDE = 9
"""States of a class with nearly all Unicode characters, in UTF-8."""
_COUNTED_MOST: Final = 10**9
_PROPERTY = 300
"""States of a class like `\\p{L}`."""


def states(pattern: str) -> int:
    """Estimate the number of states of a pattern, at least 1. The pattern need not be valid.

    Raises TooMuch for the flag `x`, which allows blanks and comments inside a repetition. JSON
    Schema has no such flag.
    """
    sizes, atom, at = [1], 0, 0
    while at < len(pattern):
        char = pattern[at]
        if (
            char == "{"
            and (times := _TIMES.match(pattern, at)) is not None
            and (times[1] or times[3])
        ):
            more = atom * max(int(times[1] or 0), int(times[3] or 0), 1)
            sizes[-1] += more
            atom += more
            at = times.end()
            continue
        if char == "(":
            if _IS_VERBOSE.match(pattern, at):
                raise TooMuch("it has a pattern with the flag x, which is not supported")
            sizes.append(0)
            atom, at = 0, at + 1
        elif char == ")" and len(sizes) > 1:
            atom, at = sizes.pop() + 1, at + 1
            sizes[-1] += atom
        elif char in "*+?|^$":
            sizes[-1] += 1
            at += 1
        else:
            atom, at = _atom(pattern, at)
            atom = sizes[-1] if char == "]" else atom
            sizes[-1] += atom
    return min(sum(sizes) * (3 if _FOLDS_CASE.search(pattern) else 1), _COUNTED_MOST)


def _atom(pattern: str, at: int) -> tuple[int, int]:
    """Return the states of one character or class, and the index after it."""
    char = pattern[at]
    if char == "\\":
        named, letter = _NAMED.match(pattern, at), pattern[at + 1 : at + 2]
        return (_PROPERTY if letter in ("p", "P") else _WIDE if letter in "WDS" or named else 1), (
            at + 2 if named is None else named.end()
        )
    if char == "[":
        end = _end_of_class(pattern, at)
        inner = pattern[at:end]
        properties = inner.count("\\p") + inner.count("\\P")
        return len(inner) + _WIDE + _PROPERTY * properties, end
    return (_WIDE if char == "." else len(char.encode("utf-8", "replace"))), at + 1


def _end_of_class(pattern: str, at: int) -> int:
    """Return the end of a class under the shortest reading. If the class is longer, because it
    begins with a bracket or contains classes, its last bracket counts as much as all before it.
    """
    end = at + 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end + 1


PATTERN_CHARS_MOST: Final = 4_000
STATES_MOST: Final = 20_000
"""Maximum number of states in all patterns of one schema."""
ALTERNATIVES_MOST: Final = 20_000
"""Maximum number of schemas that check one place of a value. A schema counts once for each path."""
WORK_MOST: Final = 20_000_000
"""Maximum work of one check, which takes one to two seconds."""
TOLD_MOST: Final = 20_000
"""Maximum work of a check that collects problems, because it creates an object for each failed
alternative.
"""
_SURELY_LITTLE: Final = 2_000_000
_COUNTING = 10
"""Cost of counting one part, relative to one check."""


class Bounds:
    """Bounds of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Create the bounds, without unfolding the schema. Raises TooMuch for a schema beyond a
        limit.
        """
        self._graph: Final = SchemaGraph(schema)
        self.states: Final = self._states()
        self._ranks: Final = self._graph.ranks()
        most = self._unfolded()
        self.chars_surely: Final = (
            -1 if most is None else _SURELY_LITTLE // (most + self.states) - 1
        )
        """Length of JSON text, in characters, up to which the work is certainly small; -1 if the
        work must be counted for every value.
        """

    def _states(self) -> int:
        total = 0
        for node in self._graph.nodes:
            for pattern in node.patterns:
                if len(pattern) > PATTERN_CHARS_MOST:
                    raise TooMuch(
                        f"it has a pattern of {len(pattern):,} characters; the limit is "
                        f"{PATTERN_CHARS_MOST:,}"
                    )
                node.states += states(pattern)
            for pattern in node.name_patterns:
                if len(pattern) > PATTERN_CHARS_MOST:
                    raise TooMuch(
                        f"it has a pattern of {len(pattern):,} characters; the limit is "
                        f"{PATTERN_CHARS_MOST:,}"
                    )
                node.name_states += states(pattern)
            total += node.states + node.name_states
        if total > STATES_MOST:
            raise TooMuch(
                f"its patterns and their repetitions unfold to {total:,} states; the limit is "
                f"{STATES_MOST:,}"
            )
        return total

    def _unfolded(self) -> int | None:
        """Return the number of schemas on all paths from the top; None for a recursive schema.

        Raises TooMuch if too many schemas check one place.
        """
        for node in sorted(
            self._graph.nodes, key=lambda node: self._ranks[node.number], reverse=True
        ):
            node.unfolded = node.weight + sum(
                times * self._graph.nodes[other].unfolded
                for other, times in node.same_place.items()
            )
            if node.unfolded > ALTERNATIVES_MOST:
                raise TooMuch(
                    f"more than {ALTERNATIVES_MOST:,} of its parts would check one place of a "
                    "value, references unfolded"
                )
        return self._graph.unfolded()

    def work(self, value: object, most: int) -> int:
        """Return an upper bound of the work of checking the value. Stops counting beyond `most`."""
        total, pending = 0, [(value, Counter({0: 1}))]
        while pending and total <= most:
            here, roots = pending.pop()
            active = self._same_place(roots)
            nodes = [(self._graph.nodes[number], times) for number, times in active.items()]
            total += sum(times * node.weight for node, times in nodes) + _COUNTING * len(nodes)
            if isinstance(here, str):
                total += len(here) * sum(times * node.states for node, times in nodes)
            elif isinstance(here, dict):
                fields = cast("dict[str, object]", here)
                total += _COUNTING * len(fields) * len(nodes) + sum(map(len, fields)) * sum(
                    times * node.name_states for node, times in nodes
                )
                if total <= most:
                    pending += [
                        (inner, below)
                        for name, inner in fields.items()
                        if (below := _of_name(nodes, name))
                    ]
                    pending += [(name, below) for name in fields if (below := _of_names(nodes))]
            elif isinstance(here, list):
                items = cast("list[object]", here)
                total += _COUNTING * len(items) * len(nodes)
                if total <= most:
                    pending += [
                        (inner, below)
                        for at, inner in enumerate(items)
                        if (below := _of_index(nodes, at))
                    ]
        return total

    def _same_place(self, roots: Counter[int]) -> dict[int, int]:
        """Return every schema that checks the same place, with the number of paths to it."""
        times, waiting = Counter(roots), [(self._ranks[number], number) for number in roots]
        heapify(waiting)
        done: dict[int, int] = {}
        while waiting:
            _, number = heappop(waiting)
            if number in done:
                continue
            done[number] = times[number]
            for other, ways in self._graph.nodes[number].same_place.items():
                times[other] += ways * times[number]
                heappush(waiting, (self._ranks[other], other))
        return done


def _of_name(nodes: list[tuple[Node, int]], name: str) -> Counter[int]:
    below = Counter[int]()
    for node, times in nodes:
        if (number := node.named.get(name)) is not None:
            below[number] += times
        for number in node.any_name:
            below[number] += times
    return below


def _of_names(nodes: list[tuple[Node, int]]) -> Counter[int]:
    below = Counter[int]()
    for node, times in nodes:
        for number in node.of_names:
            below[number] += times
    return below


def _of_index(nodes: list[tuple[Node, int]], at: int) -> Counter[int]:
    below = Counter[int]()
    for node, times in nodes:
        if at < len(node.places):
            below[node.places[at]] += times
        for number in node.any_place:
            below[number] += times
    return below
