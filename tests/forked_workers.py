"""Workers of xdist that need not import the tests again: a process that has collected them forks
each. Entry: `ForkedWorkers`.

Importing all tests takes 10 CPU seconds; a worker that is forked needs two to collect them.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from tests import fork_server
from tests.fork_server import BARE, ForkServer, command_of, serve

SHARED = "treadle_fork_server"


class ForkedWorkers:
    """For the process that starts the workers. On Linux only."""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._shared: ForkServer | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config, specs: Iterable[Any]) -> None:
        """Have each local worker forked; execnet appends a program of Python to the words, which
        the child reads instead of executing it.
        """
        local = [spec for spec in specs if spec.popen and not spec.python]
        if not local or sys.platform != "linux":
            return
        params = config.invocation_params
        self._server = ForkServer(
            os.environ, "tests.forked_workers", [str(params.dir), *map(str, params.args)]
        )
        if config.option.all:  # of fewer tests, few need one
            self._shared = ForkServer(BARE)
        for spec in local:
            spec.python = shlex.join(command_of(self._server, "worker"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self._shared is not None:
            node.workerinput[SHARED] = self._shared.address

    def pytest_unconfigure(self) -> None:
        for server in (self._server, self._shared):
            if server is not None:
                server.close()


def share(config: pytest.Config) -> None:
    """In a worker: have its fork server forked from the one that all workers share."""
    fork_server.shared = getattr(config, "workerinput", {}).get(SHARED, "")


def _collect() -> None:
    """Import the tests, without a word: what is wrong with them, each worker finds itself."""
    folder, *arguments = sys.argv[3:]
    os.chdir(folder)
    said = os.dup(1), os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nothing, number)
    # without capture: some modules keep the stream that they find when they are imported
    pytest.main([*arguments, "-n0", "--collect-only", "-qq", "--capture=no"])
    for number, fd in zip((1, 2), said, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.close(nothing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the workers end for it, and then this one


def _work() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # as the program does that execnet starts workers with
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
    return 0


if __name__ == "__main__":
    serve(sys.argv[1:3], _collect, _work)
