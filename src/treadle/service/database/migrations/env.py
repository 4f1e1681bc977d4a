"""Entry point for Alembic. Uses the connection, the transaction and the lock of migrating.py."""

from __future__ import annotations

from alembic import context

from treadle.service.database.migrating import VERSION_TABLE
from treadle.service.database.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
context.run_migrations()
