"""Which tables of users' rows a statement touches, in all of its parts. Refused is what the ORM would not narrow: text, and tables named past their class.

Not here: what a scope makes of it (guard.py). Entry: `touched`, `OutOfScope`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn, cast

from sqlalchemy import Delete, Table, Update
from sqlalchemy.orm import Mapper
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.elements import ColumnClause, TextClause
from sqlalchemy.sql.selectable import AliasedReturnsRows, Select
from sqlalchemy.sql.visitors import HasTraverseInternals

from treadle.database.tables import METADATA, Owned

HARMLESS: Final = frozenset({"*", "1"})
"""Text that sqlalchemy itself writes, for count() and exists()."""


class OutOfScope(AssertionError):
    """A mistake in the code: a statement or a change that is not the scope's own. Nothing of it reached the database."""


def refuse(why: str) -> NoReturn:
    raise OutOfScope(why)


def owned_names() -> list[str]:
    """The tables whose rows belong to users."""
    return [str(cast("Any", table).__table__.name) for table in Owned.__subclasses__()]


def touched(statement: ClauseElement) -> set[type[Owned]]:
    """Raises OutOfScope where a condition on users could be gone round."""
    found: set[type[Owned]] = set()
    target = _target(statement)
    waiting: list[tuple[Any, bool]] = [(statement, False)]
    while waiting:
        element, inside = waiting.pop()
        if (owned := _owned(element)) is not None:
            found.add(owned)
            if target is not None and owned is not target and not inside:  # UPDATE ... FROM: only its target is narrowed
                refuse("an update or delete names other tables in a subquery only")
        inside = inside or isinstance(element, Select)
        waiting.extend((part, inside) for part in _parts(element))
    return found


def _target(statement: ClauseElement) -> object:
    """The class that an UPDATE or DELETE changes."""
    if not isinstance(statement, Update | Delete):
        return None
    mapper = _mapper(statement.table)
    return object if mapper is None else mapper.class_


def _owned(element: Any) -> type[Owned] | None:
    """Whose table it is, where the ORM knows: then it is narrowed."""
    if isinstance(element, TextClause) or (isinstance(element, ColumnClause) and element.is_literal and element.name not in HARMLESS):
        refuse("only statements built of our tables are taken: no text(), no literal_column()")
    mapper = _mapper(element)
    if mapper is not None:
        return mapper.class_ if issubclass(mapper.class_, Owned) else None
    table: Any = element
    if isinstance(element, ColumnClause):
        table = cast("Any", element).table
    if isinstance(table, Table) and table.metadata is METADATA and table.name in _names():
        refuse("rows of users are named by their class, not by its __table__")
    return None


def _parts(element: Any) -> Iterable[Any]:
    """What it is made of: of a column of a subquery that subquery, of a table's alias nothing. A select's tables stand with its columns."""
    if isinstance(element, ColumnClause):
        behind = cast("Any", element).table
        return () if behind is None or isinstance(behind, Table) or _is_alias_of_table(behind, element) else (behind,)
    if _is_alias_of_table(element, element):
        return ()
    if isinstance(element, Select):
        return HasTraverseInternals.get_children(cast("Any", element))
    return cast("Iterable[Any]", element.get_children())


def _is_alias_of_table(element: Any, known: Any) -> bool:
    """And the ORM made it."""
    return isinstance(element, AliasedReturnsRows) and isinstance(element.element, Table) and _mapper(known) is not None


def _mapper(element: Any) -> Mapper[Any] | None:
    return element._annotations.get("parentmapper")  # where the ORM notes whose it is


_known: set[str] = set()


def _names() -> set[str]:
    if not _known:
        _known.update(owned_names())
    return _known
