"""Which plain data is a JSON Schema of an object, and that nothing is fetched to find out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from treadle.agents.definitions.schemas import fault_of


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server's address, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/schema", paths
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema"])
def test_what_stands_elsewhere_is_refused_and_not_fetched(
    asked: tuple[str, list[str]], keyword: str
) -> None:
    address, paths = asked
    assert fault_of({"type": "object", keyword: address}) is not None
    fault_of({"type": "object", "properties": {"x": {keyword: address}}})
    assert paths == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"type": "object", "properties": {"b": {"$ref": "#/$defs/z"}}},
            "output is not a usable JSON Schema: its reference '#/$defs/z' leads nowhere",
        ),
        (
            {"type": "object", "properties": {"b": {"pattern": "("}}},
            "output.properties.b.pattern is not a valid JSON Schema",
        ),
        ({"type": "object", "required": "a"}, "output.required is not a valid JSON Schema"),
        ({"type": ["object", "null"]}, "output.type must be 'object', not ['object', 'null']"),
        ({"type": "object", 1: 2}, "output is not a usable JSON Schema"),
    ],
)
def test_what_is_no_schema_is_told_with_its_place(schema: Any, said: str) -> None:
    fault = fault_of(schema)
    assert fault is not None
    assert fault.text("output").startswith(said)


def test_a_schema_may_refer_to_its_own_parts() -> None:
    assert (
        fault_of(
            {
                "type": "object",
                "properties": {"b": {"$ref": "#/$defs/z"}},
                "$defs": {"z": {"type": "string"}},
            }
        )
        is None
    )
