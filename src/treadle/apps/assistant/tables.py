"""The tables of tasks.

The first version of the service's migrations creates them (service/database/migrations). Entry
points: `Task`, `Change`, `Confirmation`.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import JSON, Index, UniqueConstraint
from sqlmodel import Field

from treadle.service.database.tables import (
    Owned,
    UtcTime,
    new_list,
    new_row_id,
    new_row_time,
)


class Task(Owned, table=True):
    __table_args__ = (Index("task_of_user", "user_id", "deleted_at", "created_at"),)

    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    title: str = Field(max_length=200)
    description: str | None = Field(default=None, max_length=2000)
    completed: bool = False
    priority: str = Field(default="Medium", max_length=6)
    due: date | None = None
    created_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)
    updated_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcTime)
    """Time of soft deletion: `undo` restores the task for 30 days."""


class Change(Owned, table=True):
    """Change of tasks, for undo and idempotency."""

    __table_args__ = (
        UniqueConstraint("user_id", "key"),
        Index("change_of_user", "user_id", "at"),
        Index("change_of_run", "user_id", "run_id"),
    )

    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)
    tool: str = Field(max_length=32)
    key: str | None = Field(default=None, max_length=200)
    """Idempotency key of the call; None if it is not repeated."""
    run_id: str | None = Field(default=None, max_length=64)
    by_person: bool = False
    """True for the person's own action over HTTP, which does not count towards confirmation."""
    before: list[dict[str, Any]] = Field(default_factory=new_list, sa_type=JSON)
    """Snapshots of the tasks before the change; for a new task, only its id and a marker."""
    result: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    """Result of the call, as JSON."""
    undone_at: datetime | None = Field(default=None, sa_type=UtcTime)


class Confirmation(Owned, table=True):
    """Question to a person before a bulk or final change."""

    __table_args__ = (Index("confirmation_of_user", "user_id", "conversation_id", "created_at"),)

    id: str = Field(default_factory=new_row_id, primary_key=True, max_length=36)
    conversation_id: str | None = Field(default=None, max_length=64)
    """Conversation; None if asked at a plain MCP client, which answers with a code.

    There is no foreign key: `/v1`, and applications that keep conversations elsewhere, use ids that
    the table `conversation` does not have. `confirmations.forget` deletes its rows.
    """
    run_id: str | None = Field(default=None, max_length=64)
    """Run whose calls the question gathers."""
    tool: str = Field(max_length=32)
    verb: str = Field(max_length=16)
    items: list[str] = Field(default_factory=new_list, sa_type=JSON)
    """Ids of tasks."""
    arguments: list[dict[str, Any]] = Field(default_factory=new_list, sa_type=JSON)
    """Arguments of the held-back calls, in order."""
    phrase: str = Field(max_length=64)
    code_hash: str | None = Field(default=None, max_length=64, index=True)
    created_at: datetime = Field(default_factory=new_row_time, sa_type=UtcTime)
    expires_at: datetime = Field(sa_type=UtcTime)
    closed_at: datetime | None = Field(default=None, sa_type=UtcTime)
    """Time at which the question was answered, cancelled or replaced. An answer counts once."""
    granted_run_id: str | None = Field(default=None, max_length=64, index=True)
    """Run that may act once the person has confirmed."""
