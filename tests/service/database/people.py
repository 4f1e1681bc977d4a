"""Two users with a row in every owned table, so that any access across users is detected.

Entry points: `ADA`, `BOB`, `row_of`, `furnished`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from sqlmodel import Session

import treadle.apps.assistant.tables  # noqa: F401  its tables have to be known before they are listed
from treadle.service.database.database import Database
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import ChatMessage, Owned

ADA = Scope(Identity("ada", "caller"))
BOB = Scope(Identity("bob", "caller"))
TABLES: tuple[type[Owned], ...] = tuple(Owned.__subclasses__())
AT = datetime(2026, 11, 20, tzinfo=UTC)
BY_TYPE = {
    "str": "x",
    "int": 1,
    "float": 1.0,
    "date": date(2026, 11, 20),
    "datetime": AT,
    "bool": False,
}


def row_of(table: type[Owned], user_id: str) -> Any:
    """One with a value in each field that needs one; its key, and texts, have the user's name."""
    values: dict[str, Any] = {
        name: BY_TYPE[field.annotation.__name__]
        for name, field in table.model_fields.items()
        if field.is_required() and field.annotation
    }
    values |= {"user_id": user_id, key_of(table): f"{table.__name__}-{user_id}"}
    if table is ChatMessage:
        values["conversation_id"] = f"Conversation-{user_id}"
    return table(**values)


def key_of(table: type[Owned]) -> str:
    return str(next(iter(table.__table__.primary_key)).name)  # type: ignore[attr-defined]


async def furnished(database: Database) -> None:
    def furnish(session: Session, user_id: str) -> None:
        for table in sorted(TABLES, key=lambda each: each is ChatMessage):
            session.add(row_of(table, user_id))
            session.flush()

    await database.run(ADA, lambda session: furnish(session, "ada"))
    await database.run(BOB, lambda session: furnish(session, "bob"))
