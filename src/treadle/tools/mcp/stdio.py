"""Transport to a server that runs as a child process: messages are lines of its stdin and stdout.
Bounds the memory and time that any output of the program can take.

Replaces the SDK's own transport, which buffers a line of any length, logs each line that is not a
message, and kills only the process group. Entry point: `stdio`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

from treadle.tools.builtin.processes import MARK, Tree, tree_of
from treadle.tools.mcp.failures import Unreachable, own_error
from treadle.tools.mcp.lines import LINE_BYTES, BoundedLine, BoundedLines, answered_id
from treadle.tools.mcp.server import McpServer, revealed
from treadle.tools.mcp.traffic import Streams, Traffic
from treadle.tools.mcp.words import one_line

BABBLE_BYTES = 256 << 20
"""Maximum size in bytes of other output between two responses; each line counts as at least
`BABBLE_LINE`.
"""
BABBLE_LINE = 256
QUEUE = 64
"""Maximum number of messages queued until the program reads them, so that cancelling a call never
waits for the program.
"""
GRACE_S = 1.0
"""Seconds between closing a server's stdin, which asks it to exit, and SIGTERM."""
_EXIT_S = 1.0
"""Seconds between the end of a server's stdout and a report without its exit code."""
_LAST_S = 2.0
_POLL_S = 0.01
_PIECE = 65536
_WORDS = 4096
_QUOTED = 300
_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def stdio(
    server: McpServer, environment: Mapping[str, str], traffic: Traffic
) -> AsyncGenerator[Streams]:
    """Run a server for the duration of the block, then end it and all its processes.

    Raises Unreachable if the server cannot be started.
    """
    mark = os.urandom(16).hex()
    program = await _started(server, {**environment, **revealed(server.env), MARK: mark})
    tree = tree_of(program.pid, mark)
    into, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, out = anyio.create_memory_object_stream[SessionMessage](QUEUE)
    pipes = _Pipes(program, into, out, traffic)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(pipes.read)
            group.start_soon(pipes.write)
            group.start_soon(pipes.listen)
            try:
                yield reading, writing
            finally:
                reading.close()
                writing.close()
                with anyio.CancelScope(shield=True):
                    await _end(program, tree)
                group.cancel_scope.cancel()
    finally:
        for stream in (into, reading, writing, out):
            stream.close()


async def _started(server: McpServer, environment: Mapping[str, str]) -> Process:
    try:
        with anyio.CancelScope(shield=True):  # so that `_end` ends every started process
            return await anyio.open_process(
                server.command, stderr=-1, cwd=server.cwd, env=environment, start_new_session=True
            )
        raise AssertionError("a shielded scope without cancellation ends with a result or an error")
    except (OSError, ValueError) as e:
        where = (
            f" in {e.filename!r}"
            if isinstance(e, OSError) and server.cwd is not None and e.filename == str(server.cwd)
            else ""
        )
        why = f"{e.strerror or e}{where}" if isinstance(e, OSError) else str(e)
        raise Unreachable(f"the program {server.command[0]!r} cannot be started: {why}") from e


async def _end(program: Process, tree: Tree) -> None:
    """Close the program's stdin. If it still runs after the grace period, terminate and then kill
    it with all its descendants.
    """
    with suppress(*_GONE):
        if program.stdin is not None:
            await program.stdin.aclose()
    with anyio.move_on_after(GRACE_S):
        while program.returncode is None:  # noqa: ASYNC110  wait() waits for the pipes too, which a child may hold
            await anyio.sleep(_POLL_S)
    if sys.platform == "win32":
        if program.returncode is None:
            program.kill()
    else:
        await tree.end()
    with anyio.move_on_after(_LAST_S):
        await program.aclose()


