"""A schema that refers to what is elsewhere is refused, and nothing is fetched: from no server, and
from no file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import AgentError
from treadle.tools.function.given import GivenArguments
from treadle.tools.schemas.checked import CheckedSchema
from treadle.tools.structured_output import answer_type


class Counting(ThreadingHTTPServer):
    """It would give every schema that it is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Counting)
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Counting]:
    counting = Counting()
    thread = threading.Thread(target=counting.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield counting
    counting.shutdown()
    thread.join()
    counting.server_close()


def places(reference: str) -> list[dict[str, Any]]:
    """Where a schema may refer to another."""
    return [
        {"type": "object", "$ref": reference},
        {"type": "object", "properties": {"a": {"$ref": reference}}},
        {
            "type": "object",
            "patternProperties": {"^a": {"items": {"anyOf": [{"$dynamicRef": reference}]}}},
        },
        {"type": "object", "$defs": {"a": {"$recursiveRef": reference}}},
        {"type": "object", "if": {"not": {"$ref": f"{reference}#/$defs/x"}}, "then": True},
        {"type": "object", "dependentSchemas": {"$ref": {"$ref": reference}}},
        {"type": "object", "enum": [{}], "unknownWord": {"deep": [{"$ref": reference}]}},
    ]


@pytest.mark.parametrize("scheme", ["http", "file", "urn"])
def test_a_schema_that_refers_to_one_elsewhere_is_refused_where_it_is_given(
    scheme: str, server: Counting, tmp_path: Path
) -> None:
    held = tmp_path / "held.json"
    held.write_text("{}")
    reference = {
        "http": f"http://127.0.0.1:{server.server_port}/x",
        "file": held.as_uri(),
        "urn": "urn:treadle:x",
    }[scheme]
    for schema in places(reference):
        with pytest.raises(AgentError, match="which is not fetched: put that schema under"):
            answer_type(schema)
        with pytest.raises(AgentError, match="which is not fetched: put that schema under"):
            GivenArguments("t", "", schema)
    assert server.asked == []


def test_the_check_itself_fetches_nothing_either(server: Counting, tmp_path: Path) -> None:
    held = tmp_path / "held.json"
    held.write_text("{}")
    for reference in (f"http://127.0.0.1:{server.server_port}/x", held.as_uri()):
        for schema in (*places(reference)[:2], {"$schema": reference, "type": "object"}):
            checked = CheckedSchema(schema, "this is", "schema")
            with pytest.raises(AgentError, match="not a valid JSON Schema"):
                checked.fits({"a": 1}, 8)
    assert server.asked == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {
            "$id": "https://treadle.invalid/a",
            "$defs": {"b": {"$id": "b", "type": "integer"}},
            "properties": {"b": {"$ref": "b"}},
        },
        {
            "$id": "urn:treadle:a",
            "properties": {"b": {"$ref": "urn:treadle:a#/$defs/b"}},
            "$defs": {"b": {"type": "integer"}},
        },
        {
            "properties": {
                "$ref": {"type": "integer"},
                "b": {"const": {"$ref": "http://treadle.invalid"}},
            }
        },
        {"properties": {"b": {"$ref": "#b"}}, "$defs": {"b": {"$anchor": "b"}}},
    ],
)
def test_what_is_at_hand_may_be_referred_to(schema: dict[str, object]) -> None:
    answer = answer_type({"type": "object", **schema})
    assert answer.read("{}") == {}
