"""What the source says of who may be who, and of who asks for rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src" / "treadle"
IDENTITIES = {
    "service/mcp_endpoint.py": 1,  # of the visitor that signed_in.py verified
    "service/signed_in.py": 1,  # a token that was verified
    # whose run is in the database already, or in the journal, where the service put it
    "service/resuming.py": 2,
    "apps/assistant/runner.py": 1,  # as the library's caller says
    "apps/assistant/terminal_user.py": 1,  # whoever runs the command
}
STORES = {
    "service/accounts.py",  # accounts and logins, which belong to nobody
    "service/conversation_store.py",
    "service/limits.py",
    "service/open_streams.py",  # which logins have ended
    "service/resuming.py",  # who has an account
    "service/signed_in.py",  # a login
    "service/totals.py",  # sums over all users, in tables that belong to nobody
    "apps/assistant/changes.py",
    "apps/assistant/confirmation_records.py",
    "apps/assistant/confirmations.py",
    "apps/assistant/store.py",
}
QUERIES = {"select", "update", "delete", "insert"}


@cache
def all_calls() -> list[tuple[str, str, ast.Call]]:
    """Each call in the source, with its file and the name that is called."""
    found: list[tuple[str, str, ast.Call]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                found.append((path.relative_to(SOURCE).as_posix(), called, node))
    return found


def calls(names: set[str]) -> Iterator[tuple[str, ast.Call]]:
    return ((path, call) for path, called, call in all_calls() if called in names)


def test_an_identity_is_made_where_somebody_was_verified_and_nowhere_else() -> None:
    counted: dict[str, int] = {}
    for path, _ in calls({"Identity"}):
        counted[path] = counted.get(path, 0) + 1
    assert counted == IDENTITIES


def test_the_application_asks_the_database_through_scopes_only() -> None:
    """No module but database/ makes engines, connections or sessions of its own; the tables of DBOS
    hold tickets, and nothing of a person.
    """
    made = {
        path
        for path, _ in calls({"create_engine", "sessionmaker", "exec_driver_sql", "connection_of"})
    }
    assert {
        path for path in made if not path.startswith(("service/database/", "workers/engines/dbos/"))
    } == set()


def test_statements_are_made_by_the_stores_only() -> None:
    """Each is given the session of a transaction that `Database` began in a scope."""
    asking = {
        path
        for path, call in calls(QUERIES)
        if isinstance(call.func, ast.Name) and imports(path, frozenset({"sqlmodel", "sqlalchemy"}))
    }
    assert {path for path in asking if not path.startswith("service/database/")} <= STORES


@cache
def imports(path: str, libraries: frozenset[str]) -> bool:
    nodes = ast.walk(ast.parse((SOURCE / path).read_text()))
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in libraries
        for node in nodes
    )
