"""The first lock: whatever shape a statement has, it sees and changes the rows of its scope, or is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    text,
    true,
    union_all,
    update,
)
from sqlalchemy import column as named_column
from sqlalchemy import table as named_table
from sqlalchemy.orm import DeclarativeBase, aliased, make_transient_to_detached
from sqlalchemy.orm import Session as PlainSession
from sqlmodel import Session

from tests.service.database.people import ADA, BOB, TABLES, key_of, row_of
from treadle.apps.assistant.tables import Task
from treadle.service.database.database import Database
from treadle.service.database.guard import GuardedSession, execute, scoped
from treadle.service.database.statements import OutOfScope
from treadle.service.database.tables import (
    METADATA,
    Account,
    ChatMessage,
    Conversation,
    Owned,
)

WAYS = pytest.mark.parametrize(
    "way",
    [Session.execute, lambda session, statement: execute(session, statement, {})],
    ids=["session", "guard"],
)
T: Any = Task.__table__  # type: ignore[attr-defined]
OTHER = aliased(Task)
TITLES = select(Task.user_id).subquery()

NARROWED: dict[str, Any] = {
    "entity": select(Task),
    "columns": select(Task.user_id),
    "alias": select(OTHER.user_id),
    "alias of a subquery": select(aliased(Task, select(Task).subquery())),
    "subquery": select(TITLES.c.user_id),
    "cte": select(select(Task.user_id).cte().c.user_id),
    "union": union_all(select(Task.user_id), select(Conversation.user_id)),
    "join": select(Conversation.user_id, Task.user_id).join(Task, Task.id != Conversation.id),
    "joined to itself": select(Task.user_id, OTHER.user_id).join(OTHER, OTHER.title != ""),
    "joined to itself outside": select(Task.user_id, OTHER.user_id).outerjoin(OTHER, true()),
    "alias joined": select(Conversation.user_id, OTHER.user_id)
    .select_from(Conversation)
    .join(OTHER, true()),
    "join on": select(ChatMessage.user_id).join(Conversation, Conversation.id != ChatMessage.id),
    "in": select(Conversation.user_id).where(Conversation.user_id.in_(select(Task.user_id))),
    "exists": select(Conversation.user_id).where(exists().where(Task.user_id == "bob")),
    "scalar": select(Conversation.user_id, select(func.max(Task.user_id)).scalar_subquery()),
    "function": select(func.max(Task.user_id)),
    "or": select(Task.user_id).where((Task.user_id == "bob") | (Task.user_id != "bob")),
    "filtered to another": select(Task.user_id).where(Task.user_id == "bob"),
    "bare column of a named class": select(Task.user_id).where(T.c.title != ""),
    "locked": select(Task.user_id).with_for_update(),
}
COUNTED: dict[str, Any] = {
    "count": select(func.count()).select_from(Task),
    "count where": select(func.count()).where(Task.title != ""),
    "count of a subquery": select(func.count()).select_from(TITLES),
    "count beside an account": select(func.count(Task.id)).where(
        ~exists().where(Account.id == "none")
    ),
}
REFUSED: dict[str, Any] = {
    "text": text("SELECT * FROM task"),
    "text in a condition": select(Task).where(text("1=1 or 1=1")),
    "text as a statement": select(Task).from_statement(text("SELECT * FROM task")),
    "text beside accounts": select(Account).where(text("1=1")),
    "literal": select(literal_column("(select max(title) from task)")),
    "table": select(T.c.title),
    "table by its name": select(named_table("task", named_column("user_id")).c.user_id),
    "table by its name in another case": select(named_column("user_id")).select_from(
        named_table("TASK")
    ),
    "table of another's metadata": select(
        Table("task", MetaData(), Column("user_id", Text)).c.user_id
    ),
    "table's alias": select(T.alias().c.title),
    "table in a subquery": select(select(T.c.title).subquery().c.title),
    "table's subquery beside an entity": select(
        Conversation.id, select(T.c.title).subquery().c.title
    ),
    "table in a condition": select(Conversation).where(Conversation.id.in_(select(T.c.id))),
    "table joined": select(Conversation.id).join(T, T.c.title != ""),
    "bare column beside an alias": select(OTHER.user_id).where(T.c.title != ""),
    "bare column in a subquery": select(Task.user_id).where(
        exists(select(T.c.id).where(T.c.title == "b"))
    ),
    "window": select(func.row_number().over(order_by=Task.title)),
    "insert": insert(Task).values(row_of(Task, "ada").model_dump()),
    "insert into a table": insert(T).values(row_of(Task, "ada").model_dump()),
    "insert from select": insert(Account).from_select(["id"], select(Task.id)),
    "update of a table": update(T).values(title="x"),
    "update of another table's match": update(Conversation)
    .where(Task.title == "x")
    .values(title="x"),
    "update of an account by a task": update(Account).where(Task.title == "x").values(username="x"),
    "delete of a table": delete(T),
    "a row given away": update(Task).values(user_id="bob"),
    "a row given away, by column": update(Task).values({Task.user_id: "bob"}),
    "a row given away, in order": update(Task).ordered_values((Task.user_id, "bob")),
}


@WAYS
@pytest.mark.parametrize("statement", NARROWED.values(), ids=NARROWED)
async def test_a_statement_sees_the_rows_of_its_scope(
    furnished_database: Database, statement: Any, way: Any
) -> None:
    rows = await furnished_database.run(
        ADA, lambda session: [str(row) for row in way(session, statement)]
    )
    assert not [row for row in rows if "bob" in row]
    assert rows or statement in (NARROWED["exists"], NARROWED["filtered to another"])


@WAYS
@pytest.mark.parametrize("statement", COUNTED.values(), ids=COUNTED)
async def test_what_is_counted_is_the_scopes_own(
    furnished_database: Database, statement: Any, way: Any
) -> None:
    assert (
        await furnished_database.read(ADA, lambda session: way(session, statement).scalar_one())
        == 1
    )


@WAYS
@pytest.mark.parametrize("statement", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_narrowed_is_refused(engine: Engine, statement: Any, way: Any) -> None:
    METADATA.create_all(engine)
    with GuardedSession(engine) as session:
        scoped(session, ADA)
        with pytest.raises(OutOfScope):
            way(session, statement).all()


@pytest.mark.parametrize("table", TABLES)
async def test_without_a_scope_no_row_of_a_user_is_read_or_written(
    database: Database, table: type[Owned]
) -> None:
    acts: list[Callable[[Session], Any]] = [
        lambda session: session.execute(select(table)).all(),
        lambda session: session.get(table, "x"),
        lambda session: session.execute(delete(table)),
        lambda session: session.add(row_of(table, "ada")),
    ]
    for act in acts:
        with pytest.raises(OutOfScope):
            await database.run_unscoped(act)


@pytest.mark.parametrize("table", TABLES)
async def test_a_row_of_another_is_not_found_and_not_changed(
    furnished_database: Database, table: type[Owned]
) -> None:
    key = f"{table.__name__}-bob"
    assert await furnished_database.run(ADA, lambda session: session.get(table, key)) is None
    for act in (
        delete(table).where(getattr(table, key_of(table)) == key),
        update(table).values({key_of(table): "x"}).where(getattr(table, key_of(table)) == key),
    ):
        await furnished_database.run(ADA, lambda session, act=act: session.execute(act))  # type: ignore[misc]
    assert await furnished_database.run(BOB, lambda session: session.get(table, key)) is not None


def give_away(session: Session, _bobs: Task) -> None:
    mine = session.get(Task, "Task-ada")
    assert mine is not None
    mine.user_id = "bob"


WRITES: dict[str, Callable[[Session, Task], Any]] = {
    "new": lambda session, bobs: session.add(row_of(Task, "bob")),
    "changed": lambda session, bobs: session.add(bobs),
    "deleted": lambda session, bobs: session.delete(bobs),
    "merged": lambda session, bobs: session.merge(bobs),
    "given away": give_away,
    "saved in bulk": lambda session, bobs: session.bulk_save_objects([row_of(Task, "ada")]),
    "inserted in bulk": lambda session, bobs: session.bulk_insert_mappings(Task, []),  # type: ignore[arg-type]
    "past the session": lambda session, bobs: session.connection(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_row_of_another_is_written_in_no_way(
    furnished_database: Database, write: Callable[[Session, Task], Any]
) -> None:
    bobs = await furnished_database.run(BOB, lambda session: session.get(Task, "Task-bob"))
    assert bobs is not None
    bobs.title = "taken"
    with pytest.raises(OutOfScope):
        await furnished_database.run(ADA, lambda session: write(session, bobs))
    assert await furnished_database.read(
        BOB, lambda session: session.exec(select(Task.title)).all()
    ) == [("x",)]


async def test_what_only_reads_changes_nothing(database: Database) -> None:
    for act in (
        lambda session: session.add(row_of(Task, "ada")),
        lambda session: session.execute(delete(Task)),
    ):
        with pytest.raises(OutOfScope):
            await database.read(ADA, act)


def test_an_applications_sessions_and_tables_are_left_alone(engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "task"
        id = Column(Integer, primary_key=True)

    Base.metadata.create_all(engine)
    with PlainSession(engine) as session:
        session.add(Order(id=1))
        session.flush()
        assert session.execute(text("SELECT id FROM task")).all() == [(1,)]
        assert session.execute(select(Order.__table__)).all() == [(1,)]
    with GuardedSession(engine) as session:
        scoped(session, ADA)
        assert session.execute(select(Order)).all() == []


def test_a_session_of_an_applications_factory_is_guarded_once_it_is_bound(engine: Engine) -> None:
    METADATA.create_all(engine)
    with Session(engine) as session:
        scoped(session, BOB)
        session.add(row_of(Task, "bob"))
        session.flush()
        scoped(session, ADA)
        assert session.execute(select(Task)).all() == []
        with pytest.raises(OutOfScope):
            session.execute(text("SELECT 1"))


@pytest.mark.parametrize("act", ["refresh", "flush", "delete"])
async def test_a_row_that_was_not_read_here_is_taken_from_nobody(
    furnished_database: Database, act: str
) -> None:
    """It would be changed by its key alone."""

    def forge(session: Session) -> None:
        forged = row_of(Task, "ada")
        forged.id = "Task-bob"
        make_transient_to_detached(forged)
        session.add(forged)
        forged.title = "stolen"
        getattr(session, act)(*([] if act == "flush" else [forged]))

    with pytest.raises(OutOfScope):
        await furnished_database.run(ADA, forge)
