"""DBOS and Temporal are extras: nothing else needs them, and where one is absent the line that
installs it is told.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest

from treadle.errors import AgentError

ABSENT = "import sys; sys.modules['{}'] = None\n"


def _said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True
    ).stdout


def test_nothing_but_its_own_folder_imports_it() -> None:
    program = "import sys, treadle.workers.engines, treadle.workers.engines.local, treadle.workers.worker; print('dbos' in sys.modules, 'sqlalchemy' in sys.modules, 'temporalio' in sys.modules)"
    assert _said(program).split() == ["False", "False", "False"]


@pytest.mark.parametrize(
    ("library", "names"),
    [("dbos", "dbos import DbosEngine"), ("temporalio", "temporal import TreadlePlugin")],
)
def test_where_it_is_absent_the_line_that_installs_it_is_told(library: str, names: str) -> None:
    program = ABSENT.format(library) + "\n".join(
        [
            "import treadle.workers.worker",
            "from treadle.errors import AgentError",
            "try:",
            f"    from treadle.workers.engines.{names}",
            "except AgentError as e:",
            "    print(e.kind.value, e.message)",
        ]
    )
    assert _said(program).startswith("invalid ")
    assert f"pip install 'treadle[{names.split()[0]}]'" in _said(program)


def test_a_sqlite_that_dbos_cannot_use_is_told_before_it_fails_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("dbos", reason="needs DBOS: pip install 'treadle[dbos]'")
    from treadle.workers.engines.dbos import store

    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, 12, 1))
        patch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
        with pytest.raises(
            AgentError,
            match=r"needs SQLite 3\.42 or newer, .* use the engine `local`, or a journal in PostgreSQL",
        ):
            store.database_of("sqlite:///journal.db")
        patch.setattr(sqlite3, "sqlite_version_info", (3, 42, 0))
        store.database_of("sqlite:///journal.db").dispose()
