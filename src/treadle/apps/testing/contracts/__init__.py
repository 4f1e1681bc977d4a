"""Contracts as tests. A plug-in's test module imports those of its kind and defines the fixtures
that the suite's docstring names. Import them as `treadle.testing.contracts`.

    journals.py          every test of a journal
    journal_drivers.py   appends, cancellation, one driver at a time
    journal_sessions.py  sessions, stop requests, reading, lists
    journal_totals.py    costs, pruning, closing
    journal_imports.py   exports and imports
    journal_removal.py   removal of runs
    models.py            every test of a model
    sandboxes.py         every test of a sandbox
    engines.py           every test of an engine
    tools.py             every test of a tool
    agents.py            every test of an agent
    commands.py          every test of a command
    message_stores.py    every test of a store of messages
    kinds.py             kinds of journals
    runs.py              runs as the tests write them
"""

from __future__ import annotations

import pytest

_PARTS = ("drivers", "sessions", "totals", "imports", "removal")

pytest.register_assert_rewrite(
    *(
        f"{package}.{suite}"
        for package in {"treadle.apps.testing.contracts", __name__}
        for suite in (
            *("agents", "commands", "engines", "journals", "message_stores"),
            *("models", "runs", "sandboxes", "tools"),
        )
    ),
    *(f"treadle.apps.testing.contracts.journal_{part}" for part in _PARTS),
)
