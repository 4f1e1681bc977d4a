"""Tables of users' rows that a statement touches, in all of its parts. Statements that the ORM
cannot restrict are rejected: text, and tables named without their class.

See also: restriction (guard.py). Entry points: `touched`, `OutOfScope`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn, cast

from sqlalchemy import Delete, Table, TableClause, Update
from sqlalchemy.orm import Mapper
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.elements import BindParameter, ColumnClause, Null, TextClause
from sqlalchemy.sql.selectable import AliasedReturnsRows, Select
from sqlalchemy.sql.visitors import HasTraverseInternals

from treadle.service.database.tables import Owned

HARMLESS: Final = frozenset({"*", "1"})
"""Text that SQLAlchemy itself generates, for count() and exists()."""
LEAVES: Final = (BindParameter, Null)
"""Frequent elements without parts."""


class OutOfScope(AssertionError):
    """Raised for a programming error: a statement or change outside the scope. None of it reached
    the database.
    """


def refuse(why: str) -> NoReturn:
    raise OutOfScope(why)


def owned_names() -> list[str]:
    """Return the tables whose rows belong to users."""
    return [str(cast("Any", table).__table__.name) for table in Owned.__subclasses__()]


def touched(statement: ClauseElement) -> set[type[Owned]]:
    """Return the classes of users' rows that a statement touches. Raises OutOfScope if a condition
    on users could be bypassed.
    """
    found: set[type[Owned]] = set()
    target = _target(statement)
    if target is not None and issubclass(target, Owned):
        found.add(target)
    waiting: list[tuple[Any, set[Any] | None]] = [(statement, None)]
    while waiting:
        element, within = waiting.pop()
        if type(element) in LEAVES:
            continue
        if (owned := _owned(element, within)) is not None:
            found.add(owned)
            # UPDATE ... FROM restricts only its target.
            if target is not None and owned is not target and within is None:
                refuse("an update or delete may name other tables only in a subquery")
        if isinstance(element, Select):
            within = _selected(element)
        for part in _parts(element):
            waiting.append((part, within))
    return found


def _selected(statement: Any) -> set[Any]:
    """Return the tables that a SELECT names by class among its columns. The ORM's own conditions
    name their columns bare.
    """
    named = [element for element in statement._raw_columns if _mapper(element) is not None]
    return {
        mapper.local_table
        for element in named
        if (mapper := _mapper(element)) is not None and _is_bare(element)
    }


def _is_bare(element: Any) -> bool:
    """Return True unless the element is an alias, whose rows differ from those of the table."""
    return isinstance(element, Table) or isinstance(
        cast("Any", getattr(element, "table", None)), Table
    )


def _target(statement: ClauseElement) -> type | None:
    """Return the class that an UPDATE or DELETE changes; NoneType for one that names a table
    instead.
    """
    if not isinstance(statement, Update | Delete):
        return None
    subject = cast(
        "Mapper[Any] | None", cast("Any", statement)._propagate_attrs.get("plugin_subject")
    )
    return type(None) if subject is None else subject.class_


def _owned(element: Any, within: set[Any] | None) -> type[Owned] | None:
    """Return the owner class of the element's table if the ORM knows it, so that it is narrowed."""
    if isinstance(element, TextClause) or (
        isinstance(element, ColumnClause) and element.is_literal and element.name not in HARMLESS
    ):
        refuse("only statements built from our tables are allowed, not text() or literal_column()")
    mapper = _mapper(element)
    if mapper is not None:
        return mapper.class_ if issubclass(mapper.class_, Owned) else None
    table: Any = cast("Any", element)
    if isinstance(element, ColumnClause):
        table = cast("Any", element).table
        if within is not None and table in within:
            return None
    # Tables match by name, because several objects can name the same one.
    if isinstance(table, TableClause) and table.name.lower() in _names():
        refuse("select users' rows by their class, not by its __table__")
    return None


def _parts(element: Any) -> Iterable[Any]:
    """Return the element's parts: the subquery for a column of one, nothing for an alias of a
    table. A SELECT's tables come with its columns.
    """
    if isinstance(element, ColumnClause):
        behind = cast("Any", element).table
        return (
            ()
            if behind is None or isinstance(behind, Table) or _is_alias_of_table(behind, element)
            else (behind,)
        )
    if _is_alias_of_table(element, element):
        return ()
    if isinstance(element, Select):
        return HasTraverseInternals.get_children(cast("Any", element))
    return cast("Iterable[Any]", element.get_children())


def _is_alias_of_table(element: Any, known: Any) -> bool:
    """Return True for an alias of a table that was created by the ORM."""
    return (
        isinstance(element, AliasedReturnsRows)
        and isinstance(element.element, Table)
        and _mapper(known) is not None
    )


def _mapper(element: Any) -> Mapper[Any] | None:
    return element._annotations.get(
        "parentmapper"
    )  # annotation by which the ORM records the element's mapper


_known: set[str] = set()


def _names() -> set[str]:
    if not _known:
        _known.update(owned_names())
    return _known
