"""New files covered by a `deny` rule for writing: quarantined after the command that created them.
Entry: `ruled_before`, `taken_away`.

Existing files are mounted read-only while a command runs; a file that does not exist yet cannot be
mounted over.
"""

from __future__ import annotations

from treadle.errors import AgentError
from treadle.policy.sandboxes.quarantine import put_away
from treadle.tools.confinement import CommandRoom, Ruled


def ruled_before(room: CommandRoom) -> Ruled:
    """Return the files that rules protect from a command.

    Raises AgentError(tool) if there are too many to protect them all.
    """
    ruled = Ruled() if room.ruled is None else room.ruled()
    if ruled.too_many:
        raise AgentError("tool", ruled.too_many)
    return ruled


def taken_away(room: CommandRoom, before: Ruled) -> list[str]:
    """Return a sentence for each file or directory that was quarantined: its name and its new
    location. Blocks.
    """
    assert room.ruled is not None, "a room without rules has no such files"
    try:
        after = room.ruled().denied
    except AgentError as e:
        return [
            (
                f"Files that a rule denies writing may have been created: {e.message}. Look at "
                "the workspace"
            )
        ]
    kept = tuple(f"{path}/" for path in before.fixed)
    root = f"{room.workspace}/"
    said: list[str] = []
    for path in after:
        if path in before.fixed or path.startswith(kept) or not path.startswith(root):
            continue
        inside = path[len(root) :]
        try:
            where = put_away(str(room.workspace), inside, room.quarantine())
        except OSError as e:
            said.append(
                f"{inside!r} appeared, although a rule denies writing it, and could not be moved "
                f"away: {e.strerror or e}. Check it"
            )
        else:
            said.append(
                f"{inside!r} appeared, although a rule denies writing it: it was moved to {where!r}"
            )
    return said
