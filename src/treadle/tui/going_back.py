"""Going back to before an earlier prompt: the list of prompts, restoring files, and the start of
the new conversation.

The old conversation is kept; the next message starts a new one. `/undo` and pickers/points.py
select the prompt. Entry points: `prompts`, `put_files_back`, `go_back_before`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from treadle._internal.terminal_text import one_line
from treadle._internal.units import count
from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo
from treadle.messages.message import TextPart
from treadle.runtime.undo import IrreversibleCall, Rewound, undone_since
from treadle.tui.calling import calling
from treadle.tui.commands.files import shown_path
from treadle.tui.confirm import confirm

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

PATHS_SHOWN: Final = 20


async def prompts(desk: Desk) -> list[RunInfo]:
    """Return the runs in view, oldest first: those of this conversation, preceded by those of the
    conversation that it was forked from.
    """
    runs = await desk.conversation.runs()
    journal, seen = desk.conversation.runtime.journal, set[str]()
    while runs and (origin := runs[0].forked_from) is not None and origin not in seen:
        seen.add(origin)
        try:
            runs = [*await _before(journal, runs[0].run_id, origin), *runs]
        except AgentError:  # it was pruned
            break
    return runs


async def _before(journal: Journal, run_id: str, origin: str) -> list[RunInfo]:
    """Return the runs of the forked conversation before the fork, including the origin if the fork
    keeps some of its turns.
    """
    started, forked = (await journal.load(run_id)).started, await journal.info(origin)
    if forked.session_id is None:
        return []
    told = [
        run
        for run in reversed(await journal.runs(session_id=forked.session_id))
        if run.parent_run_id is None
    ]
    keeps = started is not None and started.fork is not None and started.fork.turn > 0
    return told[: [run.run_id for run in told].index(origin) + keeps]


async def put_files_back(desk: Desk, runs: Sequence[RunInfo]) -> bool:
    """Show the file changes of the runs and revert them after confirmation.

    Returns False if the user declined and nothing was changed.
    """
    journal = desk.conversation.runtime.journal
    would = await undone_since(journal, runs, apply=False)
    moves = [file for file in would.files if file.action in ("restored", "removed")]
    _tell(desk, would)
    if not moves:
        desk.tell("There are no files to restore.")
        return True
    if not await confirm(
        desk.screen,
        f"Restore {count(len(moves), 'file')}, as listed above?",
        yes="Restore",
        no="Keep everything",
    ):
        desk.tell("Nothing was restored.")
        return False
    done = await undone_since(journal, runs, apply=True)
    put = [file for file in done.files if file.action in ("restored", "removed")]
    desk.tell(f"Restored {count(len(put), 'file')}.")
    for file in done.files:
        if file.action == "refused":
            desk.tell(f"{shown(desk, file.path)} is left unchanged: {file.why}", "warning")
    return True


def _tell(desk: Desk, would: Rewound) -> None:
    """List the files that will be restored and those that cannot be."""
    verbs = {"restored": "its earlier content", "removed": "removed: it did not exist"}
    back = [
        f"  {shown(desk, file.path)}: {verbs[file.action]}"
        for file in would.files
        if file.action in verbs
    ]
    stays = [
        f"  {shown(desk, file.path)}: {file.why}"
        for file in would.files
        if file.action == "refused"
    ]
    stays += [f"  {_done(desk, call)}: {call.why}" for call in would.not_undoable]
    stays += [
        f"  {shown(desk, path)}: changed while commands ran" for path in would.changed_meanwhile
    ]
    for head, lines, style in (
        ("To be restored:", back, "dim"),
        ("Cannot be restored:", stays, "warning"),
    ):
        if lines:
            more = [f"  … and {len(lines) - PATHS_SHOWN} more"] if len(lines) > PATHS_SHOWN else []
            desk.tell("\n".join([head, *lines[:PATHS_SHOWN], *more]), style)


def _done(desk: Desk, call: IrreversibleCall) -> str:
    named = calling(call.name, call.arguments)
    return one_line(desk.conversation.runtime.redact(f"{named.done} {named.target}"), 100)


async def go_back_before(desk: Desk, point: RunInfo) -> None:
    """Replace that prompt by the next message, and put it into the input for editing."""
    desk.conversation.goes_back_to = point.run_id
    prompt = await _prompt(desk, point)
    desk.line.pasted.remember(prompt)  # the journal does not record whether it was pasted
    desk.line.give_back(prompt)
    desk.tell(
        "Your next message replaces this prompt, in a new conversation; the previous one stays in "
        "/sessions."
    )
    desk.screen.refresh()


async def _prompt(desk: Desk, point: RunInfo) -> str:
    """Return the prompt without attachments: the user's text is the last part."""
    started = (await desk.conversation.runtime.journal.load(point.run_id)).started
    assert started is not None, "a run begins with run.started"
    return next(
        (part.text for part in reversed(started.input.parts) if isinstance(part, TextPart)), ""
    )


def shown(desk: Desk, path: str) -> str:
    """Return the path as a user would type it, with secrets masked."""
    return one_line(desk.conversation.runtime.redact(shown_path(path, desk.cwd)), 200)
