"""A server on the standard input and output of this process, which belong to the protocol alone
meanwhile. Entry: `serve_stdio`.
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
    """Two file descriptors that nothing else in this process knows."""

    inwards: int
    outwards: int


async def serve_stdio(server: McpToolServer) -> None:
    """Until the client closes our input; requests that are open then are cancelled, and their runs
    closed. One at a time in a process.

    Cancellation: the same, at once. Meanwhile what anything else prints, child processes too,
    goes to standard error, and who reads the input finds its end.
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
    """Takes 0 and 1 away from everybody else, and gives them back."""
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
            ) is not None:  # the SDK would say nothing, and its client wait
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
    # one with an id that cannot be one looks like a notification to the SDK
    return None if is_request else message


async def _lines(fd: int) -> AsyncIterator[str | None]:
    lines = LineSplitter()
    while piece := await _read(fd):
        for line in lines.feed(piece):
            yield line
    yield lines.end()


async def _say(wire: StdioStreams, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """A client that has gone is not told anything more; the end of our input follows."""
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
    """A line. What UTF-8 has no place for, half a surrogate pair, becomes a question mark."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        plain = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(plain, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


async def _read(fd: int) -> bytes:
    """Waits without a thread: one that is blocked in a read could not be stopped, and a process
    waits for its threads.
    """
    try:
        await anyio.wait_readable(fd)
    except OSError:  # a file, or nothing at all, which cannot be waited for and needs no waiting
        return await to_thread.run_sync(os.read, fd, PIECE_BYTES)
    return os.read(fd, PIECE_BYTES)


async def _write(fd: int, rest: memoryview) -> None:
    """As much at a time as a pipe takes without blocking once it is ready."""
    while rest:
        try:
            await anyio.wait_writable(fd)
        except PermissionError:  # a file, likewise
            await anyio.lowlevel.checkpoint()
        rest = rest[os.write(fd, rest[:PIPE_BUF]) :]
