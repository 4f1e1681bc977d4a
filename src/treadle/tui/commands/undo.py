"""`/undo`: goes back to before the last prompt, restores its files, and puts the prompt back into
the input. Entry points: `undo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.errors import AgentError
from treadle.tui.going_back import go_back_before, prompts, put_files_back

if TYPE_CHECKING:
    from treadle.tui.desk import Desk


async def undo(desk: Desk, rest: str) -> None:
    """Go back before the last prompt. Each repetition goes back one prompt further."""
    runs, gone = await prompts(desk), desk.conversation.goes_back_to
    if gone is not None:
        runs = runs[: [run.run_id for run in runs].index(gone)]
    if not runs:
        raise AgentError("invalid", "there is no prompt to go back before")
    if await put_files_back(desk, runs[-1:]):
        await go_back_before(desk, runs[-1])
