"""Resolution of the ID argument: an id, a prefix of one, or `last`. Entry points: `find_run`,
`no_runs`, `is_own`.
"""

from __future__ import annotations

import os
from typing import Final, NoReturn

import click

from treadle._internal.terminal_text import one_line
from treadle.cli.exits import CommandFailed
from treadle.cli.runs.row import PREFIX
from treadle.errors import AgentError, ErrorKind
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo

LAST: Final = "last"
TASK_AGENT: Final = "tasks"
NEWEST = 20
"""Number of newest runs searched first for one without a parent."""

run_argument = click.argument("run", metavar="ID")


async def find_run(journal: Journal, given: str) -> RunInfo:
    """Return the run with the id `given`, with that prefix, or the `last` one. Raises CommandFailed
    for an unknown id, with the nearest ones, and for an ambiguous prefix.
    """
    if given == LAST:
        return await _last(journal)
    try:
        return await journal.info(given)
    except AgentError as e:
        if e.kind is not ErrorKind.INVALID:
            raise
        ids = [info.run_id for info in await journal.runs()]
        if given in ids:
            raise
        meant = [run_id for run_id in ids if given and run_id.startswith((given, PREFIX + given))]
        if not meant:
            raise CommandFailed(e.message if ids else _none_yet(given)) from e
    if len(meant) > 1:
        shown = ", ".join(meant[:3]) + ("" if len(meant) <= 3 else ", …")
        raise CommandFailed(
            f"{one_line(given)!r} matches {len(meant)} ids: {shown}. Write more of it"
        )
    return await journal.info(meant[0])


async def _last(journal: Journal) -> RunInfo:
    """Return the newest run without a parent that worked in this directory, or in one above or
    below it.

    Raises CommandFailed if there is none.
    """
    elsewhere = ""
    for limit in (NEWEST, None):
        for info in await journal.runs(limit=limit):
            if info.parent_run_id is not None or not is_own(info):
                continue
            if _worked_here(info):
                return info
            elsewhere = elsewhere or (
                f"there is no run in {os.getcwd()!r} yet; the newest elsewhere is "
                f"{info.run_id}, in {info.cwd!r}"
            )
    raise CommandFailed(elsewhere or _none_yet(LAST))


def _worked_here(info: RunInfo) -> bool:
    here, there = os.path.realpath(os.curdir), os.path.realpath(info.cwd)
    return os.path.commonpath((here, there)) in (here, there)


def is_own(info: RunInfo) -> bool:
    """Return False for a run of the task assistant, which has one for each message."""
    return info.agent != TASK_AGENT


def no_runs(given: str) -> NoReturn:
    """Report that there is no journal. Raises CommandFailed."""
    raise CommandFailed(_none_yet(given))


def _none_yet(given: str) -> str:
    none = "there are no runs yet"
    return none if given == LAST else f"unknown run {given!r}: {none}"
