"""Tests that resume, leave or take over a run do so over memory, SQLite and PostgreSQL.

`STORES` are the fixtures that give a journal of each store; `EXCEPTIONS` the tests that need one
store or have no use for a second. docs/durability.md has the table of suites.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent
FOLDERS = ("agents", "budget", "context", "events", "loop", "runtime", "tools")
LEFT_OUT = ("tools/builtin", "tools/mcp", "events/telemetry/test_logs.py")
"""Their processes and signals are none of a run."""
RECOVERS = re.compile(
    r"\.resume\(|\.take_over\(|\.let_go\(|left_behind\(|\bresumed\(|\.wake\(|\.kill\("
)
STORES = {"store", "journal", "url", "here", "there", "anywhere"}
EXCEPTIONS = {
    "loop/test_journal.py::test_a_run_lets_go_of_its_journal_at_its_end": "a journal of its own",
    "runtime/test_refused_runs.py::test_a_run_that_its_journal_refused_is_not_resumed_while_one_of_its_calls_runs": "SQLite's locks",
    "runtime/test_refused_runs.py::test_a_worker_releases_it_when_its_last_call_has_ended": "SQLite's locks",
    "runtime/test_refused_runs.py::test_a_runtime_that_closes_does_not_free_the_runs_of_another_one_over_its_journal": "SQLite's locks",
    "runtime/test_runtime.py::test_a_driver_that_does_not_answer_keeps_its_run_unless_it_is_taken_away": "a journal of its own",
    "runtime/test_runtime.py::test_a_run_that_is_let_go_is_stopped_and_not_cancelled_and_goes_on_where_it_was": "test_closing has it over both",
    "runtime/test_submit.py::test_killing_a_run_that_a_worker_has_just_taken_asks_that_worker": "a journal of its own",
    "runtime/test_submit.py::test_killing_a_run_that_ends_in_that_moment_leaves_it_as_it_is": "a journal of its own",
    "runtime/test_submit.py::test_an_answer_to_a_run_that_moved_on_meanwhile_is_refused": "a journal of its own",
}
"""Test and reason. A journal of its own: the test makes a moment between two operations that the
stores have alike."""


def recovering_tests() -> Iterator[tuple[str, bool]]:
    """Each test that recovers a run, and whether one of its fixtures gives it three stores."""
    for folder in FOLDERS:
        for path in sorted((TESTS / folder).rglob("test_*.py")):
            if path.relative_to(TESTS).as_posix().startswith(LEFT_OUT):
                continue
            text = path.read_text()
            whole = 'pytestmark = pytest.mark.usefixtures("store")' in text
            lines = text.splitlines()
            for node in ast.parse(text).body:
                if not isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
                    continue
                source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                if not node.name.startswith("test_") or not RECOVERS.search(source):
                    continue
                fixtures = {argument.arg for argument in node.args.args}
                marks = {ast.unparse(one) for one in node.decorator_list}
                uses = "pytest.mark.usefixtures('store')" in marks or bool(fixtures & STORES)
                yield f"{path.relative_to(TESTS).as_posix()}::{node.name}", whole or uses


def test_tests_of_recovery_run_over_three_stores() -> None:
    found = dict(recovering_tests())
    assert len(found) > 100
    assert {name for name, everywhere in found.items() if not everywhere} == {*EXCEPTIONS}
