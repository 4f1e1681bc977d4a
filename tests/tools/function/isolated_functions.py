"""Functions for test_isolate.py, in a module of their own so that the processes import little."""

from __future__ import annotations

import atexit
import datetime as dt
import enum
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from treadle.tools.function import tool
from treadle.tools.tool import InvalidArguments, ToolDone, ToolFailed


class Colour(enum.Enum):
    RED = "red"


@tool(isolate="process", effect="pure")
def ends() -> ToolDone:
    return ToolDone({"number": 7})


@tool(isolate="process", effect="pure")
def where(word: str = "", numbers: list[float] | None = None) -> dict[str, Any]:
    """Tells of its process."""
    return {
        "word": word,
        "numbers": numbers,
        "pid": os.getpid(),
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "name": __name__,
        "pydantic": "pydantic" in sys.modules,
        "stdin": sys.stdin.read(),
    }


@tool(isolate="process")
def typed(day: dt.date, path: Path, colour: Colour = Colour.RED) -> list[str]:
    return [type(day).__name__, type(path).__name__, type(colour).__name__, str(day)]


@tool(isolate="process")
def loud(megabytes: int) -> str:
    print("an answer?\x1e{}\n")
    os.write(1, b'{"text": "not this"}\n')
    for _ in range(megabytes):
        sys.stderr.write("x" * 1_000_000)
        sys.stdout.write("y" * 1_000_000)
    subprocess.run(["echo", "from a child"], check=True)
    return "this"


@tool(isolate="process")
def nothing() -> None: ...


@tool(isolate="process")
def maybe() -> str | None: ...


@tool(isolate="process")
def picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n"


@tool(isolate="process")
def half_a_surrogate() -> str:
    return "\ud800"


@tool(isolate="process")
def own_pid() -> int:
    return os.getpid()


@tool(isolate="process")
def fails(how: str) -> str:
    match how:
        case "value":
            raise ValueError("no such thing")
        case "exit":
            sys.exit(3)
        case "tool":
            raise ToolFailed("half done", happened=None)
        case "arguments":
            raise InvalidArguments("give more")
        case "mute":
            raise Mute
        case _:
            return object()


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@tool(isolate="process")
def dies(how: str) -> str:
    print("last words", flush=True)
    match how:
        case "exit":
            os._exit(7)
        case "signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "unnamed":
            os.kill(os.getpid(), signal.SIGRTMIN + 5)
        case _:
            os.closerange(3, 100)
    time.sleep(60)
    return ""


@tool(isolate="process")
def huge() -> str:
    return "x" * (33 * 1024 * 1024)


@tool(isolate="process")
def hangs(fifo: str) -> str:
    """Holds the pipe open together with a child, and never ends."""
    _leave_a_child(fifo)
    time.sleep(600)
    return ""


@tool(isolate="process")
def leaves_a_child(fifo: str) -> str:
    _leave_a_child(fifo)
    return "left"


def _leave_a_child(fifo: str) -> None:
    pipe = os.open(fifo, os.O_WRONLY)
    subprocess.Popen(["sleep", "600"], pass_fds=[pipe])
    os.write(pipe, b"up")


@tool(isolate="process")
def leaves_a_thread() -> str:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return "left"


@tool(isolate="process")
def cleans_up(file: str) -> str:
    atexit.register(Path(file).write_text, "clean")
    return "ran"


@tool(isolate="process", effect="once")
def loses_the_line() -> str:
    """Translates an exception."""
    try:
        raise TimeoutError("read")
    except TimeoutError as e:
        raise ToolFailed("The bank did not answer.") from e


@tool(isolate="process", effect="once")
def refuses_plainly() -> str:
    """Refuses before anything is done."""
    raise ToolFailed("At most 100.")
