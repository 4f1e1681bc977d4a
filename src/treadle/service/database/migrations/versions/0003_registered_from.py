"""Network that registered an account, as a digest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("account", sa.Column("registered_from", sa.String(64)))
