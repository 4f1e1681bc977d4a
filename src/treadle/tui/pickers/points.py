"""Back to an earlier point: which one, and what of it is taken back. Nothing is done before both were chosen. Entry: `pick_point`.

Putting files back is undoing.py's; what was said stays in its own conversation, and the next words begin a new one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from treadle.entries import RunStarted
from treadle.errors import AgentError
from treadle.journal import RunInfo
from treadle.message import TextPart
from treadle.plain import one_line
from treadle.tui.calling import calling
from treadle.tui.confirm import confirm
from treadle.tui.picker import Picker, Row
from treadle.types import now
from treadle.undoing import Left, Rewound, changed_files, undone_since
from treadle.units import ago, count

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

What: TypeAlias = Literal["both", "conversation", "files"]
PATHS_SHOWN: Final = 20
_WORDS: Final[tuple[tuple[What, str, str], ...]] = (
    ("both", "Conversation and files", "the files are shown first"),
    ("conversation", "Conversation only", "files stay as they are"),
    ("files", "Files only", "what was said stays; the files are shown first"),
)


async def pick_point(desk: Desk) -> None:
    """Raises AgentError where the journal, or what was kept of files, cannot be read."""
    if desk.conversation.is_running:
        desk.tell("A run is under way: interrupt it first (Escape).", "warning")
        return
    runs = await _runs(desk)
    if not runs:
        desk.tell("There is no earlier point: nothing was said here yet.")
        return

    async def changed(run: RunInfo) -> str:
        return await _changed(desk, run)

    rows = [Row(desk.conversation.runtime.redact(run.prompt) or "(no text)", run, _detail(desk, run)) for run in reversed(runs)]
    point = await desk.screen.ask(Picker(desk.screen, "Back to before which prompt?", rows, preview=changed))
    if point is None:
        return
    prompt = one_line(desk.conversation.runtime.redact(point.prompt), 60)
    what = await desk.screen.ask(Picker(desk.screen, f"Take back what since {prompt!r}?", [Row(label, what, detail) for what, label, detail in _WORDS]))
    if what is None:
        return
    since = runs[runs.index(point) :]
    if what != "conversation" and not await _put_files_back(desk, since):
        return
    if what != "files":
        await _go_back(desk, point)


async def _runs(desk: Desk) -> list[RunInfo]:
    """That are in view, oldest first: those of this conversation, and before them those from which it was forked."""
    conversation = desk.conversation
    runs = await conversation.runs()
    journal, seen = conversation.runtime.journal, set[str]()
    while runs and (origin := runs[0].forked_from) is not None and origin not in seen:
        seen.add(origin)
        try:
            forked = await journal.info(origin)
        except AgentError:  # it was pruned
            break
        earlier = [] if forked.session_id is None else await journal.runs(session_id=forked.session_id)
        runs = [*(run for run in reversed(earlier) if run.parent_run_id is None and run.started_at < forked.started_at), *runs]
    return runs


def _detail(desk: Desk, run: RunInfo) -> str:
    calls = [count(run.tool_calls, "call")] if run.tool_calls else []
    end = [run.outcome.value] if run.outcome is not None and run.outcome.value != "completed" else []
    return f" {desk.theme.glyphs.dot} ".join((f"{ago(run.started_at, now())} ago", *calls, *end))


async def _changed(desk: Desk, run: RunInfo) -> str:
    """What its run changed, as far as that is known."""
    try:
        files = await changed_files(desk.conversation.runtime.journal, [run])
    except AgentError as e:
        return one_line(e.message, 400)
    if not files:
        return "It changed no file that is kept."
    return "\n".join(["It changed:", *(f"  {_shown(desk, file.path)}" for file in files)])


# ---------------------------------------------------------------- taking back


async def _put_files_back(desk: Desk, runs: Sequence[RunInfo]) -> bool:
    """Whether the person still wants to go back: after a no nothing was done."""
    journal = desk.conversation.runtime.journal
    would = await undone_since(journal, runs, apply=False)
    moves = [file for file in would.files if file.action in ("restored", "removed")]
    _tell(desk, would)
    if not moves:
        desk.tell("There is no file to put back.")
        return True
    if not await confirm(desk.screen, f"Put back {count(len(moves), 'file')}, as listed above?", yes="Put back", no="Leave all as it is"):
        desk.tell("Nothing was taken back.")
        return False
    done = await undone_since(journal, runs, apply=True)
    put = [file for file in done.files if file.action in ("restored", "removed")]
    desk.tell(f"Put back {count(len(put), 'file')}.")
    for file in done.files:
        if file.action == "refused":
            desk.tell(f"{_shown(desk, file.path)} stays as it is: {file.why}", "warning")
    return True


def _tell(desk: Desk, would: Rewound) -> None:
    """What will be put back, and what cannot be."""
    verbs = {"restored": "as it was before", "removed": "removed: it was not there"}
    back = [f"  {_shown(desk, file.path)}: {verbs[file.action]}" for file in would.files if file.action in verbs]
    stays = [f"  {_shown(desk, file.path)}: {file.why}" for file in would.files if file.action == "refused"]
    stays += [f"  {_done(desk, call)}: {call.why}" for call in would.not_undoable]
    stays += [f"  {_shown(desk, path)}: changed while commands ran" for path in would.changed_meanwhile]
    for head, lines, style in (("Would be put back:", back, "dim"), ("Cannot be put back, and stays:", stays, "warning")):
        if lines:
            more = [f"  … and {len(lines) - PATHS_SHOWN} more"] if len(lines) > PATHS_SHOWN else []
            desk.tell("\n".join([head, *lines[:PATHS_SHOWN], *more]), style)


def _done(desk: Desk, call: Left) -> str:
    named = calling(call.name, call.arguments)
    return one_line(desk.conversation.runtime.redact(f"{named.done} {named.target}"), 100)


async def _go_back(desk: Desk, point: RunInfo) -> None:
    """The next words take the place of that prompt, which stands in the input to be changed."""
    desk.conversation.goes_back_to = point.run_id
    desk.line.put(await _prompt(desk, point))
    desk.tell("Your next message takes the place of this prompt, in a new conversation; the one before stays among /sessions.")
    desk.screen.refresh()


async def _prompt(desk: Desk, point: RunInfo) -> str:
    records = await desk.conversation.runtime.journal.read(point.run_id)
    started = next((record.entry for record in records if isinstance(record.entry, RunStarted)), None)
    return point.prompt if started is None else _said(started)


def _said(started: RunStarted) -> str:
    """Without the files that were attached: what the person wrote is the last text."""
    texts = [part.text for part in started.input.parts if isinstance(part, TextPart)]
    return texts[-1] if texts else ""


def _shown(desk: Desk, path: str) -> str:
    with suppress(ValueError):
        path = os.path.relpath(path, desk.cwd) if Path(path).is_relative_to(os.path.realpath(desk.cwd)) else path
    return one_line(desk.conversation.runtime.redact(path), 200)
