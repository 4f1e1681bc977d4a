"""Hostile schemas: small texts that unfold to much. Entry: `hostile`, `KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

Schema = dict[str, Any]


def _chain(chance: Random, levels: int) -> Schema:
    """Each level refers twice or more to the next: by alternatives, references, or properties of
    the same name.
    """
    word, width = chance.choice(["allOf", "anyOf", "oneOf"]), chance.randint(2, 60)
    where = chance.choice(["$defs", "definitions", "x-parts"])
    named = {f"a{n}": {word: [{"$ref": f"#/{where}/a{n + 1}"}] * width} for n in range(levels)}
    return {"$ref": f"#/{where}/a0", where: {**named, f"a{levels}": {"type": "object"}}}


def doubling(chance: Random) -> Schema:
    return {"type": "object", **_chain(chance, chance.randint(24, 60))}


def doubling_below(chance: Random) -> Schema:
    inner = _chain(chance, chance.randint(24, 60))
    reference = inner.pop("$ref")
    place: Schema = {"properties": {"q": {"$ref": reference}}}
    if chance.random() < 0.5:
        place = {"additionalProperties": {"items": {"$ref": reference}}}
    return {"type": "object", **place, **inner}


def doubling_in_values(chance: Random) -> Schema:
    """Recursive: each level of a value is checked twice as often as the one above."""
    step = chance.choice(
        [
            {"properties": {"a": {"$ref": "#/$defs/n"}}},
            {"items": {"$ref": "#/$defs/n"}},
            {"additionalProperties": {"$ref": "#/$defs/n"}},
        ]
    )
    word = chance.choice(["allOf", "anyOf", "oneOf"])
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {word: [step, step, {"not": step}]}},
    }


def unevaluated(chance: Random) -> Schema:
    inner: Schema = {"properties": {"a": True}}
    for _ in range(chance.randint(25, 40)):
        inner = {chance.choice(["allOf", "anyOf"]): [inner], "unevaluatedProperties": False}
    return {"type": "object", **inner}


def repetitions(chance: Random) -> Schema:
    pattern = chance.choice(
        [
            "(a{0,1000}){0,50}N",
            r"\p{L}{1,900}",
            "((x{1,99}){1,99}){1,99}",
            "(?i)[^q]{1,900}",
            "a{0,100000}",
            "(?x)(a{ 0 , 1000 }){ 0 , 50 }N",
            "(?i-s)(?s-x:(?x:(a{0,#",
            r"\pL{900}",
            r"[\p{L}[x]]{900}",
            r"[]\p{L}]{900}",
            r"[^]\p{L}]{900}",
            "a{1000}{1000}{1000}",
        ]
    )
    number = chance.randint(30, 900)
    where = chance.choice(["properties", "patternProperties"])
    if where == "properties":
        return {
            "type": "object",
            "properties": {f"p{n}": {"pattern": pattern} for n in range(number)},
        }
    return {"type": "object", "patternProperties": {f"{pattern}{n}": {} for n in range(number)}}


def long_pattern(chance: Random) -> Schema:
    return {"type": "object", "properties": {"a": {"pattern": "x" * chance.randint(5_000, 50_000)}}}


def deep(chance: Random) -> Schema:
    inner: Schema = {}
    for _ in range(chance.randint(150, 600)):
        inner = {chance.choice(["not", "items", "contains"]): inner}
    return {"type": "object", "properties": {"a": inner}}


def around(chance: Random) -> Schema:
    """References that come back at the same place."""
    size = chance.randint(1, 5)
    return {
        "type": "object",
        "$ref": "#/$defs/a0",
        "$defs": {
            f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{(n + 1) % size}"}]} for n in range(size)
        },
    }


def wide(chance: Random) -> Schema:
    """Eight levels of `anyOf`, each with 60 references to the next."""
    levels = {
        f"w{n}": {"anyOf": [{"$ref": f"#/$defs/w{n + 1}"} for _ in range(60)]}
        for n in range(chance.randint(6, 9))
    }
    return {
        "type": "object",
        "required": ["q"],
        "properties": {"q": {"$ref": "#/$defs/w0"}},
        "$defs": {**levels, f"w{len(levels)}": {"type": "string"}},
    }


def anchored(chance: Random) -> Schema:
    """As `doubling`, by anchors and ids instead of pointers."""
    levels = chance.randint(24, 40)
    by_id = chance.random() < 0.5
    parts: dict[str, Schema] = {}
    for n in range(levels):
        name = {"$id": f"part{n}"} if by_id else {"$anchor": f"part{n}"}
        reference = f"part{n + 1}" if by_id else f"#part{n + 1}"
        parts[f"d{n}"] = {**name, "allOf": [{"$ref": reference}] * 2}
    parts["end"] = {"$id": f"part{levels}"} if by_id else {"$anchor": f"part{levels}"}
    return {"type": "object", "$ref": "part0" if by_id else "#part0", "$defs": parts}


def read_in_two_ways(chance: Random) -> Schema:
    """As `doubling`; an id that counts in some drafts or places only leads each reference to a
    harmless part.
    """
    levels, where = chance.randint(24, 40), chance.choice(["$defs", "definitions", "x-parts"])
    draft, word = chance.choice(
        [
            ("http://json-schema.org/draft-04/schema#", "$id"),
            ("http://json-schema.org/draft-04/schema#", "id"),
            ("http://json-schema.org/draft-06/schema#", "id"),
            ("http://json-schema.org/draft-07/schema#", "$id"),
            ("https://json-schema.org/draft/2020-12/schema", "id"),
            ("", "id"),
        ]
    )
    if where == "x-parts" and not draft:
        word = "$id"
    parts: dict[str, Schema] = {
        f"a{n}": {
            "allOf": [
                {
                    word: f"http://h/{n}",
                    "$ref": f"#/{where}/a{n + 1}",
                    where: {f"a{n + 1}": {}},
                }
            ]
            * 2
        }
        for n in range(levels)
    }
    top: Schema = {"$schema": draft} if draft else {}
    return {**top, "type": "object", "$ref": f"#/{where}/a0", where: {**parts, f"a{levels}": {}}}


def ids_twice(chance: Random) -> Schema:
    """As `doubling`; each id stands at a harmless part too."""
    levels = chance.randint(24, 40)
    parts = [
        part
        for n in range(levels)
        for part in ({"$id": f"p{n}"}, {"$id": f"p{n}", "allOf": [{"$ref": f"p{n + 1}"}] * 2})
    ]
    chance.shuffle(parts)
    parts.append({"$id": f"p{levels}"})
    return {
        "type": "object",
        "$ref": "p0",
        "$defs": {f"d{n}": part for n, part in enumerate(parts)},
    }


def in_values(chance: Random) -> Schema:
    """As `doubling`, in a value of a part with an id; a part of the top with that name is
    harmless.
    """
    levels, word = chance.randint(24, 40), chance.choice(["default", "const", "examples"])
    bomb = {f"a{n}": {"allOf": [{"$ref": f"#/{word}/a{n + 1}"}] * 2} for n in range(levels)}
    return {
        "type": "object",
        "$ref": f"http://k/#/{word}/a0",
        word: {f"a{n}": {} for n in range(levels + 1)},
        "$defs": {"k": {"$id": "http://k/", word: {**bomb, f"a{levels}": {}}}},
    }


def long_ids(chance: Random) -> Schema:
    steps, number = chance.randint(5_000, 20_000), chance.randint(100, 300)
    return {
        "type": "object",
        "$id": "http://x/" + "a/" * steps,
        "$defs": {"b": {"$id": "b"}},
        "properties": {f"p{n}": {"$ref": "b"} for n in range(number)},
    }


def many_targets(chance: Random) -> Schema:
    """Each of thousands of references may mean each of thousands of parts."""
    name, reference = chance.choice(
        [
            ({"$dynamicAnchor": "a"}, {"$dynamicRef": "#a"}),
            ({"$anchor": "a"}, {"$ref": "#a"}),
            ({"$id": "http://a"}, {"$ref": "http://a"}),
        ]
    )
    return {
        "type": "object",
        "properties": {
            f"p{n}": {**name, "properties": {"x": dict(reference)}}
            for n in range(chance.randint(400, 800))
        },
    }


KINDS: Final[Mapping[str, Callable[[Random], Schema]]] = {
    kind.__name__: kind
    for kind in (
        doubling,
        doubling_below,
        doubling_in_values,
        unevaluated,
        repetitions,
        long_pattern,
        deep,
        around,
        wide,
        anchored,
        read_in_two_ways,
        ids_twice,
        in_values,
        long_ids,
        many_targets,
    )
}


def hostile(chance: Random, kind: str) -> Schema:
    return KINDS[kind](chance)


def value(chance: Random, depth: int = 60) -> Any:
    """A value that goes deep where a recursive schema follows it."""
    inner: Any = "x"
    for _ in range(depth):
        inner = [inner] if chance.random() < 0.5 else {"a": inner}
    return {"q": [inner, "x"], "a": inner}
