"""Usage of a run that was counted before its current reservation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column(
        "reserved", sa.Column("counted_tokens", sa.BigInteger, nullable=False, server_default="0")
    )
    op.add_column(
        "reserved", sa.Column("counted_usd", sa.Float, nullable=False, server_default="0")
    )
