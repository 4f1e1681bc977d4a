"""A schema as a graph: its parts, and the keywords by which one leads to another, for the same
place of a value or one below it. Entry points: `SchemaGraph`, `check_size`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, cast
from urllib.parse import unquote

from treadle.tools.schemas.references import KNOWN, joined, schemas
from treadle.tools.schemas.references import TooMuch as TooMuch

PARTS_MOST: Final = 20_000
DEPTH_MOST: Final = 128
BYTES_MOST: Final = 1 << 20
TARGETS_MOST: Final = 100_000
"""Maximum number of targets of all references, since each part may have an anchor, and refer to
that of each other part.
"""
_SAME_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contentSchema"}
)
_ANY_NAME: Final = frozenset({"additionalProperties", "unevaluatedProperties"})
_ANY_PLACE: Final = frozenset({"additionalItems", "unevaluatedItems", "contains"})
_DEPENDENT: Final = frozenset({"dependentSchemas", "dependencies"})
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
"""Keywords whose check evaluates the other keywords again."""
_META_WEIGHT = 1_000
"""Weight of a reference to a meta-schema, which is not part of the schema."""


class Dangling(ValueError):
    """Raised for a reference without a target."""


class Node:
    """One part of a schema."""

    __slots__ = (
        "any_name", "any_place", "name_patterns", "name_states", "named", "number", "of_names",
        "patterns", "places", "same_place", "states", "unfolded", "weight",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.weight = 1
        """Number of values that the check compares at one place."""
        self.same_place: Counter[int] = Counter()
        """Parts that check the same place, each with its number of occurrences."""
        self.named: dict[str, int] = {}
        self.any_name: list[int] = []
        self.of_names: list[int] = []
        """Parts that check the property names of an object."""
        self.places: list[int] = []
        self.any_place: list[int] = []
        self.patterns: list[str] = []
        self.name_patterns: list[str] = []
        self.states = self.name_states = 0
        self.unfolded = 0
        """Weight of all parts that check the same place."""

    def below(self) -> Iterator[int]:
        yield from self.named.values()
        for numbers in (self.any_name, self.of_names, self.places, self.any_place):
            yield from numbers


class SchemaGraph:
    """All parts that a check can reach from the top, which is number 0."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Build the graph. Raises TooMuch for a schema that is too large or too deep, Dangling for
        a reference without a target.
        """
        check_size(schema)
        self._resources: dict[str, list[dict[str, Any]]] = {}
        """Parts by id. Several parts may have the same id."""
        self._anchors: dict[str, list[dict[str, Any]]] = {}
        self._bases: dict[int, Sequence[str]] = {}
        for bases, words in schemas(schema, in_literals=True):
            self._bases[id(words)] = bases
            for base in bases:
                if isinstance(words.get("$id", words.get("id")), str) or (
                    base not in self._resources
                ):
                    self._resources.setdefault(base, []).append(words)
            # up to draft 7, an anchor was an id that is a fragment
            for word in ("$anchor", "$dynamicAnchor", "$id", "id"):
                if isinstance(name := words.get(word), str) and (
                    word.endswith("nchor") or name.startswith("#")
                ):
                    self._anchors.setdefault(name.removeprefix("#"), []).append(words)
        self.nodes: list[Node] = []
        self._numbers: dict[int, int] = {}
        self._waiting: list[dict[str, Any]] = []
        self._targets_left = TARGETS_MOST
        self._number(cast("dict[str, Any]", schema))
        while self._waiting:
            words = self._waiting.pop()
            self._read(self.nodes[self._numbers[id(words)]], words)

    def _number(self, words: dict[str, Any]) -> int:
        if (known := self._numbers.get(id(words))) is not None:
            return known
        if len(self.nodes) >= PARTS_MOST:
            raise TooMuch(f"it has more than {PARTS_MOST:,} parts")
        self._numbers[id(words)] = number = len(self.nodes)
        self.nodes.append(Node(number))
        self._waiting.append(words)
        return number

    def _numbers_of(self, found: object) -> list[int]:
        """Return the numbers of a schema, or of a list of schemas; `true` and `false` have none."""
        inner = cast("list[object]", found) if isinstance(found, list) else [found]
        return [self._number(cast("dict[str, Any]", one)) for one in inner if isinstance(one, dict)]

    def _read(self, node: Node, words: dict[str, Any]) -> None:
        again = 1 + len(_UNEVALUATED & words.keys())
        for word in _SAME_PLACE & words.keys():
            for number in self._numbers_of(words.get(word)):
                node.same_place[number] += again
        for word in _DEPENDENT & words.keys():
            for number in self._numbers_of(list(_named(words.get(word)).values())):
                node.same_place[number] += again
        for word in _REFERENCES & words.keys():
            if isinstance(reference := words.get(word), str):
                for target in self._targets(words, reference, follows_all=word != "$ref"):
                    node.same_place[self._number(target)] += again
                node.weight += _META_WEIGHT * self._means_known(words, reference)
        for name, inner in _named(words.get("properties")).items():
            for number in self._numbers_of(inner):
                node.named[name] = number
        node.any_name = [
            number
            for word in _ANY_NAME & words.keys()
            for number in self._numbers_of(words.get(word))
        ]
        by_pattern = _named(words.get("patternProperties"))
        node.any_name += self._numbers_of(list(by_pattern.values()))
        node.of_names = self._numbers_of(words.get("propertyNames"))
        node.any_place = [
            number
            for word in _ANY_PLACE & words.keys()
            for number in self._numbers_of(words.get(word))
        ]
        items = words.get("items")
        node.places = [
            *self._numbers_of(words.get("prefixItems")),
            *(self._numbers_of(cast("object", items)) if isinstance(items, list) else ()),
        ]
        node.any_place += [] if isinstance(items, list) else self._numbers_of(items)
        node.patterns = [pattern] if isinstance(pattern := words.get("pattern"), str) else []
        node.name_patterns = list(by_pattern)
        node.weight += sum(map(_size, words.values()))

    def _targets(
        self, words: dict[str, Any], reference: str, *, follows_all: bool
    ) -> list[dict[str, Any]]:
        """Return the possible targets of a reference; of a dynamic one, each anchor of its name.
        Raises Dangling if there is none.
        """
        fragment = unquote(reference.partition("#")[2])
        targets: list[object] = []
        if fragment and not fragment.startswith("/") and fragment in self._anchors:
            targets += self._anchors[fragment]
        elif not fragment or fragment.startswith("/"):
            for base in self._bases.get(id(words), ("",)):
                resources = self._resources.get(joined(base, reference), ())
                targets += [_at(resource, fragment) for resource in resources]
            if follows_all and words.get("$recursiveRef") is not None:
                targets += chain.from_iterable(self._resources.values())
        self._targets_left -= len(targets)
        if self._targets_left < 0:
            raise TooMuch(f"its references have more than {TARGETS_MOST:,} possible targets")
        if all(found is None for found in targets) and not self._means_known(words, reference):
            raise Dangling(f"its reference {reference[:200]!r} leads nowhere")
        parts = [cast("dict[str, Any]", found) for found in targets if isinstance(found, dict)]
        return list({id(part): part for part in parts}.values())

    def _means_known(self, words: dict[str, Any], reference: str) -> bool:
        return any(
            joined(base, reference).startswith(KNOWN) for base in self._bases.get(id(words), ("",))
        )

    def ranks(self) -> list[int]:
        """Return a rank for each part, higher than those of the parts that lead to it at the same
        place.

        Raises TooMuch if a part leads to itself.
        """
        ranks, _ = _ordered(self.nodes, {node.number: list(node.same_place) for node in self.nodes})
        if ranks is None:
            raise TooMuch("one of its references leads back to itself at the same place of a value")
        return ranks

    def unfolded(self) -> int | None:
        """Return the weight of all paths from the top; None if one of them is a cycle."""
        ways = {node.number: [*node.same_place, *node.below()] for node in self.nodes}
        ranks, order = _ordered(self.nodes, ways)
        if ranks is None:
            return None
        sizes = [0] * len(self.nodes)
        for number in reversed(order):
            node = self.nodes[number]
            sizes[number] = (
                node.weight
                + sum(ways * sizes[other] for other, ways in node.same_place.items())
                + sum(sizes[other] for other in node.below())
            )
        return sizes[0]


def _ordered(
    nodes: list[Node], ways: Mapping[int, list[int]]
) -> tuple[list[int] | None, list[int]]:
    """Return the ranks, and an order in which each part comes before those that it leads to. The
    ranks are None if there is a cycle.
    """
    entering = Counter(other for others in ways.values() for other in set(others))
    order = [node.number for node in nodes if not entering[node.number]]
    for number in order:  # extended during the iteration
        for other in set(ways[number]):
            entering[other] -= 1
            if not entering[other]:
                order.append(other)
    if len(order) < len(nodes):
        return None, order
    ranks = [0] * len(nodes)
    for rank, number in enumerate(order):
        ranks[number] = rank
    return ranks, order


def _at(resource: object, pointer: str) -> object:
    """Return the target of a JSON pointer, or None."""
    here = resource
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = cast("dict[str, object]", here).get(name)
        elif (
            isinstance(here, list)
            and name.isdecimal()
            and int(name) < len(cast("list[object]", here))
        ):
            here = cast("list[object]", here)[int(name)]
        else:
            return None
    return here


def _named(found: object) -> dict[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _size(value: object) -> int:
    """Return the size of a keyword's value: 1, plus the number of its items. Schemas in it are
    separate parts with their own sizes.
    """
    return 1 + len(cast("list[object]", value)) if isinstance(value, list | dict) else 1


def check_size(schema: object) -> None:
    """Raise TooMuch if the schema is too large or too deep. Does not recurse."""
    chars, level = 0, [schema]
    for _ in range(DEPTH_MOST):
        inner: list[object] = []
        for here in level:
            if isinstance(here, dict):
                fields = cast("dict[str, object]", here)
                chars += 2 + sum(len(name) + 4 for name in fields)
                inner += fields.values()
            elif isinstance(here, list):
                inner += cast("list[object]", here)
            elif isinstance(here, str):
                chars += len(here)
            chars += 2
        if chars > BYTES_MOST:
            raise TooMuch(f"it is longer than {BYTES_MOST >> 20} MiB")
        if not (level := inner):
            return
    raise TooMuch(f"it is nested deeper than {DEPTH_MOST} levels")
