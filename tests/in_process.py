"""`treadle` in the process of the tests, for commands whose subject is not the process itself.

A command costs 5 to 15 ms of CPU here; a child of the fork server costs 30 to 50, most of them for
the pages that a child copies. Entry: `is_possible`, `run`.
"""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from treadle.cli import main

_IS_READ_AT_START = ("LANG", "LC_", "PYTHON", "TREADLE_CRASH_AT", "TZ")
_PIPE_BYTES = 4096
"""So much always fits into a pipe."""


def is_possible(environment: Mapping[str, str]) -> bool:
    """Whether a command with these variables can run here: in the main thread, which signals reach,
    and outside of an event loop.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return not any(name.startswith(_IS_READ_AT_START) for name in environment)
    return False


def run(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: bytes | None
) -> tuple[int, bytes, bytes]:
    """Return the exit code, standard output and standard error.

    File descriptors 0 to 2 are replaced, so that the programs which a command starts write to the
    same place. All that a command may change of its process is put back.
    """
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        for change in (
            _environment(environment),
            _folder(cwd),
            _signals(),
            _imports(cwd.parent),
            _streams(_input(stdin), out.fileno(), err.fileno()),
            _loggers(),
        ):
            stack.enter_context(change)
        sys.argv = ["treadle", *arguments]
        code = contextvars.copy_context().run(_called)
        sys.stdout.flush()
        sys.stderr.flush()
        return code, _content(out), _content(err)


def _called() -> int:
    try:
        main()
    except SystemExit as e:
        if isinstance(e.code, int | None):
            return e.code or 0
        print(e.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _content(file: io.BufferedRandom) -> bytes:
    file.seek(0)
    return file.read()


def _input(data: bytes | None) -> int:
    """A descriptor that gives this data."""
    if data is None:
        return os.open(os.devnull, os.O_RDONLY)
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as stream:
            stream.write(data)

    if len(data) <= _PIPE_BYTES:
        write()
    else:
        threading.Thread(target=write, daemon=True).start()
    return reading


@contextmanager
def _environment(environment: Mapping[str, str]) -> Generator[None]:
    before, temporary = dict(os.environ), tempfile.tempdir
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    try:
        yield
    finally:
        tempfile.tempdir = temporary
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _folder(cwd: Path) -> Generator[None]:
    before = os.getcwd()
    os.chdir(cwd)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _signals() -> Generator[None]:
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def _imports(folder: Path) -> Generator[None]:
    """Forget the modules in the folder, which the next command would import again."""
    path, words, known = list(sys.path), sys.argv, set(sys.modules)
    try:
        yield
    finally:
        sys.path[:], sys.argv = path, words
        within = f"{folder}{os.sep}"
        for name in sys.modules.keys() - known:  # of thousands: asking each takes 10 ms
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(within):
                del sys.modules[name]
        for place in [place for place in sys.path_importer_cache if place.startswith(within)]:
            del sys.path_importer_cache[place]


@contextmanager
def _streams(*descriptors: int) -> Generator[None]:
    """Take the first one over, and leave the others open."""
    before = sys.stdin, sys.stdout, sys.stderr
    kept = [os.dup(number) for number in range(3)]
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.close(descriptors[0])
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    try:
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def _loggers() -> Generator[None]:
    """Without the handlers of pytest, as a process begins."""
    root = logging.getLogger()
    levels = {name: logger.level for name, logger in _known_loggers()}
    before, root.handlers = root.handlers, []
    level = root.level
    root.setLevel(logging.WARNING)
    err = sys.stderr
    try:
        yield
    finally:
        root.handlers = before
        root.setLevel(level)
        for name, logger in _known_loggers():
            logger.setLevel(levels.get(name, logging.NOTSET))
            logger.handlers = [
                handler
                for handler in logger.handlers
                if getattr(handler, "stream", None) is not err
            ]


def _known_loggers() -> list[tuple[str, logging.Logger]]:
    found = logging.getLogger().manager.loggerDict.items()
    return [(name, logger) for name, logger in found if isinstance(logger, logging.Logger)]
