"""Server-sent events: encoding, resume positions and the streaming response.

See also: readers (fan_out.py), the events of a run (following.py). Entry points: `frame_of`,
`said`, `position_of`, `SseResponse`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

import anyio
import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from treadle.messages.events import DELTAS, Event, ToolProgress
from treadle.service.fan_out import EncodedEvent, Position

MEDIA_TYPE: Final = "text/event-stream"
WRITE_TIMEOUT_S: Final = 10.0
"""Seconds after which a client that reads nothing is disconnected."""
CHUNK_BYTES: Final = 65_536
POSITION_PATTERN: Final = r"^[0-9]{1,15}(\.[0-9]{1,9})?$"
_POSITION: Final = re.compile(POSITION_PATTERN)
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_LOSSY: Final = (*DELTAS, ToolProgress)
_ENCODER: Final = msgspec.json.Encoder()


def position_of(event_id: str) -> Position | None:
    """Parse `ENTRY.K`, or `ENTRY` for all of that entry's events. Return None for anything else."""
    if not _POSITION.match(event_id):
        return None
    entry, _, place = event_id.partition(".")
    return int(entry), int(place) if place else 1_000_000_000


def frame_of(event: Event, run_id: str) -> EncodedEvent:
    """Encode an event of a run or its child run; only the run's own events carry a resume id."""
    event_id = event.id if isinstance(event.id, str) else None
    own = event.run_id == run_id
    data = _written(event.type, _ENCODER.encode(event), event_id if own else None)
    position = position_of(event_id) if event_id is not None else None
    return EncodedEvent(
        data, event.run_id, position, lossy=isinstance(event, _LOSSY) and event_id is None
    )


def said(kind: str, value: Any, *, last: bool = False) -> EncodedEvent:
    """Encode an event that belongs to no run."""
    return EncodedEvent(_written(kind, _ENCODER.encode(value), None), last=last)


def _written(kind: str, data: bytes, event_id: str | None) -> bytes:
    """Encode one event. The JSON has no line breaks, so `data` is a single field."""
    head = b"" if event_id is None else b"id: %s\n" % event_id.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (head, kind.encode(), data)


class Source(Protocol):
    """Source of a stream's data: a `Reader` or similar."""

    async def read(self) -> bytes | None:
        """Wait for more data. Return None when the stream has ended."""
        ...

    def close(self) -> None: ...


class SseResponse(Response):
    """ASGI response that streams events. Each stream has two tasks, one of which only waits for a
    disconnect.

    `before` is sent first, then the reader's data. `over` is called once, however the stream ends.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        reader: Source,
        before: Iterable[EncodedEvent] = (),
        *,
        over: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._reader, self._before, self._over = reader, before, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = [
                *_HEADERS,
                *(
                    (name, value)
                    for name, value in self.raw_headers
                    if name not in (b"content-length", b"content-type")
                ),
            ]
            async with anyio.create_task_group() as group:
                group.start_soon(until_gone, receive, group.cancel_scope)
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": headers}
                )
                await self._send(send)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._over()

    async def _send(self, send: Send) -> None:
        """Send the stream. If the client reads nothing, the last message is omitted, so that the
        server closes the connection.
        """
        try:
            for chunk in _chunks(self._before):
                await _write(send, chunk)
            self._before = ()
            while (data := await self._reader.read()) is not None:
                await _write(send, data)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._reader.close()


async def _write(send: Send, data: bytes) -> None:
    with anyio.fail_after(WRITE_TIMEOUT_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel the scope when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _chunks(frames: Iterable[EncodedEvent]) -> Iterable[bytes]:
    chunk = bytearray()
    for frame in frames:
        chunk += frame.data
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
