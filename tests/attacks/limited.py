"""A command with 2 GiB of memory and few seconds of a processor: `python -m tests.attacks.limited
SECONDS PROGRAM ARGUMENTS`, for the module of a program. What has no end is killed there.

Entry: `limited`, which forks it.
"""

from __future__ import annotations

import resource
import runpy
import sys

from tests.fork_server import command

MEMORY_BYTES = 2 << 30


def limited(seconds: int, program: str, *arguments: str) -> list[str]:
    """Words of the command; see fork_server.py's `command`."""
    return command("tests.attacks.limited", str(seconds), program, *arguments)


if __name__ == "__main__":
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
