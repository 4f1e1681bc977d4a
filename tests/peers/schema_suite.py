"""The JSON Schema Test Suite, as the source package of `jsonschema` brings it along: `make peers`
unpacks it into .peers/json-schema-suite.

What is expected to fail, and why, stands in schema_suite.toml. Entry: `find_suite`, `groups`,
`expected`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.peers.child import ROOT

DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}


class Group(msgspec.Struct, frozen=True):
    """A schema, and values with whether they fit it."""

    name: str
    draft: str
    """The URI of its meta-schema."""
    schema: bool | dict[str, Any]
    tests: list[tuple[str, Any, bool]]


def find_suite() -> Path | str:
    """Its folder, or why there is none."""
    folder = ROOT / ".peers" / "json-schema-suite"
    return (
        folder
        if (folder / "tests").is_dir()
        else f"the JSON Schema Test Suite is not in {folder}: `make peers` puts it there"
    )


def groups(suite: Path, draft: str) -> Iterator[Group]:
    """Those that every validator has to pass; the optional ones are matters of taste, above all
    `format`.
    """
    for file in sorted((suite / "tests" / draft).glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            tests = [(test["description"], test["data"], test["valid"]) for test in group["tests"]]
            yield Group(
                f"{draft}/{file.stem}: {group['description']}", DRAFTS[draft], schema, tests
            )


def expected(who: str, draft: str) -> dict[str, str]:
    """Groups that are refused or read otherwise, each with the reason."""
    told = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {
        name: one["reason"]
        for one in told["expected"]
        if who in one["who"]
        for name in one["groups"]
        if name.startswith(f"{draft}/")
    }
