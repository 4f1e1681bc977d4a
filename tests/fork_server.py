"""Commands in fresh processes that need not import Treadle again: a process that has, and forks for
each. Entry: `ForkServer`; `command` for what a program starts by its words.

A child has its own streams, directory and environment, runs `python -m PROGRAM ARGUMENTS`, and ends
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
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from tests.huge_pages import collapse

ROOT = Path(__file__).parents[1]
BARE = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
"""What the interpreter of `fork_server` starts with."""
STARTS_WITHIN_S = 100
ENDS_WITHIN_S = 10
FORWARDED = Path(__file__).with_name("forwarded.py")
_STREAMS = 3
_LENGTH = 8
_LISTENS = sys.platform == "linux"
"""Abstract names of sockets are Linux's."""
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
        "anyio._backends._asyncio",
        "pydantic",
        "sqlite3",
    ),
    *(
        "mcp",
        "treadle.tools.mcp.servers",
        "treadle.tools.mcp.stdio",
        "treadle.tools.mcp.connection",
    ),
    # What only some commands import: it costs a child 20 to 900 ms, and the server once.
    *(
        "tree_sitter",
        "tree_sitter_bash",
        "treadle.agents.definitions.catalog",
        "treadle.apps.assistant.embedded",
        "treadle.apps.assistant.language.conversation",
        "treadle.cli.agents",
        "treadle.cli.init",
        "treadle.cli.models",
        "treadle.cli.policy",
        "treadle.cli.runs.cost",
        "treadle.cli.runs.driving",
        "treadle.cli.runs.export",
        "treadle.cli.runs.fork",
        "treadle.cli.runs.import_",
        "treadle.cli.runs.kill",
        "treadle.cli.runs.prune",
        "treadle.cli.runs.replay",
        "treadle.cli.runs.resume",
        "treadle.cli.runs.show",
        "treadle.cli.runs.signing",
        "treadle.cli.runs.top",
        "treadle.cli.serve",
        "treadle.cli.session_lookup",
        "treadle.cli.session_view",
        "treadle.cli.sessions",
        "treadle.cli.trust",
        "treadle.cli.trust_contents",
        "treadle.models.providers.anthropic",
        "treadle.models.providers.http",
        "treadle.models.providers.openai_chat",
        "treadle.models.providers.openai_responses",
        "treadle.models.providers.wires",
        "treadle.runtime.model_catalog",
        "treadle.tools.structured_output.given",
        "treadle.apps.assistant.application",
        "treadle.service.app",
        "treadle.service.serving",
        "treadle.service.tokens",
        "treadle.cli.tasks_chat",
        "treadle.cli.doctor",
        "alembic.command",
        "encodings.utf_16_le",
        "sqlalchemy.dialects.sqlite",
        "treadle.apps.batch.batch",
        "treadle.apps.batch.workers_queue",
        "treadle.apps.mcp_server.agents",
        "treadle.apps.mcp_server.stdio",
        "treadle.cli.runs.undo",
        "treadle.cli.work_batch",
        "treadle.cli.worker",
        "treadle.cli.worker_agents",
        "treadle.cli.worker_lines",
        "treadle.journal.postgres.journal",
        "treadle.journal.postgres.notifier",
        "treadle.journal.postgres.workers",
        "treadle.models.providers.http_pool",
        "treadle.runtime.undo",
        "treadle.workers.engines.local",
        "treadle.workers.worker",
    ),
    *(
        "anyio._core._signals",
        "anyio._core._subprocesses",
        "encodings.ascii",
        "encodings.utf_8_sig",
        "httpcore2",
        "rich.logging",
        "jsonschema_rs",
        "treadle.cli.work",
        "treadle.config.document",
        "treadle.models.providers.http_exchange",
        "treadle.policy.shell.judge",
        "treadle.tools.function.schema",
        "yaml",
        "tests.known",
    ),
    *(
        "encodings.idna",
        "fastapi.telemetry._runtime",
        "tests.service.chatting",  # what servers of the tests import, with pytest
        "uvicorn.loops.asyncio",
    ),
)


def fits(environment: Mapping[str, str]) -> bool:
    """Whether a forked child can stand for a process that starts with this environment."""
    is_read_at_start = any(
        name == "LANG" or name.startswith(("LC_", "PYTHON")) for name in environment
    )
    return sys.platform == "linux" and not is_read_at_start


