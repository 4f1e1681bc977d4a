"""Statements that are built once serve every scope, each its own rows; rows that nobody looks at
afterwards are written in their scope only.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import bindparam, select, update
from sqlmodel import Session

from tests.service.database.people import ADA, BOB
from treadle.apps.assistant.tables import Task
from treadle.service.database.database import Database
from treadle.service.database.guard import execute, insert_row
from treadle.service.database.scope import Scope
from treadle.service.database.statements import OutOfScope
from treadle.service.database.tables import Spent
from treadle.types import now

TITLED = select(Task.user_id).where(Task.title != bindparam("not_this"))
RENAMED = update(Task).values(title=bindparam("new")).execution_options(synchronize_session=False)
ROW = {"id": "new", "day": now().date(), "tokens": 1, "cost_usd": 0.0}


WAYS = pytest.mark.parametrize("way", [Session.execute, execute], ids=["session", "guard"])


@WAYS
@pytest.mark.parametrize(
    "more", [{}, {"treadle_scope": "bob"}], ids=["as it is", "with another's id"]
)
async def test_one_statement_serves_two_people(
    furnished_database: Database, more: dict[str, Any], way: Any
) -> None:

    def seen(session: Session) -> set[str]:
        return {row.user_id for row in way(session, TITLED, {"not_this": "", **more})}

    for _ in range(2):
        assert await furnished_database.run(ADA, seen) == {"ada"}
        assert await furnished_database.read(BOB, seen) == {"bob"}


@WAYS
async def test_one_update_changes_the_rows_of_whoever_runs_it(
    furnished_database: Database, way: Any
) -> None:
    for scope, title in ((ADA, "of ada"), (BOB, "of bob")):
        await furnished_database.run(
            scope,
            lambda session, title=title: way(
                session, RENAMED, {"new": title, "treadle_scope": "ada"}
            ),
        )  # type: ignore[misc]
    for scope, title in ((ADA, "of ada"), (BOB, "of bob")):
        assert await furnished_database.read(
            scope, lambda session: {*session.scalars(select(Task.title))}
        ) == {title}


@WAYS
async def test_what_was_looked_at_in_a_scope_is_refused_without_one(
    database: Database, way: Any
) -> None:
    await database.run(ADA, lambda session: way(session, TITLED, {"not_this": ""}))
    with pytest.raises(OutOfScope):
        await database.run_unscoped(lambda session: way(session, TITLED, {"not_this": ""}))


@WAYS
async def test_a_shared_update_is_refused_while_reading(database: Database, way: Any) -> None:
    with pytest.raises(OutOfScope, match="read-only"):
        await database.read(ADA, lambda session: way(session, RENAMED, {"new": "taken"}))


async def test_a_shared_statement_sees_rows_that_were_just_added(database: Database) -> None:
    def work(session: Session) -> list[str]:
        session.add(Task(user_id="ada", title="new"))
        return [row.user_id for row in execute(session, TITLED, {"not_this": ""})]

    assert await database.run(ADA, work) == ["ada"]


async def test_rows_are_not_changed_one_by_one_by_their_keys(furnished_database: Database) -> None:
    with pytest.raises(OutOfScope):
        await furnished_database.run(
            ADA,
            lambda session: session.execute(update(Task), [{"id": "Task-bob", "title": "taken"}]),
        )


async def test_a_row_is_written_as_the_scopes_own(database: Database) -> None:
    await database.run(ADA, lambda session: insert_row(session, Spent, ROW))
    assert await database.read(
        ADA, lambda session: [row.user_id for row in session.scalars(select(Spent))]
    ) == ["ada"]
    assert await database.read(BOB, lambda session: session.scalars(select(Spent)).all()) == []


@pytest.mark.parametrize(
    ("scope", "reads", "more"),
    [(ADA, True, {}), (ADA, False, {"user_id": "bob"}), (None, False, {}), (None, True, {})],
)
async def test_a_row_is_written_in_no_other_way(
    database: Database, scope: Scope | None, reads: bool, more: dict[str, Any]
) -> None:
    def work(session: Session) -> None:
        insert_row(session, Spent, ROW | more)

    transaction = database.read if reads else database.run
    without = database.read_unscoped if reads else database.run_unscoped
    with pytest.raises(OutOfScope):
        await (without(work) if scope is None else transaction(scope, work))


@WAYS
async def test_a_parameter_gives_no_row_away(furnished_database: Database, way: Any) -> None:
    for values in (
        {"new": "x", "user_id": "bob"},
        {"new": "x", "id": "Task-bob", "user_id": "bob"},
    ):
        with pytest.raises(OutOfScope, match="owner"):
            await furnished_database.run(
                ADA, lambda session, values=values: way(session, RENAMED, values)
            )  # type: ignore[misc]
