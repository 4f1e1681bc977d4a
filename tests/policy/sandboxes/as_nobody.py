"""Tries every escape as the user `nobody`, and says what was not held.

A program of its own: it gives its rights up for good.
"""

from __future__ import annotations

import os
import sys
import unicodedata  # noqa: F401  imported where a path is not ASCII, when the interpreter's files may be out of reach
from pathlib import Path

import anyio

from treadle.policy.sandboxes.bubblewrap import Bubblewrap
from treadle.policy.sandboxes.escapes import ATTEMPTS, try_escape


def main(program: str, base: Path) -> None:
    anyio.run(anyio.sleep, 0)  # what an event loop needs is imported while we still may read it
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    os.chdir(base)
    os.environ["HOME"] = str(base)
    sandbox = Bubblewrap(program)
    standing = anyio.run(sandbox.standing)
    assert standing.works, standing.text
    for attempt in ATTEMPTS:
        if not (attempt.as_root or attempt.grouped) and (
            escaped := try_escape(sandbox, attempt, base)
        ):
            print(f"{attempt.name}: {escaped}")
            return
    print("all were held")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
