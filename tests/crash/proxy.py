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
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import anyio
import anyio.abc

BROKEN = (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError, OSError)
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
        self.open = anyio.Event()
        self.open.set()
        self.swallows = False
        self._way, self._left = "", 0
        """So many messages of that way until one is torn; 0: none is."""

    def is_torn(self, way: Way) -> bool:
        """Of the message that is to go now."""
        if way != self._way or self._left == 0:
            return False
        self._left -= 1
        return self._left == 0

    async def connected(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            if self.swallows:
                with suppress(*BROKEN):
                    while True:
                        await client.receive()
            try:
                server = await anyio.connect_unix(self._server)
            except OSError:  # it is down: so is the client's connection
                return
            async with server:
                line = _Line(self, client, server)
                self._lines.add(line)
                try:
                    await line.serve()
                finally:
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
        self.open, gate = anyio.Event(), self.open
        await anyio.sleep(seconds)
        self.open.set()
        gate.set()  # where two stalls overlap, the shorter one ends both


class _Line:
    """One connection, both ways."""

    def __init__(
        self, board: _Switchboard, client: anyio.abc.SocketStream, server: anyio.abc.SocketStream
    ) -> None:
        self._board, self._client, self._server = board, client, server
        self._scope = anyio.CancelScope()
        self.mute = False

    async def serve(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._hand_on, self._client, self._server, "there")
                group.start_soon(self._hand_on, self._server, self._client, "back")

    def cut(self) -> None:
        """Hard: the client hears of it by a reset."""
        with suppress(OSError):
            self._client.extra(anyio.abc.SocketAttribute.raw_socket).setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self._scope.cancel()

    async def _hand_on(
        self, source: anyio.abc.SocketStream, to: anyio.abc.SocketStream, way: Way
    ) -> None:
        with suppress(*BROKEN):
            while True:
                data = await source.receive()
                await self._board.open.wait()
                if self.mute or self._board.is_lost(way):
                    continue
                if self._board.is_torn(way):
                    await to.send(data[: len(data) // 2])
                    break
                await to.send(data)
        self.cut()


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A socket that becomes ready in the moment in which whoever waited for it is cancelled: anyio
    tells the one that is gone.
    """
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


async def _serve(server: str) -> None:
    asyncio.get_running_loop().set_exception_handler(_quiet)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    print(listener.extra(anyio.abc.SocketAttribute.local_port), flush=True)
    async with anyio.create_task_group() as group:
        board = _Switchboard(server, group)
        group.start_soon(listener.serve, board.connected)
        async for order in anyio.wrap_file(sys.stdin):
            print(board.obey(order), flush=True)
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(_serve, sys.argv[1])
