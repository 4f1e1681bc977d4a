"""Any sequence of changes, then as many undos: everything is as it was."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.pool import StaticPool
from sqlmodel import Session, create_engine

from tests.apps.assistant.people import Noon
from treadle.apps.assistant.fields import as_data
from treadle.apps.assistant.store import TaskStore
from treadle.service.database.guard import scoped
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import METADATA

TITLE = st.sampled_from(["Buy milk", "Call mum", "Pay rent", "Read"])
AT = st.integers(0, 9)
CHANGE = st.one_of(
    st.tuples(st.just("add"), TITLE, st.sampled_from([None, "2026-12-01"])),
    st.tuples(st.just("complete"), AT),
    st.tuples(st.just("delete"), AT),
    st.tuples(
        st.just("update"),
        AT,
        st.fixed_dictionaries(
            {},
            optional={
                "title": TITLE,
                "due": st.sampled_from([None, "2027-01-01"]),
                "priority": st.just("High"),
            },
        ),
    ),
    st.tuples(st.just("complete_all")),
    st.tuples(st.just("delete_completed")),
    st.tuples(st.just("undo")),
)


def change(store: TaskStore, what: tuple[Any, ...]) -> None:
    tasks = store.list()
    verb, *more = what
    at: int = more[0] if verb in ("complete", "delete", "update") else len(tasks)
    task = tasks[at] if at < len(tasks) else None
    match verb:
        case "add":
            store.add(more[0], due=more[1])
        case "complete_all":
            store.complete_all(store.list(status="open"))
        case "delete_completed":
            store.delete(store.list(status="completed"), tool="delete_completed")
        case "undo":
            store.undo()
        case "complete" if task is not None:
            store.complete(task)
        case "delete" if task is not None:
            store.delete([task])
        case "update" if task is not None:
            store.update(task, **more[1])
        case _:
            assert task is None


def seen(store: TaskStore) -> list[dict[str, Any]]:
    """All but when a task was changed last, which undoing is a change of too."""
    return sorted(
        ({**as_data(task), "updated_at": ""} for task in store.list()), key=lambda task: task["id"]
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGE, max_size=12), st.booleans())
def test_what_is_taken_back_in_turn_leaves_what_was_there_at_each_step(
    changes: list[tuple[Any, ...]], moves: bool
):
    """Also where the clock stands still."""
    engine, clock, scope = (
        create_engine("sqlite://", poolclass=StaticPool),
        Noon(),
        Scope(Identity("ada", "caller")),
    )
    METADATA.create_all(engine)
    store_in = partial(TaskStore, scope=scope, clock=clock)
    steps: list[list[dict[str, Any]]] = []
    for what in changes:
        clock.pass_(seconds=int(moves))
        with Session(engine) as session, session.begin():
            scoped(session, scope)
            store = store_in(session)
            before = seen(store)
            change(store, what)
            if store.written is not None:
                if what == ("undo",):
                    assert seen(store) == steps.pop()
                else:
                    steps.append(before)
    while steps:
        with Session(engine) as session, session.begin():
            scoped(session, scope)
            store = store_in(session)
            assert store.undo() is not None
            assert seen(store) == steps.pop()
    with Session(engine) as session, session.begin():
        scoped(session, scope)
        assert store_in(session).undo() is None
    engine.dispose()
