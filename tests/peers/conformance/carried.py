"""A server of ours over streamable HTTP, for a suite that speaks nothing else: on a free port,
until standard input ends. Entry: `carry`.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

import uvicorn
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import JSONRPCMessage
from typing_extensions import override

from treadle.apps.mcp_server.server import McpToolServer


class KeptEvents(EventStore):
    """So that a client that lost its stream can have the rest of it."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, JSONRPCMessage | None]] = []

    @override
    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._kept.append((stream_id, message))
        return str(len(self._kept))

    @override
    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        last = int(last_event_id)
        if not 0 < last <= len(self._kept):
            return None
        wanted = self._kept[last - 1][0]
        for number, (stream_id, message) in enumerate(self._kept[last:], last + 1):
            if stream_id == wanted and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return wanted


async def carry(server: McpToolServer) -> None:
    """Says its address once somebody can connect."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        app = server.sdk.streamable_http_app(event_store=KeptEvents(), retry_interval=100)
        # httptools leaves the spaces around a header's value, which the suite sends and RFC 9110
        # says are not part of it
        threading.Thread(target=until_input_ends, daemon=True).start()
        await uvicorn.Server(uvicorn.Config(app, log_level="warning", http="h11")).serve(
            [listening]
        )


def until_input_ends() -> None:
    sys.stdin.read()
    os._exit(0)  # whoever started this process wants it gone, whatever is still open
