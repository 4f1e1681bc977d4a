"""Liveness of a run's driver, for readers of the tables.

Each database has its own evidence: file locks or leases. Entry points: `Alive`, `Members`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from math import ceil
from typing import NamedTuple, Protocol, TypeAlias

from treadle.errors import AgentError
from treadle.journal.tables.database import Cursor


class Process(NamedTuple):
    """Process of a living worker, as it described itself."""

    pid: int | None
    host: str | None
    """Host name; None if an older version wrote none."""
    lease_s: float | None = None
    """Seconds for which it still counts as living after its death, unless a process on this host
    detects the death.
    """

    @property
    def named(self) -> str:
        """Display name of the process: only its id if it is on this machine."""
        number = "unknown" if self.pid is None else str(self.pid)
        return number if self.host in (None, socket.gethostname()) else f"{number} on {self.host}"


def is_driven(run_id: str, process: Process) -> AgentError:
    """Return the error for an attempt to drive a run that `process` is driving."""
    reason = (
        f"run {run_id} is being driven by process {process.named}: wait for its end, or stop it "
        f"with `treadle runs kill {run_id}`"
    )
    if process.lease_s is not None:
        lasts = f"its lease ends in {max(ceil(process.lease_s), 1)} s"
        reason += (
            f". If that process has died, {lasts}, and the run can be resumed then: `treadle "
            f"runs resume {run_id} --wait` waits for that"
        )
    return AgentError("busy", reason)


Alive: TypeAlias = Callable[[Cursor, "str | None"], "Process | None"]
"""Function that returns the process of a living worker; None for a dead one, or if there is
none.
"""


class Members(Protocol):
    """Processes that share a journal, including this one."""

    @property
    def needs_lease(self) -> bool:
        """True if living processes must renew a lease."""
        ...

    def register(self) -> str:
        """Register this process and return its id, which does not change. The first call blocks.
        Raises AgentError.
        """
        ...

    def living(self, db: Cursor, /) -> list[str]:
        """Return the ids of living processes, including this one once it has registered."""
        ...

    def of(self, db: Cursor, worker: str | None, /) -> Process | None:
        """Return the process of a worker, as `Alive` does."""
        ...
