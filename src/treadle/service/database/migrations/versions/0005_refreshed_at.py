"""Time of a login's last refresh."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("login", sa.Column("refreshed_at", sa.DateTime(timezone=True)))
