"""What a model would send, without sending it. Entry: `body_for`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn

from treadle.models.model import Model, ModelRequest
from treadle.models.providers.connection import HttpReply


class Overheard(Exception):
    def __init__(self, body: bytes) -> None:
        super().__init__("somebody listened")
        self.body = body


class Listening:
    """A connection that goes nowhere."""

    base_url = "https://api.anthropic.com"

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[HttpReply]:
        raise Overheard(body)
        yield

    def get(self, path: str, headers: Mapping[str, str]) -> NoReturn:
        raise AssertionError("nothing has to be looked up")

    async def aclose(self) -> None:
        pass


def body_for(model: Model, request: ModelRequest) -> bytes:
    """The body of its question. `model` is over a `Listening` connection."""
    question = model.stream(request).__anext__()
    try:
        question.send(None)  # nothing here waits, so that no event loop is needed
    except Overheard as overheard:
        return overheard.body
    raise AssertionError("it waits for something before it asks")