shared = ""
"""Address of a fork server from which that of this process of pytest is forked; empty where there is
none.
"""
forked_servers: list[int] = []
"""Process ids of fork servers that are no descendants of this process."""


@dataclass
class _Line:
    """A process that a fork server has forked for a caller at its address. It ends with the line at
    the latest.
    """

    line: socket.socket

    def kill(self) -> None:
        self.line.shutdown(socket.SHUT_WR)

    def wait(self) -> None:
        with self.line:
            self.line.recv(100)


@dataclass
class Forked:
    """A child of the fork server. For one thread, as the server is."""

    pid: int
    _status: int
    """A pipe that its exit code comes out of."""
    _code: int | None = None

    def send_signal(self, number: int) -> None:
        if self.wait(0) is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Return its exit code, negative for a signal; None if it has not ended in time."""
        if self._code is None and select.select([self._status], [], [], timeout_s)[0]:
            self._code = int(os.read(self._status, 100))
            os.close(self._status)
        return self._code


class ForkServer:
    """One process that has imported what most commands need. For one thread."""

    def __init__(
        self,
        environment: Mapping[str, str],
        module: str = "tests.fork_server",
        arguments: Sequence[str] = (),
        *,
        python: str | Path = sys.executable,
        forked_by: str = "",
    ) -> None:
        """`environment`: what the interpreter starts with. `module`: what it runs, with the numbers
        of two sockets and `arguments`; it calls `serve`. Those of this module are the names of
        what it imports, where that is not what most commands need. `forked_by`: the address of a
        fork server that forks this one, instead of a start.
        """
        self.address = f"treadle-tests-{uuid4().hex}"
        """Abstract name of a Unix socket, for `command`."""
        self._socket, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as listening:
            if _LISTENS:
                listening.bind(f"\0{self.address}")
                listening.listen(100)
            fds = [theirs.fileno(), listening.fileno()]
            self._process = (
                _forked(forked_by, fds, environment)
                if forked_by
                else subprocess.Popen(
                    [python, "-m", module, *map(str, fds), *arguments],
                    pass_fds=fds,
                    env=environment,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                )
            )

    def close(self) -> None:
        """End the server, also while it is still loading. Its children go on."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
        program: str = "treadle",
    ) -> Forked:
        """Fork a process that runs `python -m PROGRAM ARGUMENTS`.

        `streams`: its standard input, output and error; the caller closes its own copies.
        """
        status, theirs = os.pipe()
        request = {
            "program": program,
            "arguments": list(arguments),
            "cwd": str(cwd),
            "environment": dict(environment),
        }
        self._send(request, [*streams, theirs])
        os.close(theirs)
        return Forked(self._receive()["pid"], status)

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
        child = self.start(arguments, cwd=cwd, environment=environment, streams=streams)
        for fd in {given, *streams}:
            os.close(fd)
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
        code = None
        try:
            code = child.wait(timeout_s)
        finally:  # also where the test's own time is over
            if code is None:
                child.kill()
                child.wait(ENDS_WITHIN_S)
        if code is None:
            raise subprocess.TimeoutExpired(list(arguments), timeout_s)
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


def _forked(address: str, sockets: Sequence[int], environment: Mapping[str, str]) -> _Line:
    """Have the fork server at the address fork another one, with these sockets."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(f"\0{address}")
    request = {
        "program": "tests.forked_fork_server",
        "arguments": [],
        "cwd": str(ROOT),
        "environment": dict(environment),
    }
    data = json.dumps(request).encode()
    socket.send_fds(line, [len(data).to_bytes(_LENGTH, "big")], [*sockets, 2])
    line.sendall(data)
    length = int.from_bytes(_exactly(line, _LENGTH), "big")
    forked_servers.append(json.loads(_exactly(line, length))["pid"])
    return _Line(line)


@cache
def fork_server() -> ForkServer:
    """Of this process of pytest; it ends with it."""
    server = ForkServer(BARE, forked_by=shared)
    atexit.register(server.close)
    # Its start takes seconds: only then, what it runs begins to have deadlines.
    server.run(["--version"], cwd=ROOT, environment={}, stdin=None, timeout_s=STARTS_WITHIN_S)
    return server


def command(program: str, *arguments: str) -> list[str]:
    """Words that stand for `python -m PROGRAM ARGUMENTS`, or `python PROGRAM ARGUMENTS` for the path
    of a file: a small process that has the fork server run it with its own streams, directory and
    environment, and ends as it does.

    Killed, it takes the other one along, a moment later; SIGINT, SIGTERM, SIGHUP and SIGWINCH reach
    the other one. For tests in which nothing depends on its parent, group, session or process id.
    """
    if not _LISTENS:
        return [sys.executable, *([] if program.endswith(".py") else ["-m"]), program, *arguments]
    return command_of(fork_server(), program, *arguments)


def command_of(server: ForkServer, *words: str) -> list[str]:
    """Like `command`, with another server."""
    return [sys.executable, "-I", "-S", str(FORWARDED), server.address, *words]


@contextmanager
def running(
    program: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> Generator[Forked]:
    """A process that runs the module without a word, and is killed in the end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    child = fork_server().start(
        arguments, cwd=ROOT, environment=environment, streams=[nothing] * _STREAMS, program=program
    )
    os.close(nothing)
    try:
        yield child
    finally:
        child.kill()
        child.wait(ENDS_WITHIN_S)


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


