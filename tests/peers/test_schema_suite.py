"""Arguments and answers by a given schema, against the JSON Schema Test Suite: what is expected to
fail stands in a list, and nothing else does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import pytest

from tests.peers.conftest import absent
from tests.peers.schema_suite import DRAFTS, Group, expected, find_suite, groups
from treadle.errors import AgentError
from treadle.tools.function.given import GivenArguments
from treadle.tools.structured_output import answer_type
from treadle.tools.structured_output.contract import AnswerType, Unfit
from treadle.tools.tool import InvalidArguments

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_REFERS = ('"$ref"', '"$dynamicRef"', '"$recursiveRef"', '"$id"', '"id"')


@pytest.fixture(scope="session")
def suite() -> Path:
    found = find_suite()
    if isinstance(found, str):
        absent(found)
    return found


def _argument(group: Group) -> dict[str, Any] | None:
    """The schema as that of one argument; None where its references would lead elsewhere then."""
    if any(word in json.dumps(group.schema) for word in _REFERS):
        return None
    return {
        "$schema": group.draft,
        "type": "object",
        "properties": {"value": group.schema},
        "required": ["value"],
    }


def _all_arguments(group: Group) -> dict[str, Any] | None:
    """The schema as that of all arguments, which are an object; None where saying so would say it
    of what refers to the root, too.
    """
    if not isinstance(group.schema, dict) or group.schema.get("type", "object") != "object":
        return None
    root = ("#", group.schema.get("$id"), group.schema.get("id"))
    if "type" not in group.schema and any(
        f"{json.dumps(word)}: {json.dumps(to)}" in json.dumps(group.schema)
        for word in _REFERENCES
        for to in root
    ):
        return None
    return {"type": "object", **group.schema}


def _fits(parameters: dict[str, Any], arguments: Mapping[str, object]) -> bool:
    try:
        return GivenArguments("t", "", parameters).parse(json.dumps(arguments)) == arguments
    except InvalidArguments as e:
        return not 0 < len(e.message) < 5000


def _wrong_arguments(group: Group) -> Iterator[str]:
    for name, value, valid in group.tests:
        if (parameters := _argument(group)) is not None and _fits(
            parameters, {"value": value}
        ) != valid:
            yield f"{name} (one argument)"
        if (
            isinstance(value, dict)
            and (parameters := _all_arguments(group)) is not None
            and _fits(parameters, cast("dict[str, object]", value)) != valid
        ):
            yield f"{name} (all arguments)"


def _wrong_answers(group: Group) -> Iterator[str]:
    if not isinstance(group.schema, dict):
        return
    answer = answer_type(group.schema)
    try:
        told = jsonschema_rs.validator_for(answer.schema, offline=True)
    except ValueError as e:
        yield f"{e} (what a provider is told)"
        return
    wrapped = cast("Any", answer.schema).get("required") == [
        "result"
    ] and "result" not in group.schema.get("required", [])
    for name, value, valid in group.tests:
        said = {"result": value} if wrapped else value
        if _reads(answer, said, value) != valid:
            yield name
        if told.is_valid(said) != valid:
            yield f"{name} (what a provider is told)"


def _reads(answer: AnswerType[object], said: object, value: object) -> bool:
    try:
        return answer.read(json.dumps(said)) == value
    except Unfit as e:
        return not 0 < len(e.message) <= 1500


def _surprises(who: str, suite: Path, draft: str) -> tuple[dict[str, list[str]], set[str]]:
    """What failed and was not expected to, and what was expected to fail and did not."""
    wrong = _wrong_arguments if who == "arguments" else _wrong_answers
    failed: dict[str, list[str]] = {}
    for group in groups(suite, draft):
        try:
            failed[group.name] = list(wrong(group))
        except AgentError as e:
            failed[group.name] = [f"refused: {e}"]
    told = expected(who, draft)
    return {name: why for name, why in failed.items() if why and name not in told}, {
        name for name in told if not failed.get(name)
    }


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("who", ["arguments", "answers"])
def test_values_are_judged_as_the_suite_says(who: str, draft: str, suite: Path) -> None:
    assert _surprises(who, suite, draft) == ({}, set())


def test_the_suite_is_whole(suite: Path) -> None:
    counts = {draft: sum(len(group.tests) for group in groups(suite, draft)) for draft in DRAFTS}
    assert counts["draft2020-12"] > 1200
    assert min(counts.values()) > 500
