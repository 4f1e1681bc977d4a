"""Picker for an earlier prompt to go back to, and for what to revert. Nothing changes before both
are chosen. Entry points: `pick_point`.

The change itself is made in going_back.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from treadle._internal.terminal_text import one_line
from treadle._internal.units import ago, count
from treadle.errors import AgentError
from treadle.journal.run_info import RunInfo
from treadle.runtime.undo import changed_files
from treadle.tui.going_back import go_back_before, prompts, put_files_back, shown
from treadle.tui.picker import Picker, PickerRow
from treadle.types import now

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

What: TypeAlias = Literal["both", "conversation", "files"]
_WORDS: Final[tuple[tuple[What, str, str], ...]] = (
    ("both", "Conversation and files", "the files are shown first"),
    ("conversation", "Conversation only", "files are not changed"),
    ("files", "Files only", "the conversation stays; the files are shown first"),
)


async def pick_point(desk: Desk) -> None:
    """Let the user pick a prompt and go back. Raises AgentError if the journal or the saved files
    cannot be read.
    """
    if desk.conversation.is_running:
        desk.tell("A run is in progress: interrupt it first (Escape).", "warning")
        return
    runs = await prompts(desk)
    if not runs:
        desk.tell("There is no earlier point: this conversation is empty.")
        return

    async def changed(run: RunInfo) -> str:
        return await _changed(desk, run)

    rows = [
        PickerRow(
            desk.conversation.runtime.redact(run.prompt) or "(no text)", run, _detail(desk, run)
        )
        for run in reversed(runs)
    ]
    point = await desk.screen.ask(
        Picker(desk.screen, "Go back to before which prompt?", rows, preview=changed)
    )
    if point is None:
        return
    prompt = one_line(desk.conversation.runtime.redact(point.prompt), 60)
    what = await desk.screen.ask(
        Picker(
            desk.screen,
            f"What to revert since {prompt!r}?",
            [PickerRow(label, what, detail) for what, label, detail in _WORDS],
        )
    )
    if what is None:
        return
    since = runs[runs.index(point) :]
    if what != "conversation" and not await put_files_back(desk, since):
        return
    if what != "files":
        await go_back_before(desk, point)


def _detail(desk: Desk, run: RunInfo) -> str:
    calls = [count(run.tool_calls, "call")] if run.tool_calls else []
    end = (
        [run.outcome.value] if run.outcome is not None and run.outcome.value != "completed" else []
    )
    return f" {desk.theme.glyphs.dot} ".join((f"{ago(run.started_at, now())} ago", *calls, *end))


async def _changed(desk: Desk, run: RunInfo) -> str:
    """List the files that the run changed, as far as known."""
    try:
        files = await changed_files(desk.conversation.runtime.journal, [run])
    except AgentError as e:
        return one_line(e.message, 400)
    if not files:
        return "It changed no tracked file."
    return "\n".join(["It changed:", *(f"  {shown(desk, file.path)}" for file in files)])
