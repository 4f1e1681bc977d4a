"""Commands in fresh processes that need not import Treadle again: a process that has, and forks for
each. Entry: `ForkServer`.

A child has its own streams, directory and environment, runs `python -m treadle ARGUMENTS`, and ends
as any interpreter does. What reads the environment of a starting interpreter (LANG, PYTHONPATH)
needs a real start: `fits`. TREADLE_CRASH_AT is read when Treadle is imported, and is handed to the
child instead.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

_STREAMS = 3
_LENGTH = 8
_PRELOADED = (
    *(
        "treadle.cli.app",
        "treadle.cli.run",
        "treadle.cli.runs",
        "treadle.runtime.runtime",
        "treadle.config",
        "treadle.agents.coding",
        "treadle.journal.sqlite",
    ),
    *(
        "treadle.models.providers.scripted",
        "treadle.models.providers.tape",
        "treadle.tools",
        "treadle.policy.sandboxes.bubblewrap",
        "treadle.cli.config",
    ),
    *(
        "treadle.cli.runs.group",
        "treadle.cli.runs.listing",
        "difflib",
        "aiohttp",
        "anyio._backends._asyncio",
        "pydantic",
        "sqlite3",
    ),
    *("mcp", "treadle.tools.mcp.servers"),
)


def fits(environment: Mapping[str, str]) -> bool:
    """Whether a forked child can stand for a process that starts with this environment."""
    is_read_at_start = any(
        name == "LANG" or name.startswith(("LC_", "PYTHON")) for name in environment
    )
    return sys.platform == "linux" and not is_read_at_start


class ForkServer:
    """One process that has imported what most commands need. For one thread."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment`: what the interpreter starts with."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
            root = Path(__file__).parents[1]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=root,
                stdin=subprocess.DEVNULL,
            )

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: bytes | None,
        timeout_s: float,
    ) -> tuple[int, bytes, bytes]:
        """Return the exit code, standard output and standard error.

        Raises subprocess.TimeoutExpired.
        """
        out, out_w = os.pipe()
        err, err_w = os.pipe()
        given, given_w = os.pipe()
        streams = [given if stdin is not None else os.open(os.devnull, os.O_RDONLY), out_w, err_w]
        self._send(
            {"arguments": list(arguments), "cwd": str(cwd), "environment": dict(environment)},
            streams,
        )
        for fd in {given, *streams}:
            os.close(fd)
        pid = self._receive()["pid"]
        read: dict[int, bytes] = {}

        def take(fd: int) -> None:
            with open(fd, "rb") as stream:
                read[fd] = stream.read()

        threads = [threading.Thread(target=take, args=(fd,), daemon=True) for fd in (out, err)]
        threads.append(
            threading.Thread(target=_write_all, args=(given_w, stdin or b""), daemon=True)
        )
        for thread in threads:
            thread.start()
        self._socket.settimeout(timeout_s)
        try:
            code = self._receive()["code"]
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._socket.settimeout(None)
            self._receive()
            raise subprocess.TimeoutExpired(list(arguments), timeout_s) from None
        self._socket.settimeout(None)
        for thread in threads:
            thread.join(timeout_s)
        return code, read[out], read[err]

    def _send(self, request: dict[str, Any], streams: list[int]) -> None:
        data = json.dumps(request).encode()
        socket.send_fds(self._socket, [len(data).to_bytes(_LENGTH, "big")], streams)
        self._socket.sendall(data)

    def _receive(self) -> Any:
        return json.loads(
            _exactly(self._socket, int.from_bytes(_exactly(self._socket, _LENGTH), "big"))
        )


def _write_all(fd: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(fd, "wb") as stream:
        stream.write(data)


def _exactly(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        if not (piece := connection.recv(length - len(found))):
            raise EOFError
        found += piece
    return found


# ---------------------------------------------------------------- the process that forks


def _serve(connection: socket.socket) -> None:
    """Fork for every request.

    Returns in each child, with its request carried out but for the command itself; ends with the
    connection.
    """
    while True:
        length, streams, _, _ = socket.recv_fds(connection, _LENGTH, _STREAMS)
        if not length:
            sys.exit()
        request = json.loads(_exactly(connection, int.from_bytes(length, "big")))
        if (pid := os.fork()) == 0:
            connection.close()
            _become(request, streams)
            return
        for fd in streams:
            os.close(fd)
        _answer(connection, {"pid": pid})
        _answer(connection, {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})


def _answer(connection: socket.socket, answer: dict[str, int]) -> None:
    data = json.dumps(answer).encode()
    connection.sendall(len(data).to_bytes(_LENGTH, "big") + data)


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if (wish := os.environ.get("TREADLE_CRASH_AT", "")).isdecimal():
        cast("Any", import_module("treadle._internal.crash"))._at = int(wish)
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0)), encoding="utf-8", errors="surrogateescape"
    )
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8", errors="surrogateescape"
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
        write_through=True,
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["treadle", *request["arguments"]]


def _command() -> int:
    """Run the command. Return its exit code."""
    try:
        runpy.run_module("treadle", run_name="__main__", alter_sys=True)
    except SystemExit as e:
        if isinstance(e.code, int | None):
            return e.code or 0
        print(e.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    else:
        return 0
    return 1


def _end(code: int) -> None:
    """End as the interpreter does, but for taking down each module, which takes longer than most
    commands.
    """
    cast("Any", threading)._shutdown()  # waits for threads
    cast("Any", atexit)._run_exitfuncs()
    gc.collect()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _main(connection: socket.socket) -> None:
    for name in _PRELOADED:
        __import__(name)
    gc.collect()
    gc.freeze()
    _serve(connection)
    _end(_command())


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
