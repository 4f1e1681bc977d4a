"""Typed answers as structured content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel

from treadle.apps.mcp_server.agents import structured
from treadle.tools.structured_output import answer_type


class Found(BaseModel):
    result: int


@dataclass
class Place:
    name: str
    opened: date


SCHEMA = {
    "type": "object",
    "properties": {"result": {"type": "integer"}},
    "required": ["result"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (Found, Found(result=3), {"result": 3}),
        (Place, Place("Oslo", date(2026, 11, 20)), {"name": "Oslo", "opened": "2026-11-20"}),
        (int, 3, {"result": 3}),
        (
            list[Place],
            [Place("Oslo", date(2026, 11, 20))],
            {"result": [{"name": "Oslo", "opened": "2026-11-20"}]},
        ),
        (
            int | Place,
            Place("Oslo", date(2026, 11, 20)),
            {"result": {"name": "Oslo", "opened": "2026-11-20"}},
        ),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (SCHEMA, {"result": 3}, {"result": 3}),
        ({"type": "array", "items": {"type": "string"}}, ["a"], {"result": ["a"]}),
    ],
)
def test_the_data_is_an_object_that_fits_the_schema_of_the_tool(
    kind: Any, value: Any, data: dict[str, object]
):
    answer = answer_type(kind)
    assert answer is not None
    assert structured(answer, value) == data
    assert answer.schema["type"] == "object"
    jsonschema_rs.validator_for(answer.schema).validate(data)
