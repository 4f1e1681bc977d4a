"""What tests with DBOS need, or are skipped for."""

from __future__ import annotations

import pytest

from treadle.errors import AgentError


def need_dbos(journal_url: str) -> None:
    pytest.importorskip("dbos", reason="needs DBOS: pip install 'treadle[dbos]'")
    from treadle.workers.engines.dbos.store import database_of

    if journal_url.startswith("sqlite:///"):
        try:
            database_of(journal_url).dispose()
        except AgentError as e:  # a SQLite that DBOS cannot use
            pytest.skip(e.message)
