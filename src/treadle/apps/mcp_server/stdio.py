"""Server on the standard input and output of this process, which it reserves for the protocol.
Entry point: `serve_stdio`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from select import PIPE_BUF
from typing import NamedTuple

import anyio
import anyio.lowlevel
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter

from treadle.apps.mcp_server.lines import LineSplitter, refusal_of
from treadle.apps.mcp_server.server import McpToolServer

PIECE_BYTES = 65536


class StdioStreams(NamedTuple):
    """Two file descriptors private to the server."""

    inwards: int
    outwards: int


async def serve_stdio(server: McpToolServer) -> None:
    """Serve until the client closes the input, then cancel open requests and close their runs. One
    server per process.

    Cancellation does the same. While serving, other output of the process and its children
    goes to standard error, and other readers of the input see its end.
    """
    with claimed() as wire:
        heard, from_wire = anyio.create_memory_object_stream[SessionMessage | Exception]()
        to_wire, said = anyio.create_memory_object_stream[SessionMessage]()
        async with anyio.create_task_group() as group:
            group.start_soon(_hear, wire, heard, to_wire.clone())
            group.start_soon(_say, wire, said)
            await server.sdk.run(from_wire, to_wire, server.sdk.create_initialization_options())
            group.cancel_scope.cancel()


@contextmanager
def claimed() -> Generator[StdioStreams]:
    """Take descriptors 0 and 1 for exclusive use, and restore them at the end."""
    sys.stdout.flush()
    wire = StdioStreams(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield wire
    finally:
        sys.stdout.flush()
        os.dup2(wire.inwards, 0)
        os.dup2(wire.outwards, 1)
        os.close(wire.inwards)
        os.close(wire.outwards)


async def _hear(
    wire: StdioStreams,
    heard: MemoryObjectSendStream[SessionMessage | Exception],
    to_wire: MemoryObjectSendStream[SessionMessage],
) -> None:
    async with heard, to_wire:
        async for line in _lines(wire.inwards):
            if line is not None and not line.strip():
                continue
            message = _message_in(line)
            if message is not None:
                await heard.send(SessionMessage(message))
            elif (
                refusal := refusal_of(line)
            ) is not None:  # the SDK would not respond, and the client would wait
                await to_wire.send(SessionMessage(refusal))


def _message_in(line: str | None) -> JSONRPCMessage | None:
    try:
        message = jsonrpc_message_adapter.validate_json(line or "", by_name=False)
    except ValueError:
        return None
    is_request = (
        isinstance(message, JSONRPCNotification)
        and '"id"' in (line or "")
        and refusal_of(line) is not None
    )
    # The SDK treats a request with an invalid id as a notification.
    return None if is_request else message


async def _lines(fd: int) -> AsyncIterator[str | None]:
    lines = LineSplitter()
    while piece := await _read(fd):
        for line in lines.feed(piece):
            yield line
    yield lines.end()


async def _say(wire: StdioStreams, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write messages. After a disconnect, discard them until the input ends."""
    gone = False
    async with said:
        async for message in said:
            if gone:
                continue
            try:
                await _write(wire.outwards, memoryview(_encoded(message.message)))
            except OSError:
                gone = True


def _encoded(message: JSONRPCMessage) -> bytes:
    """Encode a message as one line. Lone surrogates become question marks."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        plain = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(plain, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


async def _read(fd: int) -> bytes:
    """Read without a thread, because a blocked read could not be stopped and would keep the process
    from exiting.
    """
    try:
        await anyio.wait_readable(fd)
    except OSError:  # a file or /dev/null, which cannot be polled and needs no waiting
        return await to_thread.run_sync(os.read, fd, PIECE_BYTES)
    return os.read(fd, PIECE_BYTES)


async def _write(fd: int, rest: memoryview) -> None:
    """Write in pieces that a ready pipe accepts without blocking."""
    while rest:
        try:
            await anyio.wait_writable(fd)
        except PermissionError:  # a file needs no waiting
            await anyio.lowlevel.checkpoint()
        rest = rest[os.write(fd, rest[:PIPE_BUF]) :]
