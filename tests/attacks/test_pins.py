"""Listings of hostile MCP servers: whatever names, texts and schemas one offers, the tools of the
others stay pinned, and no hidden text reaches a model (B4, B5).
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import mcp_types
import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.names import UNSEEN, hostile, leaks
from treadle.tools.mcp import McpServer, Pins
from treadle.tools.mcp.listing import Offered, ServerListing, listing_of

GOOD = McpServer(name="good", command=["good"])
WIDE = ("\N{GRINNING FACE}", "\N{CJK UNIFIED IDEOGRAPH-8A9E}", "\x01", '"', "\\", "x")
"""Characters that take one to six bytes in a file."""


def tool(name: str, description: str, schema: dict[str, Any] | None = None) -> mcp_types.Tool:
    return mcp_types.Tool(
        name=name, description=description, input_schema=schema or {"type": "object"}
    )


def good(words: str = "adds") -> list[Offered]:
    return [*listing_of(GOOD, ServerListing([tool("add", words)])).tools.values()]


def listings(random: Random) -> list[list[mcp_types.Tool]]:
    """Up to four listings of one server, each with other names."""
    filling = random.choice(WIDE) * random.choice([1, 40, 250])
    count = random.choice([3, 60, 250])
    return [
        [
            tool(
                f"{turn} {number} {filling}{hostile(random) if random.random() < 0.2 else ''}"[
                    :256
                ],
                random.choice(["", hostile(random, lines=True), "d" * 4_000]),
            )
            for number in range(count)
        ]
        for turn in range(random.randint(1, 4))
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_listing_of_a_server_loses_another_its_pins(tmp_path: Path, seed: int) -> None:
    random, pins = chance(seed, "pins"), Pins(tmp_path)
    assert pins.check(GOOD, good()) == []
    for number in range(random.choice([1, 3])):
        evil = McpServer(name=f"evil{number}", command=[f"evil{number}"])
        for listed in listings(random):
            offered = [*listing_of(evil, ServerListing(listed)).tools.values()]
            for _ in range(2):
                refused = pins.check(evil, offered)
                assert {tool.theirs for tool in offered} >= set(refused)
    assert pins.check(GOOD, good()) == []
    assert pins.check(GOOD, good("adds, and sends it away")) == ["add"]
    late = McpServer(name="late", command=["late"])
    assert pins.check(late, good()) == [], "another server can still be added"


def schema(random: Random, depth: int = 3) -> dict[str, Any]:
    """A schema with hostile text in some of its places."""

    def text() -> str:
        return hostile(random, lines=True) if random.random() < 0.3 else "number"

    part: dict[str, Any] = {"type": random.choice(["string", "integer", "object", "array"])}
    for key in ("title", "description", "$comment", "format", "pattern"):
        if random.random() < 0.3:
            part[key] = text()
    for key in ("enum", "examples"):
        if random.random() < 0.2:
            part[key] = [text(), [text()], {text(): 1}]
    for key in ("const", "default"):
        if random.random() < 0.2:
            part[key] = random.choice([text(), {text(): [text()]}])
    if depth:
        inner = schema(random, depth - 1)
        key = random.choice(["items", "not", "if", "additionalProperties", "propertyNames"])
        part[key] = inner
        part[random.choice(["anyOf", "prefixItems"])] = [inner]
        part[random.choice(["properties", "$defs", "dependentSchemas"])] = {text(): inner}
    return part


@pytest.mark.parametrize("seed", SEEDS)
def test_no_hidden_text_of_a_listing_reaches_a_model(seed: int) -> None:
    random = chance(seed, "hidden")
    evil = McpServer(name="evil", command=["evil"])
    listed = [
        tool(
            f"{number}{hostile(random)}" if number % 2 else f"t{number}",
            hostile(random, lines=True),
            {**schema(random, random.randint(0, 3)), "type": "object"},
        )
        for number in range(40)
    ]
    found = listing_of(evil, ServerListing(listed)).tools.values()
    for offered in found:
        definition = offered.arguments.definition
        shown = json.dumps(
            [definition.name, definition.description, definition.parameters], ensure_ascii=False
        )
        assert leaks(shown) == "", offered.theirs
        assert not [
            c for c in shown if c in UNSEEN and c not in "\u200c\u200d\ufe0f\u2028\u2029\xa0"
        ]
