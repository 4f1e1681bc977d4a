"""A server in a process of its own, which says its address when it is ready and ends when its stdin
does.

Which servers there are is conftest.py's. Entry: `serving`.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+")
READY_WITHIN_S = 30


@contextmanager
def serving(command: Sequence[str | Path], log: Path) -> Iterator[str]:
    """Its address. What it prints beside it goes to `log`."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT", "SSL_CERT_FILE")
    }
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, env=plain
        )
    with process:
        try:
            yield _address(process, log)
        finally:
            assert process.stdin is not None, "it is a pipe"
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None, "it is a pipe"
    out, until = b"", time.monotonic() + READY_WITHIN_S
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while (found := ADDRESS.search(out)) is None:
            if not ready.select(max(until - time.monotonic(), 0)):
                raise AssertionError(
                    f"{process.args!r} said no address within {READY_WITHIN_S} s: {out!r} {log.read_text(errors='replace')}"
                )
            if not (more := os.read(process.stdout.fileno(), 65536)):
                raise AssertionError(
                    f"{process.args!r} ended before it served: {out!r} {log.read_text(errors='replace')}"
                )
            out += more
    return found[0].decode()
