"""Each table of the shell judge is needed, and so is each row of most: its docstring names cases that
get another decision without it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.policy.shell.tables import Needs, read, rows_of, tables, without


def test_each_table_names_a_case_that_needs_it(tmp_path: Path) -> None:
    needs = Needs(tmp_path)
    wrong: dict[str, str] = {}
    for table in tables():
        marks = [read(mark) for mark in table.marks if "ROW" not in mark]
        for mark in marks:
            if not needs.needs(mark, partial(without, table)):
                wrong[table.label] = f"{mark}: {needs.decided(mark.case)}"
        if not table.marks:
            wrong[table.label] = "says of no case that it needs the table"
    assert wrong == {}


def test_each_row_is_needed_by_a_case_for_all_rows(tmp_path: Path) -> None:
    needs = Needs(tmp_path)
    assert {
        table.label: unneeded
        for table in tables()
        if any("ROW" in mark for mark in table.marks)
        and (
            unneeded := [
                row.label
                for row in rows_of(table)
                if not any(needs.needs(read(mark, row.label), row.without) for mark in table.marks)
            ]
        )
    } == {}
