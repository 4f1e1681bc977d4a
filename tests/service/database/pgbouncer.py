"""A real pgbouncer before a test server: each transaction may have another connection of the
server's. Entry: `Pooler`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

SETTINGS = {
    "auth_type": "any",
    "pool_mode": "transaction",
    "default_pool_size": "4",
    "max_client_conn": "200",
    "server_login_retry": "0.1",
    "log_connections": "0",
    "log_pooler_errors": "0",
    "log_stats": "0",
    "log_disconnections": "0",
}


def program() -> str | None:
    """Debian keeps it where only administrators look."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class Pooler:
    """A context. It listens on a Unix socket alone; may be killed and started again."""

    def __init__(self, server: Path, *, user: str = "nobody", **settings: str) -> None:
        """`server`: the folder of its socket.

        `user`: what it runs as where we are root, which it refuses. `settings`: of pgbouncer's own.
        """
        self._server = server
        self._user = user if os.geteuid() == 0 else None
        self._settings = SETTINGS | settings
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="treadle-pgb-"))
            )
            self.folder.chmod(0o755)  # that user has to enter it
            sockets = self.folder / "socket"
            sockets.mkdir(mode=0o755)
            if self._user is not None:
                shutil.chown(sockets, self._user)
            settings = {**self._settings, "unix_socket_dir": str(sockets), "listen_port": "6432"}
            databases = f"[databases]\n* = host={self._server} port=5432 user=postgres\n"
            (self.folder / "ini").write_text(
                databases
                + "[pgbouncer]\n"
                + "".join([f"{name} = {value}\n" for name, value in settings.items()])
            )
            self.start()
            stack.callback(self.kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start(self) -> None:
        """Returns once it takes connections."""
        found = program()
        assert found is not None, "whoever asks for it looked"
        command = [found, str(self.folder / "ini")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, user=self._user, cwd="/"
        )
        assert self._process.stderr is not None, "it is a pipe"
        for line in self._process.stderr:
            if b"process up" in line:
                return
        raise OSError(f"pgbouncer does not start: {self._process.wait()}")

    def kill(self) -> None:
        """With all connections."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            (self.folder / "socket" / ".s.PGSQL.6432").unlink(missing_ok=True)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder / 'socket'}&port=6432"
