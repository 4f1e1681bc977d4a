"""Takes guards of the PostgreSQL journal away, as sabotage.py does with those of SQLite. Entry:

`OF_POSTGRES`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Literal

Check = Literal["fence", "head", "owner"]
_IN_APPEND: Mapping[Check, str] = {
    "fence": "runs.fence = given.fence",
    "head": "runs.head = given.head",
    "owner": "runs.owner = given.owner",
}
_IN_FINISH: Mapping[Check, str] = {"fence": "fence = ?", "head": "head = ?", "owner": "owner = ?"}


def _without_checks(checks: Collection[Check]) -> None:
    """What an append looks at; without the head it goes wherever the run ends by now."""
    from treadle.journal.postgres import appending
    from treadle.journal.tables import driving

    for name in ("_APPEND", "_APPEND_PIECES"):
        statement: str = getattr(appending, name)
        for check in checks:
            statement = _replaced(statement, _IN_APPEND[check], "true")
        if "head" in checks:
            statement = _replaced(
                statement,
                "set head = given.head + given.count",
                "set head = runs.head + given.count",
            )
            statement = _replaced(
                statement,
                "returning runs.num, given.head",
                "returning runs.num, runs.head - given.count as head",
            )
        setattr(appending, name, statement)
    statement = driving._FINISH  # pyright: ignore[reportPrivateUsage]  what is taken away here is inside
    before, where, after = statement.partition("where")
    for check in checks:
        after = _replaced(after, _IN_FINISH[check], "?::text is not null")
    driving._FINISH = before + where + after  # pyright: ignore[reportPrivateUsage]
    if "head" in checks:
        _finish_at_head()


def _finish_at_head() -> None:
    from treadle.journal.postgres import driving

    finish = driving.finish

    def at_head(db: Any, hold: Any, *what: Any) -> None:
        ((hold.head,),) = db.execute("select head from runs where num = ?", (hold.num,)).fetchall()
        finish(db, hold, *what)

    driving.finish = at_head


def _replaced(text: str, before: str, after: str) -> str:
    assert text.count(before) == 1, f"{before!r} does not stand once in {text}"
    return text.replace(before, after)


def _without_index() -> None:
    """The database takes a second start and a second result for a call."""
    from treadle.journal.postgres import journal

    make_ready = journal.make_ready

    def without(db: Any, *rest: Any) -> None:
        make_ready(db, *rest)
        db.execute("drop index if exists treadle.one_result, treadle.one_start")

    journal.make_ready = without


def _without_lease() -> None:
    """A once-call begins however long ago this process was last known to live."""
    from treadle.journal.postgres.driving import PostgresRun

    async def sure(self: PostgresRun) -> None:
        pass

    PostgresRun._be_sure = sure  # pyright: ignore[reportPrivateUsage]


OF_POSTGRES: Mapping[str, Callable[[], None]] = {
    "fence": partial(_without_checks, ("fence", "head", "owner")),
    "only fence": partial(_without_checks, ("fence",)),
    "only head": partial(_without_checks, ("head",)),
    "only owner": partial(_without_checks, ("owner",)),
    "index": _without_index,
    "lease": _without_lease,
}
