"""A standby server of a `ChaosServer`, over streaming replication. Entry: `Standby`."""

from __future__ import annotations

import time
from typing import Final

from tests.crash.postgres import ChaosServer

PATIENCE_S: Final = 60.0


class Standby(ChaosServer):
    """A context: a copy of the primary that follows it until it is stopped or promoted."""

    def __init__(self, primary: ChaosServer) -> None:
        super().__init__()
        self._primary = primary

    def _initialize(self) -> None:
        self._make_folders()
        source = str(self._primary.folder / "socket")
        self._run("pg_basebackup", "-h", source, "-U", "postgres", "-R", "-c", "fast", "--no-sync")
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(f"\nunix_socket_directories = '{self.folder / 'socket'}'\n")

    def catch_up(self) -> None:
        """Return once it has replayed all that the primary has committed so far."""
        ((end,),) = self._primary.sql("select pg_current_wal_flush_lsn()::text")
        deadline = time.monotonic() + PATIENCE_S
        while self.sql(f"select pg_last_wal_replay_lsn() >= '{end}'::pg_lsn") != [(True,)]:
            assert time.monotonic() < deadline, "the standby does not follow"

    def promote(self) -> None:
        """Make it the primary. The caller has ended the one before."""
        self._run("pg_ctl", "-w", "-s", "promote")
