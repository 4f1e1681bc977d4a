"""Leftovers of a command that may be executed later: found by comparing a workspace before and
after, and quarantined.

Entry points: `clear`, `put_away`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from treadle.policy.sandboxes.quarantine import put_away
from treadle.policy.sandboxes.repositories import (
    RepositoryFolder,
    flaws,
    gitfile_target,
    is_plain_part,
    last_changed,
)
from treadle.policy.sandboxes.sight import NOT_LOOKED_INTO, FoundPath, Sight

MAX_SAID = 20
"""Maximum number of sentences about one command. Limited because the command chooses the names in
them.
"""
MAX_PATH = 3_500
"""Maximum length in bytes of a path whose directory can be listed, with room for a name."""


def shortened(said: list[str]) -> list[str]:
    """Return the first sentences, and one for the rest."""
    return (
        said
        if len(said) <= MAX_SAID
        else [*said[:MAX_SAID], f"and {len(said) - MAX_SAID} more like these"]
    )


class _Leftover(NamedTuple):
    path: str
    why: str
    old: FoundPath | None = None
    """Previous link, which is restored."""


_INTO = "is a link to where nothing is inspected for files that run later"
_NEW = "is new and decides what runs later"
_DEEP = "is nested too deeply to be inspected for files that run later"
_RUNS = "leads git to a program or out of the workspace"


def clear(
    root: str, before: Sight, after: Sight, quarantine: Callable[[], Path], *, since_ns: int
) -> list[str]:
    """Quarantine new files that are not plain. Return one sentence for each: what it was and where
    it is now.
    """
    compared = _Compared(root, before, after, since_ns)
    said: list[str] = []
    moved: list[str] = []
    place: Path | None = None
    # `.git` files last, because their targets may have been moved
    for leftovers in (compared.leftovers, lambda: compared.gitfiles(moved)):
        for leftover in sorted(leftovers(), key=lambda leftover: leftover.path):
            if (
                not leftover.path.startswith(tuple(f"{gone}/" for gone in moved))
                and leftover.path not in moved
            ):
                place = place or quarantine()
                said.append(_moved(root, leftover, place))
                moved.append(leftover.path)
    said += compared.veiled()
    for path in sorted(after.unread - before.unread):
        if len(os.fsencode(f"{root}/{path}")) > MAX_PATH:
            said.append(_moved(root, _Leftover(path, _DEEP), quarantine()))
        else:
            said.append(
                f"{path!r} cannot be listed, so it was not inspected for files that run later. "
                "Check it"
            )
    return said


def staying(root: str, before: Sight, after: Sight) -> Sight:
    """Return `after` without new repositories that will be quarantined, and `.git` files that point
    to them, because a command can choose their target.
    """
    kept = {
        path: one
        for path, one in after.repositories.items()
        if path in before.repositories or not flaws(root, one)
    }
    seen = {
        path: one
        for path, one in after.seen.items()
        if not _is_gitfile(one) or path in before.seen or gitfile_target(root, path) in kept
    }
    return after._replace(repositories=kept, seen=seen)


class _Compared(NamedTuple):
    root: str
    before: Sight
    after: Sight
    since_ns: int

    def leftovers(self) -> Iterator[_Leftover]:
        for found in self.after.seen.values():
            old = self.before.seen.get(found.path)
            if found.is_part or found.kind == "git" or _is_gitfile(found):
                continue
            if found.kind == "into":
                if found.leads and (self._is_new(found, old) or _leads_elsewhere(found, old)):
                    yield _Leftover(found.path, _INTO, _link(old))
            elif self._is_new(found, old):
                # the link is removed
                if not any(
                    found.path.startswith(f"{folder}/")
                    for folder in self.after.opened - self.before.opened
                ):
                    yield _Leftover(found.path, _NEW, _link(old))
            elif _leads_elsewhere(found, old):
                yield _Leftover(self._led_to(found), _NEW)
        for path, repository in self.after.repositories.items():
            known = self.before.repositories.get(path)
            if known is None or known.kind != repository.kind:
                yield from self._of_new(repository)
            else:
                yield from self._of_known(repository, known)

    def veiled(self) -> Iterator[str]:
        """Yield a sentence for each file that git does not show. These files are kept: sparse
        checkouts also mark files, but have none there.
        """
        for path, repository in self.after.repositories.items():
            known = self.before.repositories.get(path)
            new = repository.veiled - known.veiled if known is not None else frozenset[bytes]()
            tree = os.fsencode(os.path.join(self.root, os.path.dirname(path)))
            names = sorted(
                name
                for name in new
                if repository.kind != "git"
                or name.startswith(b"refs/replace/")
                or os.path.lexists(os.path.join(tree, name))
            )
            if names:
                listed = ", ".join(repr(os.fsdecode(name)) for name in names[:3])
                yield (
                    f"{path!r} now hides changes from git status and git diff ({len(names)} in "
                    f"all): {listed}. `git ls-files -v` marks such files with h or S, `git "
                    "replace -l` lists such objects"
                )

    def gitfiles(self, moved: list[str]) -> Iterator[_Leftover]:
        for found in self.after.seen.values():
            if not _is_gitfile(found) or not self._is_new(found, self.before.seen.get(found.path)):
                continue
            target = gitfile_target(self.root, found.path)
            if target not in self.after.repositories or any(
                f"{target}/".startswith(f"{gone}/") or gone.startswith(f"{target}/")
                for gone in moved
            ):
                yield _Leftover(found.path, _NEW)

    def _of_new(self, repository: RepositoryFolder) -> Iterator[_Leftover]:
        names = flaws(self.root, repository)
        if not names or not (self._was_looked_at(repository.path) or self._is_recent(repository)):
            return
        if repository.kind != "bare":
            yield _Leftover(repository.path, _NEW)
            return
        there = [*repository.parts, *repository.pending, *self._heads(repository)]
        for name in there:
            path = f"{repository.path}/{name}" if repository.path else name
            if name in self._heads(repository) or path not in self.before.seen:
                yield _Leftover(path, _NEW)

    def _of_known(
        self, repository: RepositoryFolder, known: RepositoryFolder
    ) -> Iterator[_Leftover]:
        inside = f"{repository.path}/" if repository.path else ""
        for name in repository.parts:
            found, old = self.after.seen.get(inside + name), self.before.seen.get(inside + name)
            if found is None:
                continue
            if self._is_new(found, old):
                if not is_plain_part(self.root, repository, name):
                    yield _Leftover(inside + name, _NEW, _link(old))
            elif _leads_elsewhere(found, old):
                yield _Leftover(self._led_to(found), _NEW)
        for name, lines in repository.pending.items():
            if not lines <= known.pending.get(name, frozenset()):
                yield _Leftover(inside + name, _RUNS)
        now, then = (
            self.after.changed.get(repository.path),
            self.before.changed.get(repository.path),
        )
        if now is not None and then is not None and now > then:
            for name in flaws(self.root, repository):
                if name in repository.parts:
                    yield _Leftover(inside + name, _NEW)

    def _was_looked_at(self, path: str) -> bool:
        """Return True if a file without an earlier record must be new."""
        opened = max(
            (folder for folder in self.before.opened if path.startswith(f"{folder}/")),
            key=len,
            default="",
        )
        return (
            self.before.is_whole
            and self.after.is_whole
            and NOT_LOOKED_INTO.isdisjoint(path[len(opened) :].split("/"))
        )

    def _heads(self, repository: RepositoryFolder) -> list[str]:
        folder = os.path.join(self.root, repository.path)
        with suppress(OSError):
            return [name for name in os.listdir(folder) if name.casefold() == "head"]
        return []

    def _led_to(self, found: FoundPath) -> str:
        """Return the new target of an old link; the link itself if its target is outside the
        workspace.
        """
        return (
            os.path.relpath(found.leads, self.root)
            if found.leads.startswith(f"{self.root}/")
            else found.path
        )

    def _is_new(self, found: FoundPath, old: FoundPath | None) -> bool:
        if old is not None:
            return found.kind != old.kind or (
                found.kind in ("link", "into") and found.identity != old.identity
            )
        return self._was_looked_at(found.path) or self._changed_at(found.path) >= self.since_ns

    def _is_recent(self, repository: RepositoryFolder) -> bool:
        names = [*repository.pending, *self._heads(repository), ""]
        if last_changed(os.path.join(self.root, repository.path)) >= self.since_ns:
            return True
        return any(
            self._changed_at(os.path.join(repository.path, name)) >= self.since_ns for name in names
        )

    def _changed_at(self, path: str) -> int:
        """Return the ctime, which no program can set. It distinguishes new files from those that
        were not inspected before.
        """
        try:
            return os.lstat(os.path.join(self.root, path)).st_ctime_ns
        except OSError:
            return 0


def _link(old: FoundPath | None) -> FoundPath | None:
    """Return the link to restore."""
    return old if old is not None and old.kind in ("link", "into") else None


def _leads_elsewhere(found: FoundPath, old: FoundPath | None) -> bool:
    return old is not None and found.leads not in ("", old.leads)


def _is_gitfile(found: FoundPath) -> bool:
    return found.kind == "file" and found.path.rpartition("/")[2].casefold() == ".git"


# ---------------------------------------------------------------- moving


def _moved(root: str, leftover: _Leftover, place: Path) -> str:
    try:
        where = put_away(root, leftover.path, place, leftover.old)
    except OSError as e:
        return (
            f"{leftover.path!r} {leftover.why}, and could not be moved away: {e.strerror or e}. "
            "Check it"
        )
    return f"{leftover.path!r} {leftover.why}: it was moved to {where!r}"
