"""First access check: statements over `Owned` rows see one user's rows, and written rows must
belong to the scope.

Unbound sessions are left alone: they and their tables belong to an application. An engine's own
connection bypasses this check, and on PostgreSQL meets the second one (row_security.py). Entry
points: `scoped`, `GuardedSession`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NoReturn, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, CursorResult, Insert, Table, bindparam, event, insert, inspect
from sqlalchemy.orm import ORMExecuteState, UOWTransaction, with_loader_criteria
from sqlalchemy.orm import Session as OrmSession
from sqlalchemy.sql import ClauseElement, Executable
from sqlalchemy.sql.base import ExecutableOption
from sqlmodel import Session

from treadle.service.database.scope import Scope
from treadle.service.database.statements import refuse, touched
from treadle.service.database.tables import Owned

_BOUND: Final = "treadle.bound"
_WHOSE: Final = "treadle_scope"
"""Parameter of every restricted statement, set at each execution. It overrides any value from the
caller.
"""


@dataclass(frozen=True, slots=True)
class _Bound:
    """Access rights of a session."""

    scope: Scope | None
    reads: bool


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """Tables that a statement touches, and its restricted replacement.

    Valid for every scope: the user is a parameter of the execution.
    """

    tables: frozenset[type[Owned]]
    statement: Executable | None
    """Replacement; None to execute the original, which must not be kept alive here."""


def scoped(session: OrmSession, scope: Scope | None, *, reads: bool = False) -> None:
    """Bind the session's transaction to a scope. None: it may not touch owned rows.

    `reads`: True if it may not change anything.
    """
    if _BOUND not in session.info and not isinstance(session, GuardedSession):
        for name, listener in _LISTENERS.items():
            event.listen(session, name, listener)
    session.info[_BOUND] = _Bound(scope, reads)


def insert_row(session: OrmSession, table: type[Owned], values: Mapping[str, Any]) -> None:
    """Insert a row immediately, without adding it to the session.

    `values` has all columns except `user_id`, which the scope sets.
    """
    bound: _Bound | None = session.info.get(_BOUND)
    if bound is None or bound.scope is None or bound.reads:
        refuse(f"a {table.__name__} must be written in a scope: use Database.run")
    if "user_id" in values:
        refuse("do not pass user_id: the scope sets it")
    session.flush()
    connection_of(session).execute(
        _insertion(cast("Any", table)), {**values, "user_id": bound.scope.user_id}
    )


def execute(
    session: OrmSession, statement: Executable, values: Mapping[str, Any]
) -> CursorResult[*tuple[Any, ...]]:
    """Execute a statement that is built once, with the checks of `session.exec`, on the session's
    connection: a quarter of the cost (measured). For updates, deletes, and selects of columns.

    `values`: the parameters of its conditions.
    """
    bound: _Bound | None = session.info.get(_BOUND)
    if bound is not None:
        statement, values = _restricted(bound, statement, values)
    session.flush()
    return connection_of(session).execute(statement, values)


@cache
def _insertion(table: Any) -> Insert:
    return insert(cast("Table", table.__table__))


class GuardedSession(Session):
    """Session without the methods that bypass its events."""

    def connection(self, *_: object, **__: object) -> NoReturn:
        refuse("execute statements on the session, not on its connection")

    def bulk_save_objects(self, *_: object, **__: object) -> NoReturn:
        refuse("bulk methods are not supported: add rows with session.add")

    bulk_insert_mappings = bulk_save_objects
    bulk_update_mappings = bulk_save_objects


def connection_of(session: OrmSession) -> Connection:
    """Return the session's connection. Only database.py may use it, to set up row-level
    security.
    """
    return OrmSession.connection(session)


def _before_statement(state: ORMExecuteState) -> None:
    bound: _Bound | None = state.session.info.get(_BOUND)
    if bound is not None:
        state.statement, state.parameters = _restricted(bound, state.statement, state.parameters)


def _restricted(bound: _Bound, statement: Executable, given: Any) -> tuple[Executable, Any]:
    """Return the statement and its parameters, restricted to the rows of the scope.

    Raises OutOfScope.
    """
    is_change = statement.is_insert or statement.is_update or statement.is_delete
    if not (is_change or statement.is_select):
        refuse(
            "only select, insert, update and delete built from our tables are allowed, not text()"
        )
    if bound.reads and is_change:
        refuse("this transaction is read-only: use Database.run")
    narrowed = _narrowed(statement)
    if narrowed.statement is None:
        return statement, given
    user_id = _whose(bound, narrowed)
    if not _is_of_the_orm(statement) or statement.is_insert:
        refuse("read users' rows with select(Table), and add them with session.add")
    if isinstance(given, list):
        refuse("change users' rows by a condition, not by their keys")
    if statement.is_update and "user_id" in _set_columns(statement, given):
        refuse("the owner of a row cannot change")
    return narrowed.statement, {**cast("Mapping[str, Any]", given or {}), _WHOSE: user_id}


def _is_of_the_orm(statement: Executable) -> bool:
    """Return True for a statement over classes. The conditions on users apply only to these."""
    attributes = cast("dict[str, Any]", getattr(statement, "_propagate_attrs", {}))
    return attributes.get("compile_state_plugin") == "orm"


_known: WeakKeyDictionary[Executable, _Narrowed] = WeakKeyDictionary()
"""Analyses by statement object. Statements are immutable, so a reused one is analysed once."""


def _narrowed(statement: Executable) -> _Narrowed:
    """Analyse a statement. Raises OutOfScope if a condition on users could be bypassed."""
    if (narrowed := _known.get(statement)) is None:
        tables = touched(cast("ClauseElement", statement))
        options = [_condition(cast("Any", table)) for table in tables]
        narrowed = _known[statement] = _Narrowed(
            frozenset(tables), statement.options(*options) if options else None
        )
    return narrowed


@cache
def _condition(table: Any) -> ExecutableOption:
    """Restrict a statement to the scope's rows of that table."""

    # Evaluated for each alias separately: an expression would name the table itself where an alias
    # is joined (SQLAlchemy 2.1).
    def own(named: Any) -> Any:
        return named.user_id == bindparam("treadle_scope")

    return cast(
        "ExecutableOption",
        with_loader_criteria(table, own, include_aliases=True, track_closure_variables=False),
    )


