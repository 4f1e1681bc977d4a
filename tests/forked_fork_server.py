"""A fork server that has nothing to import: it is forked by another one, which has. Its sockets are
its standard input and output. Entry: `ForkServer.forked`.
"""

from __future__ import annotations

import os
import sys

from tests.fork_server import run_command, serve

_KEPT = (sys.stdin, sys.stdout, sys.stderr)
"""Whoever drops them closes the streams of a child."""


def main() -> None:
    sockets = [str(os.dup(number)) for number in (0, 1)]
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    os.close(nothing)
    serve(sockets, lambda: None, run_command)


if __name__ == "__main__":
    main()
