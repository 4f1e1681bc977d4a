"""Control files of a workspace, which a confined command must not write: found before it runs, and
checked again afterwards.

guarded_paths.py has the guarded names, repositories.py detects git repositories, leftovers.py
quarantines new files, and bubblewrap.py makes files read-only. Entry point: `ControlFiles`.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from treadle._internal.stamps import CLOCK_STEP_NS, Stamp, stamp_of
from treadle.policy.sandboxes.git_settings import named_places
from treadle.policy.sandboxes.leftovers import clear, staying
from treadle.policy.sandboxes.replaced import kept_as_they_are, replaced, states_of
from treadle.policy.sandboxes.shared_sight import SharedSight, Watched
from treadle.policy.sandboxes.sight import NOT_LOOKED_INTO, FoundPath, Sight
from treadle.policy.sandboxes.walking import WalkedFolder, WorkspaceWalk, found_at, sorted_out
from treadle.policy.sandboxes.worktree import repository_of

MAX_GUARDED = 100_000
"""Maximum number of directories whose control files are made read-only, topmost first.

Deeper ones are only checked afterwards.
"""
MAX_FOLDERS = 100_000
"""Maximum number of inspected directories. Exceeding it is reported."""
QUICK_FOLDERS = 200
DIED = (
    "Treadle ended before it inspected what an earlier command left behind: everything that has "
    "appeared since that command began has now been inspected"
)
LOST = (
    "Treadle ended before it inspected what an earlier command left behind, and what was there "
    "before cannot be read: look at the workspace"
)


class ControlFiles:
    """Control files of one workspace. Directory contents are cached until the directory changes, so
    that another look costs one stat per directory.

    Safe for use by many threads, and by many processes with the same own directory. The lock guards
    `_inside`, `_trusted` and `_note`, which belong together, and every look that is compared with
    them.
    """

    def __init__(self, workspace: Path, own: Path | None = None) -> None:
        """Create a check of control files. `own`: Treadle's directory, which no command can
        write.
        """
        self._root = str(workspace)
        self._known: dict[tuple[str, bool], WalkedFolder] = {}
        self._lock = Lock()
        self._shared = SharedSight(own, self._root)
        self._inside = 0
        """Number of this process's commands that currently run in the workspace, including
        background ones.
        """
        self._trusted: Sequence[Watched] = ()
        """State when the first command of any process began: of the workspace, and of the external
        repository if it is a worktree.
        """
        self._note = ""
        """Note for the next inspection, set if a process died before it inspected its command's
        leftovers.
        """
        self._writable: set[str] = set()
        """Directories outside the workspace that commands may write, without links."""

    @property
    def is_quick(self) -> bool:
        """True if another look is faster than switching threads."""
        return 0 < len(self._known) <= QUICK_FOLDERS and self._shared.is_free()

    def enter(self, *, is_open: bool, scratch: Path | None = None) -> Sight:
        """Return the state before a command, which may also write `scratch`. The caller must call
        `leave` after it.

        Blocks while another command is inspected. Raises AgentError(tool) if Treadle's directory
        cannot be written.
        """
        with self._lock, self._shared.held():
            self._writable |= set() if scratch is None else {os.path.realpath(scratch)}
            sight = self.look(is_open=is_open, is_before=True)
            sight = self._with_named(sight, named_places(self._root, sight))
            if not self._inside:
                last, (self._trusted, died) = self._trusted, self._shared.begin()
                self._note = "" if not died else DIED if self._trusted else LOST
                if not self._trusted:
                    self._trusted = self._watched(sight, last)
                    self._shared.keep(self._trusted)
            self._inside += 1
        return sight

    def leave(self, quarantine: Callable[[], Path], *, is_open: bool) -> list[str]:
        """Quarantine files that appeared since the start of the oldest command that still runs.
        Returns one sentence for each: what it was and where it is now.
        """
        with self._lock, self._shared.held():
            self._inside -= 1
            said = self._clear(self._trusted, quarantine, is_open=is_open)
            if self._note == LOST or (self._note and said):
                said = [self._note, *said]
            self._note = ""
            if not self._inside:
                self._shared.end()
            return said

    def _watched(self, sight: Sight, last: Sequence[Watched]) -> list[Watched]:
        known = {watched.root: watched.states for watched in last}
        sights = [(self._root, sight), *self._look_outside()]
        return [
            Watched(root, one, states_of(root, kept_as_they_are(one), known.get(root, {})))
            for root, one in sights
        ]

    def look(self, *, is_open: bool, is_before: bool = False) -> Sight:
        """Inspect the workspace and return its guarded files. Blocks; never raises. `is_open`:
        files that run elsewhere later, such as CI workflows, are not guarded.

        `is_before`: skip package directories, where nothing is made read-only; new files there are
        recognised by their ctime.
        """
        seen = WorkspaceWalk(
            self._root, is_open=is_open, writable=tuple(self._writable), is_before=is_before
        )
        waiting, looked_into, near = deque([("", False)]), 0, 0
        unread, bare = set[str](), list[tuple[str, bool]]()
        at_ns = time.time_ns()
        while waiting and looked_into < MAX_FOLDERS:
            looked_into += 1
            path, is_foreign = waiting.popleft()
            folder = self._folder(path, is_foreign=is_foreign)
            if folder is None:
                unread.add(path)
                continue
            near += not is_foreign
            is_near = near <= MAX_GUARDED and not is_foreign
            for found in folder.guarded:
                seen.add(found, is_near=is_near)
            if folder.is_bare:
                bare.append((path, is_near))
            inside = (
                (inner, is_foreign or inner.rpartition("/")[2] in NOT_LOOKED_INTO)
                for inner in folder.folders
            )
            waiting += (pair for pair in inside if not (is_before and pair[1]))
            led_to = [seen.add_link(link, is_foreign=is_foreign) for link in folder.links]
            waiting += ((inner, False) for inner in led_to if inner is not None)
        for path, is_near in bare:
            seen.add_repository(path, "bare", is_near=is_near)
        return seen.sight(at_ns, unread, is_whole=not waiting)

    def _folder(self, path: str, *, is_foreign: bool) -> WalkedFolder | None:
        try:
            stamp = stamp_of(os.lstat(os.path.join(self._root, path)))
            known = self._known.get((path, is_foreign))
            if known is not None and known.stamp == stamp:
                return known
            is_settled = stamp.is_settled()
            with os.scandir(os.path.join(self._root, path)) as entries:
                known = sorted_out(path, stamp, list(entries), is_foreign=is_foreign)
        except FileNotFoundError:
            return WalkedFolder(Stamp(), (), (), (), is_bare=False)
        except OSError:
            return None
        if is_settled:
            self._known[path, is_foreign] = known
        return known

    def _with_named(self, sight: Sight, named: frozenset[str]) -> Sight:
        there: dict[str, FoundPath] = {}
        for path in named:
            real = os.path.relpath(os.path.realpath(os.path.join(self._root, path)), self._root)
            if (
                not real.startswith("../")
                and (found := found_at(os.path.join(self._root, real), real)) is not None
            ):
                there[real] = found._replace(kind="file" if found.kind == "file" else "folder")
        return sight._replace(
            guarded={**sight.guarded, **there}, seen={**sight.seen, **there}, named=named
        )

    def _look_outside(self) -> list[tuple[str, Sight]]:
        found = repository_of(Path(self._root))
        if found is None:
            return []
        whole, own = found
        self._writable.add(str(whole))
        root = str(whole.parent)
        seen = WorkspaceWalk(root, is_open=True)
        seen.add_repository(whole.name, "git", is_near=True, is_alone=True)
        seen.add_repository(os.path.relpath(own, root), "worktree", is_near=True)
        return [(root, seen.sight(time.time_ns(), set(), is_whole=True))]

    # ------------------------------------------------------------ afterwards

    def _clear(
        self, trusted: Sequence[Watched], quarantine: Callable[[], Path], *, is_open: bool
    ) -> list[str]:
        before = trusted[0].sight
        after = self._opened(before, self.look(is_open=is_open), is_open=is_open)
        after = self._with_named(
            after, before.named | named_places(self._root, staying(self._root, before, after))
        )
        afterwards = dict([(self._root, after), *self._look_outside()])
        said: list[str] = []
        for root, sight, states in trusted:
            if root in afterwards:
                said += clear(
                    root, sight, afterwards[root], quarantine, since_ns=before.at_ns - CLOCK_STEP_NS
                )
            said += replaced(root, kept_as_they_are(sight), states, quarantine)
        if before.is_whole and not after.is_whole:
            said.append(
                f"the workspace now has more than {MAX_FOLDERS:,} folders: the deepest ones were "
                "not inspected for files that run later. Look at them"
            )
        return said

    def _opened(self, before: Sight, after: Sight, *, is_open: bool) -> Sight:
        """Make directories readable again that a command has made unreadable, because git can still
        use their contents.
        """
        while new := after.unread - before.unread:
            opened = [_is_opened(os.path.join(self._root, path)) for path in new]
            if not any(opened):
                break
            before = before._replace(
                unread=before.unread
                | {path for path, is_open in zip(new, opened, strict=True) if not is_open}
            )
            after = self.look(is_open=is_open)
        return after


def _is_opened(place: str) -> bool:
    try:
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            return False
        os.chmod(place, stat.S_IMODE(os.lstat(place).st_mode) | 0o700)
        with os.scandir(place):
            return True
    except OSError:
        return False
