"""Stands between a client and its server: hands on what they say, until it is told to cut, to tear,
to stall, or to swallow. Entry: `Proxy`.

A process of its own, `python -m tests.crash.proxy SOCKET`: whoever forks and kills has no threads
of it. It reads orders, a line each, and answers each with a line.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, cast

import anyio
import anyio.abc

Way = Literal["there", "back"]


class Proxy:
    """A context. `server`: a Unix socket, which may come and go."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self.port = 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.crash.proxy", str(self._server)]
        self._process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._answer())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            self._process.kill()

    def cut(self) -> int:
        """Every connection, at once; gives how many there were."""
        return self._ask("cut")

    def tear(self, way: Way, number: int = 1) -> int:
        """Of all that is said from now on, that message goes half of its way and then its
        connection is cut: to the server (`there`), or from it (`back`).

        A message is what one side says at once. In place of an earlier one.
        """
        return self._ask(f"tear {way} {number}")

    def tear_none(self) -> bool:
        """Not any more; gives whether it had come to it."""
        return self._ask("tear none 0") == 0

    def stall(self, seconds: float) -> int:
        """Nothing goes through for so long, in either way; nothing is lost. Returns at once."""
        return self._ask(f"stall {seconds}")

    def swallow(self) -> int:
        """From now on nothing goes through, in either way, and nobody is told: what is said is
        taken, and lost. New connections are taken too.
        """
        return self._ask("swallow")

    def lose(self, number: int = 1) -> int:
        """The same from that message of the server on: what it answers is done there, and nobody
        here ever hears of it.
        """
        return self._ask(f"lose {number}")

    def spit(self) -> int:
        """It is over: connections from before stay mute, new ones work."""
        return self._ask("spit")

    def _ask(self, order: str) -> int:
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None, "it is a pipe"
        return self._process.stdout.readline()


# ---------------------------------------------------------------- in the process itself


class _Switchboard:
    """All lines, and the gate that they go through."""

    def __init__(self, server: str, group: anyio.abc.TaskGroup) -> None:
        self._server, self._group = server, group
        self._lines: set[_Line] = set()
        self.is_open = True
        self.swallows = False
        self._way, self._left = "", 0
        """So many messages of that way until one is torn; 0: none is."""

    def is_torn(self, way: Way) -> bool:
        """Of the message that is to go now."""
        if way != self._way or self._left == 0:
            return False
        self._left -= 1
        return self._left == 0

    def connected(self) -> asyncio.Protocol:
        """The side of a new client."""
        if self.swallows:
            return asyncio.Protocol()  # takes all, and answers nothing
        line = _Line(self)
        self._group.start_soon(self._connect, line)
        return line.client

    async def _connect(self, line: _Line) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: line.server, self._server)
        except OSError:  # it is down: so is the client's connection
            line.client.end()
            return
        if line.is_cut:  # the client has gone meanwhile
            line.server.end()
            return
        self._lines.add(line)
        line.flush()

    def ended(self, line: _Line) -> None:
        self._lines.discard(line)

    def obey(self, order: str) -> int:
        lines = list(self._lines)
        match order.split():
            case ["cut"]:
                for line in lines:
                    line.cut()
            case ["tear", "none", _]:
                left, self._left = self._left, 0
                return left
            case ["tear", way, number]:
                self._way, self._left = way, int(number)
            case ["swallow"]:
                self._swallow()
            case ["lose", number]:
                self._way, self._left = "lost", int(number)
            case ["spit"]:
                self.swallows = False
                if self._way == "lost":  # the message may not have come yet
                    self._left = 0
            case ["stall", seconds]:
                self._group.start_soon(self._stall, float(seconds))
            case _:
                raise ValueError(order)
        return len(lines)

    def _swallow(self) -> None:
        self.swallows = True
        for line in self._lines:
            line.mute = True

    def is_lost(self, way: Way) -> bool:
        """Whether the message that is to go now is the first that nobody hears of."""
        if way != "back" or self._way != "lost" or self._left == 0:
            return False
        self._left -= 1
        if self._left == 0:
            self._swallow()
        return self._left == 0

    async def _stall(self, seconds: float) -> None:
        self.is_open = False
        await anyio.sleep(seconds)
        self.is_open = True  # where two stalls overlap, the shorter one ends both
        for line in list(self._lines):
            line.flush()


class _Line:
    """One connection, both ways."""

    def __init__(self, board: _Switchboard) -> None:
        self._board = board
        self.client, self.server = _Side(self, "there"), _Side(self, "back")
        self.mute = self.is_cut = self.is_torn = False

    def flush(self) -> None:
        """Hand on what waits, as far as the gate and both ends let it."""
        if self._board.is_open:
            self.client.hand_on(self.server)
            self.server.hand_on(self.client)

    def passing(self, way: Way, data: bytes) -> bytes:
        """Return what goes on of a message."""
        if self.mute or self._board.is_lost(way):
            return b""
        self.is_torn = self._board.is_torn(way)
        return data[: len(data) // 2] if self.is_torn else data

    def cut(self) -> None:
        """Hard: the client hears of it by a reset."""
        if self.is_cut:
            return
        self.is_cut = True
        self._board.ended(self)
        if self.client.transport is not None:
            with suppress(OSError):
                self.client.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
        self.client.end()
        self.server.end()


class _Side(asyncio.Protocol):
    """One end of a line. It is not read from while the other end has not taken everything."""

    def __init__(self, line: _Line, way: Way) -> None:
        self._line = line
        self._way: Way = way
        self._waiting: deque[bytes] = deque()
        self.is_full = False
        """True while something that was written has not been sent."""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        self._waiting.append(data)
        self._line.flush()
        if self._waiting and self.transport is not None:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self._line.cut()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._line.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._line.cut()

    def hand_on(self, to: _Side) -> None:
        line = self._line
        if self.transport is None or to.transport is None:
            return
        while self._waiting and not (to.is_full or line.is_torn or line.is_cut):
            if passing := line.passing(self._way, self._waiting.popleft()):
                to.transport.write(passing)
        if to.is_full:
            self.transport.pause_reading()
        elif line.is_torn:
            line.cut()
        else:
            self.transport.resume_reading()

    def end(self) -> None:
        if self.transport is not None:
            self.transport.abort()


async def _serve(server: str) -> None:
    loop = asyncio.get_running_loop()
    async with anyio.create_task_group() as group:
        board = _Switchboard(server, group)
        listening = await loop.create_server(board.connected, "127.0.0.1", 0, backlog=1000)
        print(listening.sockets[0].getsockname()[1], flush=True)
        async for order in anyio.wrap_file(sys.stdin):
            print(board.obey(order), flush=True)
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(_serve, sys.argv[1])