class _Pipes:
    def __init__(
        self,
        program: Process,
        into: MemoryObjectSendStream[SessionMessage | Exception],
        out: MemoryObjectReceiveStream[SessionMessage],
        traffic: Traffic,
    ) -> None:
        self._program, self._into, self._out, self._traffic = program, into, out, traffic
        self._babble = 0
        self._nonsense = b""
        """Beginning of the last line that was not a message."""
        self._words = b""
        """End of its stderr output."""
        self._heard = anyio.Event()
        """Set at the end of its stderr."""

    # ------------------------------------------------------------ messages from the server

    async def read(self) -> None:
        lines = BoundedLines()
        while data := await _piece(self._program.stdout):
            for line in lines.feed(data):
                await self._hand_on(self._message(line))
            if self._babble > BABBLE_BYTES:
                self._traffic.end(
                    "it keeps writing to stdout text that is not a message, like "
                    f"{self._nonsense_in_words!r}"
                )
        # its exit and its last output are reported separately, on a busy machine later
        with anyio.move_on_after(_EXIT_S):
            while self._program.returncode is None:  # noqa: ASYNC110  as in _end
                await anyio.sleep(_POLL_S)
        with anyio.move_on_after(_POLL_S * 10):  # a process that it started may hold stderr open
            await self._heard.wait()
        self._traffic.end(self._end_in_words())
        self._into.close()

    async def _hand_on(self, message: SessionMessage | None) -> None:
        """Pass a message on, or drop it if there is no reader left, so that the program can
        exit.
        """
        if message is not None:
            with suppress(*_GONE):
                await self._into.send(message)

    def _message(self, line: BoundedLine) -> SessionMessage | None:
        data = line.data.strip()
        if not line.is_cut and data.startswith(b"{"):
            try:
                message = jsonrpc_message_adapter.validate_json(data, by_name=False)
            except ValueError:
                pass
            else:
                if isinstance(message, JSONRPCResponse):
                    self._babble = 0
                return SessionMessage(message)
        self._babble += max(line.size, BABBLE_LINE)
        self._nonsense = data[:_QUOTED]
        return self._unreadable(line) if line.is_cut or data.startswith(b"{") else None

    def _unreadable(self, line: BoundedLine) -> SessionMessage | None:
        """Return an error for the call that the line probably responds to."""
        if (request := answered_id(line)) is None:
            return None
        what = (
            f"longer than {LINE_BYTES >> 20} MiB ({line.size:,} bytes)"
            if line.is_cut
            else f"no message of JSON-RPC: {self._nonsense_in_words!r}"
        )
        return SessionMessage(
            JSONRPCError(
                jsonrpc="2.0", id=request, error=ErrorData(**own_error(f"its answer is {what}"))
            )
        )

    @property
    def _nonsense_in_words(self) -> str:
        return one_line(self._nonsense.decode(errors="replace"), 100)

    async def listen(self) -> None:
        while data := await _piece(self._program.stderr):
            self._words = (self._words + data)[-_WORDS:]
        self._heard.set()

    def _end_in_words(self) -> str:
        code = self._program.returncode
        how = (
            "it closed its stdout"
            if code is None
            else f"it ended with exit code {code}"
            if code >= 0
            else f"it was ended by signal {-code}"
        )
        said = [text for text in self._words.decode(errors="replace").splitlines() if text.strip()]
        if said:
            return f"{how}; its last words: {one_line(said[-1], _QUOTED)!r}"
        return f"{how}; it wrote: {self._nonsense_in_words!r}" if self._nonsense else how

    # ------------------------------------------------------------ messages to the server

    async def write(self) -> None:
        stdin = self._program.stdin
        assert stdin is not None, "it is a pipe"
        with suppress(*_GONE):
            async for item in self._out:
                await stdin.send(
                    item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                )


async def _piece(stream: ByteReceiveStream | None) -> bytes:
    """Read the next piece. Empty at the end."""
    assert stream is not None, "it is a pipe"
    # a program that never stops writing must not block other tasks
    await anyio.lowlevel.checkpoint()
    try:
        return await stream.receive(_PIECE)
    except _GONE:
        return b""
