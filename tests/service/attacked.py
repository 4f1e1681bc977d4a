"""Two people at a service that is attacked, a line of the corpus as a request, and what counts as
refused. Entry: `World`, `line_of`, `refused`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.service.on_the_wire import Answer, Headers

CANARY = "canary-of-bob"
JSON: Headers = [("Content-Type", "application/json")]


@dataclass
class World:
    """Ada attacks, Bob has something."""

    port: int
    folder: Path
    ada: str
    bob: str
    bobs: dict[str, str]

    def as_ada(self) -> Headers:
        return [("Authorization", f"Bearer {self.ada}")]

    def filled(self, text: str) -> str:
        """Its placeholders by what they stand for."""
        for name in ("conversation", "task", "run"):
            text = re.sub(rf"<{name}[^>]*user ?2>", self.bobs[name], text)
        text = re.sub(r"<of user2>", self.bobs["run"], text)
        return text.replace("<user1>", self.ada).replace("<user2>", self.bob)


def refused(answer: Answer, *statuses: int, at: object = None) -> None:
    assert answer.status in statuses, (at, answer.status, answer.body[:200])
    assert CANARY.encode() not in answer.body, at
    for trace in (b"Traceback", b"sqlalchemy", b"sqlite3", b'File "', b"treadle.", b"pydantic"):
        assert trace not in answer.body, at
    assert "access-control-allow-origin" not in answer.headers, at


def line_of(case: dict[str, Any], world: World) -> tuple[str, str, Headers, bytes]:
    given = case["input"]
    body = given.get("body", b"")
    if not isinstance(body, bytes):
        body = world.filled(body if isinstance(body, str) else json.dumps(body)).encode()
    headers = [(name, world.filled(value)) for name, value in given.get("headers", {}).items()]
    if body and "content-type" not in {name.lower() for name, _ in headers}:
        headers += JSON
    return given.get("method", "GET"), world.filled(given.get("path", "/")), headers, body


def spellings(headers: Headers) -> Iterator[Headers]:
    """The same to whoever reads them by the book."""
    yield headers
    yield [(name.lower(), value) for name, value in headers]
    yield [(name.upper(), f" \t{value}\t ") for name, value in headers]
