"""Others that open a journal while it is driven: code in the same process, commands, backups.

Entry: `open_and_close`, `asked`, `meddle`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import apsw

from tests.crash.copies import MAKING, backup
from treadle import AgentError
from treadle.cli import main
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.guard import Guard


def open_and_close(journal: str, ends: Sequence[str]) -> None:
    """By a descriptor each, as a backup or a tool that reads files would do in its own process."""
    for end in ends:
        with suppress(OSError):
            Path(journal + end).open("rb").close()


def asked(journal: Path, statement: str) -> list[tuple[Any, ...]]:
    """What the file says, read by its own rules: not where a process has lost its locks.

    Empty where it cannot be read now.
    """
    if not journal.exists():
        return []
    try:
        guard = Guard.enter(journal, wait_s=0)
    except AgentError:
        return []
    try:
        db = apsw.Connection(str(journal), flags=apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(5_000)
        found = cursor_of(db).execute(statement).fetchall()
    except apsw.Error:
        guard.give_up()
        return []
    guard.share()
    if not guard.is_alone():
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.close()
    guard.leave()
    return found


Meddling: TypeAlias = Literal["list", "export", "import", "backup"]


def meddle(what: Meddling, url: str, run: str, copies: Path, number: int) -> int:
    """In a process of its own; gives its exit code. Copies are judged at the end."""
    copies.mkdir(exist_ok=True)
    if what == "backup":
        return backup(Path(url.removeprefix("sqlite:///")), copies / f"{number}.db")
    if what == "list":
        return _command("runs", "list", "--journal", url)
    export = copies / f"{run}.{number}.jsonl"
    making = export.with_name(export.name + MAKING)
    code = _command("runs", "export", run, "-o", str(making), "--journal", url)
    if code == 0:
        making.rename(export)
        if what == "import":
            there = f"sqlite:///{copies / f'{number}.imported'}"
            return _command("runs", "import", str(export), "--journal", there)
    return code


def _command(*words: str) -> int:
    sys.argv = ["treadle", *words]
    try:
        main()
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    return 0
