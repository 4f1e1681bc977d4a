"""A vendor's rules: small functions that say what is wrong with a request. Entry: `Rules`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
READ = "2026-11-22"


@dataclass(frozen=True)
class Asked:
    """A request as the vendor sees it."""

    model: str
    body: Json
    issued: Mapping[str, object] = field(default_factory=dict[str, object])
    """Signatures that this vendor made, with what it made them for."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    target: str = ""


Check = Callable[[Asked], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    check: Check
    source: str
    """Title of the vendor's document."""
    read: str

    @property
    def name(self) -> str:
        return self.check.__name__


class Rules(list[Rule]):
    """Of one wire."""

    def rule(self, source: str, read: str = READ) -> Callable[[Check], Check]:
        def add(check: Check) -> Check:
            self.append(Rule(check, source, read))
            return check

        return add

    def broken(self, asked: Asked) -> list[tuple[str, str]]:
        """Name and complaint of each rule that the request breaks."""
        return [(rule.name, complaint) for rule in self for complaint in rule.check(asked)]


def every(value: object, kind: str) -> Iterator[Json]:
    """Objects inside `value` whose `type` is `kind`, in order."""
    if isinstance(value, dict):
        if value.get("type") == kind:  # pyright: ignore[reportUnknownMemberType]  JSON
            yield value
        value = list(value.values())  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    if isinstance(value, list):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from every(inner, kind)  # pyright: ignore[reportUnknownArgumentType]


def schemas_in(schema: object) -> Iterator[Json]:
    """A schema and all schemas inside it; names of properties are not mistaken for keywords."""
    if not isinstance(schema, dict):
        return
    fields: Json = schema  # pyright: ignore[reportUnknownVariableType]
    yield fields
    for name in ("properties", "$defs", "definitions"):
        for inner in fields.get(name, {}).values():
            yield from schemas_in(inner)
    for name in ("items", "additionalProperties", "not"):
        yield from schemas_in(fields.get(name))
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in fields.get(name, []):
            yield from schemas_in(inner)


def depth_of(schema: object) -> int:
    """Levels of objects and arrays inside each other."""
    if not isinstance(schema, dict):
        return 0
    fields: Json = schema  # pyright: ignore[reportUnknownVariableType]
    below: Sequence[object] = [*fields.get("properties", {}).values(), fields.get("items")]
    beside: Sequence[object] = fields.get("anyOf", [])
    return max(
        [
            0,
            *(1 + depth_of(inner) for inner in below if isinstance(inner, dict)),
            *(depth_of(inner) for inner in beside),
        ]
    )


def images_too_large(
    images: Sequence[tuple[str, str]], *, kinds: frozenset[str], most: int, chars_most: int
) -> Iterator[str]:
    """`images`: media types and data in base64."""
    if len(images) > most:
        yield f"{len(images)} images, and {most} are the most"
    for kind, data in images:
        if kind not in kinds:
            yield f"media type {kind!r} is none of {sorted(kinds)}"
        if len(data) > chars_most:
            yield f"image exceeds the maximum: {len(data)} bytes > {chars_most} bytes"
