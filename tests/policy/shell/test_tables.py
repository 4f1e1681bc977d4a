"""Each table of the shell judge is needed: its docstring names a case that gets another decision
without it.
"""

from __future__ import annotations

from pathlib import Path

from tests.policy.shell.tables import Needs, tables, without


def test_each_table_names_a_case_that_needs_it(tmp_path: Path) -> None:
    needs = Needs(tmp_path)
    wrong: dict[str, str] = {}
    for table in tables():
        mark = table.mark
        if mark is None:
            wrong[table.label] = "says of no case that it needs the table"
        elif not needs.holds(mark):
            wrong[table.label] = f"{mark} is decided as {needs.decided(mark.case)}"
        else:
            with without(table):
                if needs.holds(mark):
                    wrong[table.label] = f"{mark} is decided so without the table, too"
    assert wrong == {}
