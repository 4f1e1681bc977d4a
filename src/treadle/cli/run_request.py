"""The values of one `treadle run`, and the conversation that it continues. Entry: `RunRequest`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.cli.exits import CommandFailed
from treadle.messages.message import Part
from treadle.runtime.runtime import Runtime
from treadle.types import OnAsk, OnUnknown, Settings

NEWEST_RUNS = 100
"""Where the last conversation of a directory is sought first: listing all runs takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What the person asked for."""

    prompt: list[Part]
    settings: Settings
    output: str
    cwd: Path
    quiet: bool
    verbose: bool
    journal: str
    """Its URL."""
    session: str | None
    """None: a new one; or, with `goes_on`, the last one that worked here."""
    goes_on: bool
    on_ask: OnAsk
    on_unknown: OnUnknown
    journal_option: str | None
    """What was said of it on the command line: the next command about this run needs it too."""
    queue: str
    """Of a run that is detached; likewise the next."""
    priority: int


async def last_here(runtime: Runtime, cwd: Path) -> str:
    """The newest conversation whose last run worked in `cwd`; an imported run begins none.

    Raises Failed where there is none.
    """
    for limit in (NEWEST_RUNS, None):
        seen: set[str] = set()
        for info in await runtime.journal.runs(limit=limit):
            if (
                info.session_id is None
                or info.session_id in seen
                or info.parent_run_id is not None
                or info.imported is not None
            ):
                continue
            seen.add(info.session_id)
            if info.cwd == str(cwd) and runtime.sessions.get(info.session_id) is not None:
                return info.session_id
    raise CommandFailed(
        f"no conversation has worked in {str(cwd)!r} yet: leave out --continue to begin one, or "
        "name one of `treadle sessions list` with --session"
    )
