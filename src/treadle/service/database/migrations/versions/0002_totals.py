"""Usage and reservations of all users together, and creation times of accounts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_index("ix_account_created_at", "account", ["created_at"])
    op.create_table("spentbyall", sa.Column("day", sa.Date, primary_key=True), *_amounts())
    op.create_table(
        "reserved",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("day", sa.Date, nullable=False),
        *_amounts(),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )


def _amounts() -> tuple[sa.Column[int], sa.Column[float]]:
    return sa.Column("tokens", sa.BigInteger, nullable=False), sa.Column(
        "cost_usd", sa.Float, nullable=False
    )
