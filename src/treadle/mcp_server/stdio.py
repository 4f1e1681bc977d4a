"""A server on the standard input and output of this process, which belong to the protocol alone meanwhile. Entry: `serve_stdio`."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from treadle.mcp_server.server import ToolServer

PIECE_BYTES = 65536


class Wire(NamedTuple):
    """Two file descriptors that nothing else in this process knows."""

    inwards: int
    outwards: int


async def serve_stdio(server: ToolServer) -> None:
    """Until the client closes our input; requests that are open then are cancelled, and their runs closed. One at a time in a process.

    Cancellation: the same, at once, though a thread still waits for input. Meanwhile what anything else prints, child processes too,
    goes to standard error, and who reads the input finds its end.
    """
    with claimed() as wire:
        heard, from_wire = anyio.create_memory_object_stream[SessionMessage | Exception]()
        to_wire, said = anyio.create_memory_object_stream[SessionMessage]()
        async with anyio.create_task_group() as group:
            group.start_soon(_hear, wire, heard)
            group.start_soon(_say, wire, said)
            await server.sdk.run(from_wire, to_wire, server.sdk.create_initialization_options())
            group.cancel_scope.cancel()


@contextmanager
def claimed() -> Generator[Wire]:
    """Takes 0 and 1 away from everybody else, and gives them back."""
    sys.stdout.flush()
    wire = Wire(os.dup(0), os.dup(1))
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
        os.close(wire.outwards)  # the other one may still be read by a thread that was left alone


async def _hear(wire: Wire, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    async with heard:
        async for line in _lines(wire.inwards):
            if not line.strip():
                continue
            try:
                message: SessionMessage | Exception = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError as e:  # answered by the SDK, as a parse error
                message = e
            await heard.send(message)


async def _lines(fd: int) -> AsyncIterator[str]:
    """A thread reads, since not every input can be waited for; cancelled, it is left alone."""
    pieces: list[bytes] = []
    while piece := await to_thread.run_sync(os.read, fd, PIECE_BYTES, abandon_on_cancel=True):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join([*pieces, end]).decode("utf-8", "replace")
            pieces.clear()
        pieces.append(rest)
    if last := b"".join(pieces).strip():
        yield last.decode("utf-8", "replace")


async def _say(wire: Wire, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """A client that has gone is not told anything more; the end of our input follows."""
    gone = False
    async with said:
        async for message in said:
            if gone:
                continue
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            try:
                await to_thread.run_sync(partial(_write, wire.outwards, line.encode()), abandon_on_cancel=True)
            except OSError:
                gone = True


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
