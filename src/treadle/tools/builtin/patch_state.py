"""Detection of whether a patch was applied, from the contents of its files.

Records of what the model has read are lost with the process; contents are not. Entry point:
`probe_patch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.tools.builtin import files
from treadle.tools.builtin.edit import decoded
from treadle.tools.builtin.patch_format import FileChange
from treadle.tools.builtin.patches import patch
from treadle.tools.tool import DidNotHappen, Happened, ProbeAnswer, ToolContext, ToolFailed

_State: TypeAlias = Literal["before", "after", "unknown"]


def probe_patch(ctx: ToolContext[Any], changes: Sequence[FileChange]) -> ProbeAnswer:
    """Return whether the patch was applied, judging by the contents of all its files. None if they
    disagree or are ambiguous.
    """
    said = [state for change in changes for state in _states(ctx, change)]
    if all(state == "after" for state in said):
        names = ", ".join(
            files.shown(files.place_of(change.paths[-1], ctx), ctx.cwd) for change in changes
        )
        return Happened(f"Patched, as the files show: {names}.")
    return DidNotHappen() if all(state == "before" for state in said) else None


def _states(ctx: ToolContext[Any], change: FileChange) -> Iterator[_State]:
    try:
        now = files.load(files.place_of(change.path, ctx))
        if change.kind == "add":
            yield (
                "before"
                if now is None
                else "after"
                if now.data == change.content.encode()
                else "unknown"
            )
        elif change.kind == "delete" or change.move_to is not None:
            yield "after" if now is None else "before"
        else:
            yield "unknown" if now is None or not now.is_whole else _updated_state(now, change)
        if change.move_to is not None:
            yield "before" if files.load(files.place_of(change.move_to, ctx)) is None else "after"
    except (OSError, ToolFailed, UnicodeError):
        yield "unknown"


def _updated_state(now: files.Loaded, change: FileChange) -> _State:
    """Classify the content: "before" if only the patch fits, "after" if only its inverse does, else
    "unknown".
    """
    _, document = decoded(now, change.path)
    may_be_before = _fits(lambda: patch(document, change))
    _, document = decoded(now, change.path)
    may_be_after = _fits(lambda: patch(document, _opposite(change)))
    return "unknown" if may_be_before == may_be_after else "before" if may_be_before else "after"


def _fits(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except ToolFailed:
        return False
    return True


def _opposite(change: FileChange) -> FileChange:
    signs = {"+": "-", "-": "+", " ": " "}
    hunks = [
        msgspec.structs.replace(
            hunk, lines=tuple([(signs[sign], text) for sign, text in hunk.lines])
        )
        for hunk in change.hunks
    ]
    return msgspec.structs.replace(change, hunks=tuple(hunks))
