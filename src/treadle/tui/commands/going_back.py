"""`/undo`: back before the last prompt, its files as they were, and the prompt in the input again. Entry: `undo`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from treadle.errors import AgentError
from treadle.journal import Journal, RunInfo
from treadle.message import TextPart
from treadle.plain import one_line, plain
from treadle.tui.commands.files import shown_path
from treadle.tui.confirm import confirm
from treadle.undoing import Rewound, undone_since
from treadle.units import count

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

SHOWN_MAX: Final = 12
"""Files, and calls that cannot be undone, that are named."""
PUT_BACK: Final = ("restored", "removed")


async def undo(desk: Desk, rest: str) -> None:
    """Said again, it goes back before the prompt before that one."""
    conversation = desk.conversation
    journal = conversation.runtime.journal
    runs = await conversation.runs()
    last = runs[-1] if runs and conversation.goes_back_to is None else await _before(journal, conversation.goes_back_to)
    if last is None:
        raise AgentError("invalid", "there is no prompt to go back before")
    prompt = await _prompt_of(journal, last)
    would = await undone_since(journal, [last], apply=False)
    for line in _told(would, desk):
        desk.tell(line)
    if any(file.action in PUT_BACK for file in would.files):
        going = sum(file.action in PUT_BACK for file in would.files)
        if not await confirm(desk.screen, f"Put back {count(going, 'file')} and go back before “{one_line(prompt, 60)}”?", yes="Go back", no="Leave it"):
            return
        done = await undone_since(journal, [last], apply=True)
        for file in done.files:
            if file.action == "refused":
                desk.tell(f"{shown_path(file.path, desk.cwd)} was left as it is: {plain(file.why)}", "warning")
    conversation.goes_back_to = last.run_id
    desk.line.give_back(prompt)
    desk.screen.refresh()
    desk.tell("Gone back: what you send next takes the place of that prompt. What came after it is kept, and /sessions finds it.")


async def _before(journal: Journal, run_id: str | None) -> RunInfo | None:
    """The prompt before the one of this run, also where that was said in the conversation from which this one was forked."""
    while run_id is not None:
        info = await journal.info(run_id)
        if info.session_id is not None:
            told = [each for each in reversed(await journal.runs(session_id=info.session_id)) if each.parent_run_id is None]
            earlier = [each for each in told[: [each.run_id for each in told].index(run_id)]]
            if earlier:
                return earlier[-1]
        fork = (await journal.load(run_id)).started
        if fork is None or fork.fork is None:
            return None
        run_id = fork.fork.run_id
        if fork.fork.turn > 0:
            return await journal.info(run_id)
    return None


async def _prompt_of(journal: Journal, run: RunInfo) -> str:
    """As it was typed: the files that it names stand in parts of their own before it."""
    started = (await journal.load(run.run_id)).started
    assert started is not None, "a run begins with run.started"
    return next((part.text for part in reversed(started.input.parts) if isinstance(part, TextPart)), "")


def _told(would: Rewound, desk: Desk) -> Iterator[str]:
    """What would become of each file, and what stays."""
    verbs = {"restored": "goes back to what it was", "removed": "is removed: it was made here", "refused": "stays as it is"}
    files = [file for file in would.files if file.action != "unchanged"]
    for file in files[:SHOWN_MAX]:
        why = f", because {plain(file.why)}" if file.action == "refused" else ""
        yield f"  {shown_path(file.path, desk.cwd)} {verbs[file.action]}{why}"
    if len(files) > SHOWN_MAX:
        yield f"  … and {count(len(files) - SHOWN_MAX, 'more file')}"
    if would.not_undoable:
        names = ", ".join(dict.fromkeys(one_line(left.name, 40) for left in would.not_undoable[:SHOWN_MAX]))
        yield f"  What {count(len(would.not_undoable), 'call')} did cannot be undone: {names}"
