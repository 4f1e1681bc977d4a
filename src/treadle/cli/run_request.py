"""Values of one `treadle run` and the session that it continues. Entry points: `RunRequest`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from treadle.cli.exits import CommandFailed
from treadle.messages.message import Part
from treadle.runtime.runtime import Runtime
from treadle.types import OnAsk, OnUnknown, Settings

NEWEST_RUNS = 100
"""Number of newest runs searched first for a directory's last session, because listing all runs is
slower.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Validated request of `treadle run`."""

    prompt: list[Part]
    settings: Settings
    output: str
    cwd: Path
    quiet: bool
    verbose: bool
    journal: str
    """URL of the journal."""
    session: str | None
    """Session id. None means a new session or, with `goes_on`, the last one in this directory."""
    goes_on: bool
    on_ask: OnAsk
    on_unknown: OnUnknown
    user: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, str]
    journal_option: str | None
    """Value of `--journal`, which suggested commands repeat."""
    queue: str
    """Queue of a detached run."""
    priority: int


async def last_here(runtime: Runtime, cwd: Path) -> str:
    """Return the newest session whose last run worked in `cwd`, ignoring imported runs.

    Raises CommandFailed if there is none.
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
        f"there is no conversation in {str(cwd)!r} yet: leave out --continue to start one, or "
        "name one of `treadle sessions list` with --session"
    )