def _serve(connection: socket.socket, listening: socket.socket) -> None:
    """Fork for every request, and tell each child's caller how it ended. A caller that came to
    `listening` and goes away has its child killed.

    Returns in each child, with its request carried out but for the command itself; ends with the
    connection.
    """
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, _go_on)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    statuses: dict[int, int] = {}
    callers: dict[int, int] = {}
    """By the connection of a caller: its child."""
    while True:
        ready, _, _ = select.select([connection, ended, *_LISTENS * [listening], *callers], [], [])
        if ended in ready:
            ended.recv(100)
            _tell_ends(statuses)
            callers = {fd: pid for fd, pid in callers.items() if pid in statuses}
            continue
        for fd in callers.keys() & {*ready}:
            os.kill(callers.pop(fd), signal.SIGKILL)
        if listening in ready:
            asking = listening.accept()[0]
        elif connection in ready:
            asking = connection
        else:
            continue
        try:
            request, (*streams, status) = _requested(asking)
        except (EOFError, OSError):
            if asking is connection:
                sys.exit()
            asking.close()
            continue
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for ours in (connection, ended, wake, listening, asking):
                ours.close()
            for fd in (status, *statuses.values()):
                os.close(fd)
            _become(request, streams)
            return
        statuses[pid] = status
        for fd in streams:
            os.close(fd)
        data = json.dumps({"pid": pid}).encode()
        with suppress(OSError):  # a caller that has gone is noticed above
            asking.sendall(len(data).to_bytes(_LENGTH, "big") + data)
        if asking is not connection:
            callers[status] = pid
            asking.close()


def _requested(asking: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """What shall be run, its streams, and where to write its exit code: into a pipe that came
    along, else into the connection.

    Raises EOFError if nothing more comes.
    """
    length, fds, _, _ = socket.recv_fds(asking, _LENGTH, _STREAMS + 1)
    if not length:
        raise EOFError
    request = json.loads(_exactly(asking, int.from_bytes(length, "big")))
    return request, fds if len(fds) > _STREAMS else [*fds, os.dup(asking.fileno())]


def _go_on(number: int, frame: object) -> None:
    """The byte that the signal writes is enough."""


def _tell_ends(statuses: dict[int, int]) -> None:
    """Write the exit code of each child that has ended into its pipe."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        pipe = statuses.pop(pid)
        with suppress(BrokenPipeError):
            os.write(pipe, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(pipe)


def _become(request: dict[str, Any], streams: Sequence[int]) -> None:
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # TMPDIR is read again
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
    sys.argv = [request["program"], *request["arguments"]]


def run_command() -> int:
    """Run the command. Return its exit code."""
    try:
        if sys.argv[0].endswith(".py"):
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
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


def serve(sockets: Sequence[str], load: Callable[[], None], run: Callable[[], int]) -> None:
    """Load once, and run in each child; `run` returns its exit code.

    `sockets`: their numbers, as `ForkServer` passes them. Does not return.
    """
    load()
    gc.collect()
    gc.freeze()
    collapse()
    connection, listening = (socket.socket(fileno=int(number)) for number in sockets)
    _serve(connection, listening)
    _end(run())


def _load() -> None:
    for name in sys.argv[3:] or _PRELOADED:
        __import__(name)


if __name__ == "__main__":
    serve(sys.argv[1:3], _load, run_command)
