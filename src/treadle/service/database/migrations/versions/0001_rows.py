"""The first tables and, on PostgreSQL, the policies that isolate users."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

OWNED = ("task", "change", "confirmation", "conversation", "chatmessage", "servedrun", "spent")


def upgrade() -> None:
    _who()
    _tasks()
    _changes()
    _conversations()
    _runs()
    if op.get_bind().dialect.name == "postgresql":
        for table in OWNED:
            _keep_apart(table)


def _who() -> None:
    op.create_table(
        "account",
        _id(),
        _text("username", 64, unique=True),
        _text("password_hash", 256),
        _time("created_at"),
    )
    op.create_table(
        "login",
        _id(),
        sa.Column(
            "account_id",
            sa.String(36),
            sa.ForeignKey("account.id", ondelete="CASCADE"),
            nullable=False,
            index=True,
        ),
        _text("refresh_hash", 64),
        _time("created_at"),
        _time("expires_at"),
        _time("revoked_at", nullable=True),
    )


def _tasks() -> None:
    op.create_table(
        "task",
        _user_id(),
        _id(),
        _text("title", 200),
        _text("description", 2000, nullable=True),
        sa.Column("completed", sa.Boolean, nullable=False),
        _text("priority", 6),
        sa.Column("due", sa.Date),
        _time("created_at"),
        _time("updated_at"),
        _time("deleted_at", nullable=True),
    )
    op.create_index("task_of_user", "task", ["user_id", "deleted_at", "created_at"])


def _changes() -> None:
    op.create_table(
        "change",
        _user_id(),
        _id(),
        _time("at"),
        _text("tool", 32),
        _text("key", 200, nullable=True),
        _text("run_id", 64, nullable=True),
        sa.Column("by_person", sa.Boolean, nullable=False),
        _json("before"),
        _json("result"),
        _time("undone_at", nullable=True),
        sa.UniqueConstraint("user_id", "key"),
    )
    op.create_index("change_of_user", "change", ["user_id", "at"])
    op.create_index("change_of_run", "change", ["user_id", "run_id"])
    op.create_table(
        "confirmation",
        _user_id(),
        _id(),
        _text("conversation_id", 64, nullable=True),
        _text("run_id", 64, nullable=True),
        _text("tool", 32),
        _text("verb", 16),
        _json("items"),
        _json("arguments"),
        _text("phrase", 64),
        _text("code_hash", 64, nullable=True, index=True),
        _time("created_at"),
        _time("expires_at"),
        _time("closed_at", nullable=True),
        _text("granted_run_id", 64, nullable=True, index=True),
    )
    op.create_index(
        "confirmation_of_user", "confirmation", ["user_id", "conversation_id", "created_at"]
    )


def _conversations() -> None:
    op.create_table(
        "conversation",
        _user_id(),
        _id(),
        _text("title", 120),
        _time("created_at"),
        _time("updated_at"),
    )
    op.create_index("conversation_of_user", "conversation", ["user_id", "updated_at"])
    op.create_table(
        "chatmessage",
        _user_id(),
        _id(),
        sa.Column(
            "conversation_id",
            sa.String(36),
            sa.ForeignKey("conversation.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("number", sa.Integer, nullable=False),
        _text("role", 9),
        sa.Column("content", sa.Text, nullable=False),
        _json("tool_calls"),
        _text("run_id", 64, nullable=True),
        _time("created_at"),
    )
    op.create_index("message_of_conversation", "chatmessage", ["conversation_id", "number"])
    op.create_index("message_of_run", "chatmessage", ["user_id", "run_id"])


def _runs() -> None:
    op.create_table(
        "servedrun",
        _user_id(),
        _text("run_id", 64, primary_key=True),
        _text("agent", 64),
        _text("conversation_id", 36, nullable=True),
        _text("journal", 64),
        _time("created_at"),
        _time("finished_at", nullable=True),
    )
    op.create_index("run_of_user", "servedrun", ["user_id", "created_at"])
    op.create_index(
        "run_of_conversation", "servedrun", ["user_id", "conversation_id", "created_at"]
    )
    op.create_table(
        "spent",
        _user_id(),
        _id(),
        sa.Column("day", sa.Date, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("cost_usd", sa.Float, nullable=False),
        sa.UniqueConstraint("user_id", "day"),
    )


def _keep_apart(table: str) -> None:
    """Restrict reads and writes to rows of the transaction's user; without a user, to none. Also
    applies to the owner of the table.
    """
    own = "user_id = current_setting('treadle.user_id', true)"
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY own_rows ON {table} USING ({own}) WITH CHECK ({own})")


# ---------------------------------------------------------------- columns


def _id() -> sa.Column[str]:
    return sa.Column("id", sa.String(36), primary_key=True)


def _user_id() -> sa.Column[str]:
    return _text("user_id", 64)


def _text(name: str, chars: int, *, nullable: bool = False, **more: Any) -> sa.Column[str]:
    return sa.Column(name, sa.String(chars), nullable=nullable, **more)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _json(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.JSON, nullable=False)
