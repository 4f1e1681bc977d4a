"""A process of its own that drives runs: one command a line, one answer a line.

`python -m tests.journal.postgres.driver URL LEASE_S`.
"""

from __future__ import annotations

import sys

import anyio

from tests.journal.processes import Driver
from tests.journal.runs import begun
from treadle.journal import open_journal


class PostgresDriver(Driver):
    async def once(self, run_id: str, call_id: str) -> str:
        return str(await self.writers[run_id].append([begun(call_id)]))


if __name__ == "__main__":
    driver = PostgresDriver(open_journal(sys.argv[1], lease_s=float(sys.argv[2])))
    anyio.run(driver.serve)
