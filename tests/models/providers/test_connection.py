from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from treadle.errors import AgentError, ErrorKind
from treadle.models.providers.connection import (
    ReadTimeout,
    read_beginning,
    read_whole,
    retry_after_s,
)

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "12"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "12"}, 12.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"retry-after": "Fri, 20 Nov 2026 12:01:30"}, 90.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=1), usegmt=True)}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Fri, 99 Nov 2026 12:00:00 GMT"}, None),
        ({"retry-after": "4294967"}, 4294967.0),
        ({"retry-after": "1e12"}, 1e12),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read_or_left(
    headers: dict[str, str], wait_s: float | None
) -> None:
    assert retry_after_s(headers.get, NOW) == wait_s


class FakeReply:
    """Gives its pieces, then an error or the end."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, *pieces: bytes, error: AgentError | None = None) -> None:
        self._pieces = list(pieces)
        self._error = error

    async def read(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        if self._error is not None:
            raise self._error
        return b""

    def heard(self) -> None:
        pass


async def test_a_body_is_read_whole_up_to_a_bound() -> None:
    assert await read_whole(FakeReply(b"ab", b"c"), 3) == b"abc"
    with pytest.raises(AgentError, match="larger than 3 bytes") as raised:
        await read_whole(FakeReply(b"ab", b"cd"), 3)
    assert raised.value.kind is ErrorKind.NETWORK


async def test_what_is_only_quoted_is_read_as_far_as_it_goes() -> None:
    assert await read_beginning(FakeReply(b"ab", b"cd", b"ef"), 3) == b"abc"
    assert await read_beginning(FakeReply(b"ab", error=AgentError("network", "lost")), 3) == b"ab"


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def test_silence_is_the_time_waited_since_something_was_said() -> None:
    clock = Clock()
    silence = ReadTimeout(10, clock)
    silence.begin()
    clock.time = 4
    assert silence.left_s() == 6
    silence.pause()
    clock.time = 100
    assert silence.left_s() == 6, "what the reader does with an answer is not the server's silence"
    silence.begin()
    clock.time = 105
    assert silence.left_s() == 1, "a ping in between changes nothing"
    silence.pause()
    silence.broken()
    assert silence.left_s() == 10
    silence.pause()
    assert not silence.waiting
