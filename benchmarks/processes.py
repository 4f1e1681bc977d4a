"""Processes of a benchmark: the mock model's server, one runner for each measurement, and fresh
starts of a command.

rows.py defines the measurements, run.py prints them. Entry point: `Bench`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).resolve().parent
FLOORS = HERE.parent.parent / "shared" / "bench"
"""The hand-written loops and the mock model, in a folder beside the checkout."""
LOOP_ALONE = "treadle-loop"
"""The one peer that needs no server."""
TIMEOUT_S = 300.0


class Skipped(Exception):
    """A measurement that is not possible here, with the reason."""


class Failed(Exception):
    """A measurement that was made, and in which something went wrong."""


class Bench:
    """A context manager that keeps the mock server running."""

    def __init__(self, *, pin: bool) -> None:
        self._cores = sorted(os.sched_getaffinity(0))[:2] if pin and sys.platform == "linux" else []
        self._server: subprocess.Popen[str] | None = None
        self._port = 0
        self._home = tempfile.TemporaryDirectory(prefix="treadle-bench-")

    @property
    def pinned(self) -> bool:
        return len(self._cores) == 2

    def __enter__(self) -> Self:
        if self.pinned:
            # children inherit it; the server is moved away
            os.sched_setaffinity(0, {self._cores[0]})
        return self

    def __exit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait()
            if self._server.stdout is not None:
                self._server.stdout.close()
        self._home.cleanup()
        if self.pinned:
            os.sched_setaffinity(0, set(self._cores))

    # ------------------------------------------------------------ runners

    def reps(self, peer: str, *arguments: str) -> list[dict[str, Any]]:
        """Run one runner process, and return what it prints for each repetition. Raises Skipped or
        Failed.
        """
        runner, *own = _runner(peer)
        if not runner.is_file():
            raise Skipped(f"the folder shared/bench has no {runner.name}")
        argv = [sys.executable, str(runner), *own, *arguments]
        if peer != LOOP_ALONE:
            argv += ["--port", str(self.serve())]
        env = {
            **os.environ,
            "FLOOR": peer,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",
        }
        done = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            raise Failed(_last_line(done.stderr))
        return json.loads(done.stdout.splitlines()[-1])["reps"]

    def serve(self) -> int:
        """Return the port of the mock model; the first call starts it. Raises Skipped."""
        if not (FLOORS / "mock_llm.py").is_file():
            raise Skipped(
                "the folder shared/bench with the mock model and the floors is not beside this checkout"
            )
        if self._server is None:
            argv = [sys.executable, str(HERE / "mock.py")]
            self._server = subprocess.Popen(
                argv,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
            if self.pinned:
                os.sched_setaffinity(self._server.pid, {self._cores[1]})
            assert self._server.stdout is not None, "it is a pipe"
            self._port = int(self._server.stdout.readline())
        return self._port

    # ------------------------------------------------------------ fresh starts

    def start_cpu_s(self, argv: Sequence[str]) -> tuple[float, str]:
        """Return the CPU seconds of a whole process, and its output. Raises Failed."""
        before = _children_cpu_s()
        done = subprocess.run(
            argv,
            env=self._clean_env(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        spent = _children_cpu_s() - before
        if done.returncode:
            raise Failed(_last_line(done.stderr))
        return spent, done.stdout

    def first_request_cpu_s(self, argv: Sequence[str]) -> float:
        """Return the CPU seconds of a fresh process until its first request reaches the model's
        server.

        Raises Skipped or Failed.
        """
        if not Path("/proc/self/task").is_dir():
            raise Skipped("the CPU time of a process under way is only told by Linux's /proc")
        with _first_request() as (port, seen):
            env = self._clean_env() | {
                "ANTHROPIC_API_KEY": "sk-mock-key-of-the-benchmark",
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            }
            with subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                seen.pid = process.pid
                seen.ready.set()
                _, errors = process.communicate(timeout=TIMEOUT_S)
        if seen.cpu_s is None or process.returncode:
            raise Failed(
                _last_line(errors) or f"it ended with {process.returncode} and made no request"
            )
        return seen.cpu_s

    def _clean_env(self) -> dict[str, str]:
        """Return an environment without the user's configuration and without a proxy."""
        return {
            "HOME": self._home.name,
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "NO_PROXY": "*",
        }


def command() -> str:
    """Return the path of this environment's `treadle`. Raises Skipped."""
    path = Path(sys.executable).parent / "treadle"
    if not path.is_file():
        raise Skipped(
            f"there is no {path.name!r} command beside {Path(sys.executable).name!r}: install the project first"
        )
    return str(path)


def _runner(peer: str) -> tuple[Path, *tuple[str, ...]]:
    """Return the file that measures the peer, and its arguments. Floors are in shared/bench."""
    if peer.startswith("treadle"):
        return HERE / "treadle_runner.py", peer
    name = "llhttp_floor.py" if peer.startswith("floor_f_") else "floors.py"
    return (FLOORS / "runners" / name,)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


# ---------------------------------------------------------------- a server that looks at its client


class _Seen:
    """Facts about the client process, as its requests show them to the server."""

    def __init__(self) -> None:
        self.pid = 0
        self.ready = threading.Event()
        self.cpu_s: float | None = None


@contextlib.contextmanager
def _first_request() -> Generator[tuple[int, _Seen]]:
    """Run a model on loopback that records, at its first request, the CPU time of its client."""
    seen = _Seen()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.ready.wait(TIMEOUT_S)
            if seen.cpu_s is None:
                seen.cpu_s = _cpu_s_of(seen.pid)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(_ANSWER)))
            self.end_headers()
            self.wfile.write(_ANSWER)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: standard error is for the reader of the table."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], seen
        finally:
            server.shutdown()
            thread.join()


_ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "mock",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
).encode()


def _cpu_s_of(pid: int) -> float:
    """Return the CPU seconds of all threads of a live process, from the kernel scheduler's
    nanoseconds.
    """
    spent_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            spent_ns += int((thread / "schedstat").read_text().split()[0])
    return spent_ns / 1e9
