"""Copies of a journal that were made while it was driven: what they hold has to be in it still.
Entry: `judged`, `backup`.

A copy is `NAME.db`, a backup; `NAME.jsonl`, an export of one run; or `NAME.imported`, a journal
that took exports in. Standard library only.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.crash.records import Entry, Run

MAKING = ".making"
"""Suffix of a copy that is not complete, and judged by nobody."""


def backup(journal: Path, to: Path) -> int:
    """By SQLite's own backup, in a process that has nothing else to do with the journal."""
    if not journal.exists():
        return 1
    making = to.with_name(to.name + MAKING)
    with (
        closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=30)) as source,
        closing(sqlite3.connect(making)) as target,
    ):
        source.backup(target, pages=64, sleep=0.001)
    making.rename(to)
    return 0


def judged(folder: Path, runs: Mapping[str, Run]) -> Iterator[str]:
    """Differences between the copies in a folder and the runs of the journal."""
    for copy in sorted(folder.glob("*")):
        match copy.suffix:
            case ".db" | ".imported":
                yield from _of_file(copy, runs, is_same=copy.suffix == ".db")
            case ".jsonl":
                yield from _of_export(copy, runs)
            case _:
                pass


def _of_export(copy: Path, runs: Mapping[str, Run]) -> Iterator[str]:
    lines = [json.loads(line) for line in copy.read_text(encoding="utf-8").splitlines()]
    given = [(line["seq"], line["entry"]) for line in lines if "seq" in line]
    name = copy.name.partition(".")[0]
    yield from _differences(copy.name, given, runs[name].entries if name in runs else ())


def _of_file(copy: Path, runs: Mapping[str, Run], *, is_same: bool) -> Iterator[str]:
    from tests.crash.checker import journal_of

    if _is_empty(copy):
        return
    broken, theirs = journal_of(copy)
    for text in broken:
        yield f"{copy.name}: {text}"
    for run in theirs if is_same else ():
        ours = runs[run.id].entries if run.id in runs else ()
        yield from _differences(copy.name, [(one.seq, one.body) for one in run.entries], ours)


def _is_empty(copy: Path) -> bool:
    """True if the copy was made before the journal had its tables."""
    with closing(sqlite3.connect(f"file:{copy}?mode=ro", uri=True)) as db:
        return db.execute("select count(*) from sqlite_master").fetchone() == (0,)


def _differences(
    name: str, given: Sequence[tuple[int, dict[str, Any]]], ours: Sequence[Entry]
) -> Iterator[str]:
    for number, (seq, body) in enumerate(given):
        entry = ours[number] if number < len(ours) else None
        if entry is None or entry.seq != seq or entry.body != body:
            yield f"{name} holds an entry {seq} that is not in the journal: {str(body)[:200]}"
            return
