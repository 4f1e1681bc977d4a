"""Database tables. Those of users inherit from `Owned`; identities are in `Account` and `Login`,
which have no owner.

migrations/ creates them. Entry points: `Owned` and the tables.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, ClassVar
from uuid import uuid4

from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    Index,
    MetaData,
    Text,
    TypeDecorator,
    UniqueConstraint,
    event,
    inspect,
)
from sqlmodel import Field, SQLModel

from treadle.errors import AgentError
from treadle.types import now

METADATA = MetaData()
"""Our own metadata, separate from an application's SQLModel tables."""
ANOTHER = "give Treadle its own SQLite file or PostgreSQL schema (postgresql://…?schema=treadle)"


@event.listens_for(METADATA, "before_create")
def _refuse_tables_of_others(metadata: MetaData, connection: Connection, **_: object) -> None:
    """Raise AgentError(invalid) for an existing table without our columns. `create_all` skips
    existing tables.
    """
    there = inspect(connection)
    for name, table in metadata.tables.items():
        if there.has_table(name) and (
            lacking := {*table.columns.keys()}
            - {column["name"] for column in there.get_columns(name)}
        ):
            raise AgentError(
                "invalid",
                (
                    f"the table {name!r} of this database belongs to another application (it has "
                    "no "
                    f"{', '.join(sorted(lacking))}): {ANOTHER}"
                ),
            )


class UtcTime(TypeDecorator[datetime]):
    """Column type for times with a zone, even in databases that store none."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)


def new_row_id() -> str:
    """Return an unguessable id."""
    return str(uuid4())


def new_row_time() -> datetime:
    """Return the current time.

    Pydantic inspects the signature of a default factory for each row: 10 µs for a function, 180 µs
    for `now`, which is a partial of a built-in method (pydantic 2.14).
    """
    return now()


def new_list() -> list[Any]:
    """Return an empty list. Faster to inspect than `list`, as above."""
    return []


class Row(SQLModel):
    metadata: ClassVar[MetaData] = METADATA  # pyright: ignore[reportIncompatibleVariableOverride]  SQLModel's own way to have several


class Owned(Row):
    """Row of one user.

    Read and written only in that user's `Scope`: database.py refuses any other access.
    """

    user_id: str = Field(max_length=64)
    """Owner. First in an index of each table, because every query filters by it."""


# ---------------------------------------------------------------- accounts and logins


class Account(Row, table=True):
    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    username: str = Field(max_length=64, unique=True)
    """Name in NFKC and casefolded."""
    password_hash: str = Field(max_length=256)
    created_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime, index=True)
    registered_from: str | None = Field(default=None, max_length=64)
    """Keyed digest of the network that registered the account; None for accounts older than this
    column. It groups accounts and reveals no address.
    """


class Login(Row, table=True):
    """Sign-in that lasts until it is revoked or expires. Tokens name it."""

    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    account_id: str = Field(max_length=36, index=True, foreign_key="account.id", ondelete="CASCADE")
    refresh_hash: str = Field(max_length=64)
    """SHA-256 of the valid refresh token."""
    refreshed_at: datetime | None = Field(default=None, sa_type=UtcTime)
    """Time at which this token replaced the previous one; None for the first token."""
    created_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)
    expires_at: datetime = Field(sa_type=UtcTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcTime)


# ---------------------------------------------------------------- conversations and runs


class Conversation(Owned, table=True):
    __table_args__ = (
        Index("conversation_of_user", "user_id", "updated_at"),
        Index("conversation_of_one_user", "user_id", "id", unique=True),
    )

    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    title: str = Field(default="", max_length=120)
    created_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)
    updated_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)


class ChatMessage(Owned, table=True):
    __table_args__ = (
        Index("message_of_conversation", "conversation_id", "number"),
        Index("message_of_run", "user_id", "run_id"),
        ForeignKeyConstraint(
            ["user_id", "conversation_id"],
            ["conversation.user_id", "conversation.id"],
            name="message_in_own_conversation",
            ondelete="CASCADE",
        ),
    )

    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    conversation_id: str = Field(max_length=36)
    number: int
    """Position in the conversation, from 1 without gaps."""
    role: str = Field(max_length=9)
    """`user` or `assistant`."""
    content: str = Field(sa_type=Text)
    tool_calls: list[dict[str, Any]] = Field(default_factory=new_list, sa_type=JSON)
    run_id: str | None = Field(default=None, max_length=64)
    created_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)


class ServedRun(Owned, table=True):
    """Run started over HTTP.

    Written before the run begins; the journal has its outcome.
    """

    __table_args__ = (
        Index("run_of_user", "user_id", "created_at"),
        Index("run_of_conversation", "user_id", "conversation_id", "created_at"),
        ForeignKeyConstraint(
            ["user_id", "conversation_id"],
            ["conversation.user_id", "conversation.id"],
            name="run_in_own_conversation",
            ondelete="CASCADE",
        ),
    )

    run_id: str = Field(primary_key=True, max_length=64)
    agent: str = Field(max_length=64)
    conversation_id: str | None = Field(default=None, max_length=36)
    journal: str = Field(default="", max_length=64)
    """Name of the journal that has the run; empty: unknown."""
    created_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcTime)


class Spent(Owned, table=True):
    """Usage of one user's runs on one UTC day."""

    __table_args__ = (UniqueConstraint("user_id", "day"),)

    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    day: date
    tokens: int = 0
    cost_usd: float = 0.0


# ---------------------------------------------------------------- totals of all users


class SpentByAll(Row, table=True):
    """Usage of all runs on one UTC day. A run that reserves its share locks the row."""

    day: date = Field(primary_key=True)
    tokens: int = Field(default=0, sa_type=BigInteger)
    cost_usd: float = 0.0


class Reserved(Row, table=True):
    """Remaining reservation of a run in progress, without its user."""

    run_id: str = Field(primary_key=True, max_length=64)
    day: date
    tokens: int = Field(sa_type=BigInteger)
    cost_usd: float
    expires_at: datetime = Field(sa_type=UtcTime)
    """Expiry, extended while the run is in progress. After it, a share whose run is in no known
    journal is free.
    """
    counted_tokens: int = Field(
        default=0, sa_type=BigInteger, sa_column_kwargs={"server_default": "0"}
    )
    counted_usd: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})
    """Usage of the run that was counted when it came to wait, before this reservation."""