def _whose(bound: _Bound, narrowed: _Narrowed) -> str:
    """Return the user whose rows a statement reaches. Raises OutOfScope without a scope."""
    if bound.scope is None:
        names = ", ".join(sorted(table.__name__ for table in narrowed.tables))
        refuse(f"{names} has rows of users, and this session has no scope: use Database.run")
    return bound.scope.user_id


def _set_columns(statement: Executable, given: Any) -> set[str]:
    """Return the columns that an UPDATE sets, in any form of the statement."""
    values = cast("dict[Any, Any]", getattr(statement, "_values", None) or {})
    ordered = cast("tuple[tuple[Any, Any], ...]", getattr(statement, "_ordered_values", None) or ())
    columns: list[Any] = [*values, *(column for column, _ in ordered)]
    columns += cast("Mapping[str, Any]", given or {})
    return {str(getattr(column, "key", column)) for column in columns}


def _before_flush(session: OrmSession, context: UOWTransaction, instances: object) -> None:
    bound: _Bound | None = session.info.get(_BOUND)
    if bound is None:
        return
    changed = [*session.new, *session.dirty, *session.deleted]
    if bound.reads and changed:
        refuse("this transaction is read-only: use Database.run")
    for row in changed:
        if isinstance(row, Owned):
            _own(row, bound.scope)


def _own(row: Owned, scope: Scope | None) -> None:
    if scope is None or row.user_id != scope.user_id:
        refuse(f"a {type(row).__name__} of another user cannot be written in this scope")
    if (state := inspect(row)).persistent and state.attrs["user_id"].history.has_changes():
        refuse("the owner of a row cannot change")


def _before_attach(session: OrmSession, row: object) -> None:
    """Reject a row that claims to be persistent: it would be changed by its key alone, whoever owns
    it.
    """
    if (
        _BOUND in session.info
        and isinstance(row, Owned)
        and inspect(row).key is not None
        and inspect(row).session is None
    ):
        refuse(f"a {type(row).__name__} must be read in the transaction that changes it")


_LISTENERS: Final = {
    "do_orm_execute": _before_statement,
    "before_flush": _before_flush,
    "before_attach": _before_attach,
}
for _name, _listener in _LISTENERS.items():
    event.listen(GuardedSession, _name, _listener)
