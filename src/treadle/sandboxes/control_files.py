"""What of a workspace a confined command may not write: control files, found before it runs, and looked for again afterwards.

Which names are guarded is guarded_paths.py's to say. Not here: how they are made read-only (bubblewrap.py). Entry: `ControlFiles`.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from treadle import guarded_paths
from treadle.guarded_paths import Guard, guard_of
from treadle.wildcards import wildcards

MAX_FOLDERS = 2_000
"""Looked into, those near the top first. What lies deeper is not protected, and documented so."""
QUICK_FOLDERS = 200
NOT_LOOKED_INTO = frozenset(
    {
        "node_modules", "bower_components", "site-packages", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache",
        ".gradle", ".terraform", "target",
    }
)  # fmt: skip
"""Full of other people's files, where no agent and no editor looks for its own."""
OF_GIT = ("config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules", "worktrees")
"""Of a .git folder: what names programs that git runs, or leads to where such things stand. The rest is written by every commit."""
GROWS = frozenset({"modules", "worktrees"})
"""Of those: what commands of git that anybody may run when everything is allowed add to."""
CLOCK_STEP_NS = 20_000_000
"""The kernel stamps files by a coarser clock."""
_BARE = frozenset({"HEAD", "objects", "refs"})
"""A folder with these is a repository to git, whatever it is called."""
_SECRET = re.compile(r"\.env(?:\..+)?|\.netrc|\.pgpass|\.pypirc|\.git-credentials|id_(?:rsa|dsa|ecdsa|ed25519)", re.IGNORECASE)
"""In a workspace only names that never are code: a `secrets.py` or a test's key that came out empty would break what it belongs to."""
_PUBLIC = re.compile(r"\.(?:example|sample|template|dist|defaults|schema)$", re.IGNORECASE)
_PLAIN_SECTIONS = re.compile(r"\[(?:core|user|init|pull|push|color|remote \"[^\"]*\"|branch \"[^\"]*\")\]", re.IGNORECASE)
_PLAIN = """
repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks name email defaultbranch rebase default url fetch merge remote
"""
_PLAIN_KEYS = frozenset(_PLAIN.split())


class Found(NamedTuple):
    """By its path below the workspace."""

    path: str
    kind: str
    """`file`, `folder`, `link`, or `git`: a folder of git, in which only some things are guarded."""
    identity: tuple[int, int, str]
    """Of a link: device, inode and target. Links cannot be made read-only; they are put back."""
    is_bare: bool = False
    """Part of a folder that git takes for a repository without a .git."""


class Sight(NamedTuple):
    """A workspace at one moment."""

    guarded: Mapping[str, Found]
    secrets: Sequence[Found]
    at_ns: int = 0
    is_whole: bool = True
    """False: there are more folders than are looked into."""


class _Folder(NamedTuple):
    changed: int
    """ctime in ns: it moves with every entry that comes or goes, and nobody can set it."""
    guarded: tuple[Found, ...]
    secrets: tuple[Found, ...]
    folders: tuple[str, ...]


class ControlFiles:
    """Of one workspace. What a folder held is remembered until the folder changes, so that looking again costs a stat for each.

    Safe from many threads. The lock guards `_inside` and `_before`, which belong together.
    """

    def __init__(self, workspace: Path) -> None:
        self._root = str(workspace)
        self._known: dict[str, _Folder] = {}
        self._lock = Lock()
        self._inside = 0
        """Commands that run in the workspace now, those in the background too."""
        self._before = Sight({}, ())
        """What there was when the first of them began."""

    @property
    def is_quick(self) -> bool:
        """Looking again takes less than a change of threads."""
        return 0 < len(self._known) <= QUICK_FOLDERS

    def enter(self, *, is_open: bool) -> Sight:
        """What there is before a command; the caller calls `leave` after it."""
        sight = self.look(is_open=is_open)
        with self._lock:
            if not self._inside:
                self._before = self.look(is_open=False) if is_open else sight
            self._inside += 1
        return sight

    def leave(self, quarantine: Callable[[], Path], *, is_open: bool) -> list[str]:
        """Moves away what has come up since the first command began that still runs. One sentence for each: what it was and where it is now."""
        with self._lock:
            self._inside -= 1
            return self._clear(self._before, quarantine, is_open=is_open)

    def look(self, *, is_open: bool) -> Sight:
        """`is_open`: what runs elsewhere later, such as the workflows of CI, is not guarded. Blocks; raises nothing."""
        guarded: dict[str, Found] = {}
        secrets: list[Found] = []
        waiting, looked_into = deque([""]), 0
        while waiting and looked_into < MAX_FOLDERS:
            looked_into += 1
            folder = self._folder(waiting.popleft())
            if folder is None:
                continue
            for found in folder.guarded:
                if is_open and guard_of(f"/w/{found.path}") is Guard.REVIEWED:
                    continue
                guarded[found.path] = found
                if found.kind == "git":
                    guarded.update((inside.path, inside) for inside in self._of_git(found.path, is_open=is_open))
            secrets += folder.secrets
            waiting += folder.folders
        return Sight(guarded, secrets, time.time_ns(), is_whole=not waiting)

    def _folder(self, path: str) -> _Folder | None:
        try:
            changed = os.lstat(os.path.join(self._root, path)).st_ctime_ns
            known = self._known.get(path)
            if known is not None and known.changed == changed:
                return known
            with os.scandir(os.path.join(self._root, path)) as entries:
                known = _sorted_out(path, changed, list(entries))
        except OSError:  # gone, or not ours to read
            return None
        self._known[path] = known
        return known

    def _of_git(self, path: str, *, is_open: bool) -> Iterator[Found]:
        for name in OF_GIT:
            if not (is_open and name in GROWS) and (found := _found(os.path.join(self._root, path, name), f"{path}/{name}")) is not None:
                yield found

    # ------------------------------------------------------------ afterwards

    def _clear(self, before: Sight, quarantine: Callable[[], Path], *, is_open: bool) -> list[str]:
        seen = self.look(is_open=is_open)
        after, is_whole = seen.guarded, before.is_whole and seen.is_whole
        said: list[str] = []
        moved: list[str] = []
        place: Path | None = None
        for path, found in sorted(after.items()):
            if not _is_new(found, before.guarded.get(path)) or not (is_whole or self._changed_since(path, before.at_ns)):
                continue
            if path.startswith(tuple(f"{gone}/" for gone in moved)) or self._is_plain_git(path, after):
                continue
            place = place or quarantine()
            said.append(self._moved(path, place, before.guarded.get(path)))
            moved.append(path)
        return said

    def _changed_since(self, path: str, at_ns: int) -> bool:
        """Its ctime, which nobody can set: tells what came up from what merely had not been looked at."""
        try:
            return os.lstat(os.path.join(self._root, path)).st_ctime_ns >= at_ns - CLOCK_STEP_NS
        except OSError:
            return False

    def _moved(self, path: str, place: Path, old: Found | None) -> str:
        target = place / path.replace("/", "-")
        try:
            with _opened_above(self._root, path) as (above, name):
                _move(above, name, os.path.join(self._root, path), target)
                if old is not None and old.kind == "link":
                    with suppress(OSError):
                        os.symlink(old.identity[2], name, dir_fd=above)
        except OSError as e:
            return f"{path!r} came up, which configures what runs later, and could not be moved away: {e.strerror or e}. Look at it"
        return f"{path!r} came up, which configures what runs later: it was moved to {str(target)!r}"

    def _is_plain_git(self, path: str, after: Mapping[str, Found]) -> bool:
        """Part of a new repository as `git init` and `git clone` make it: nothing in it names a program."""
        inside = path.rpartition("/")[0]
        is_inside = after[path].is_bare or (inside in after and after[inside].kind == "git")
        root = path if after[path].kind == "git" else inside if is_inside else None
        return root is not None and _is_plain(os.path.join(self._root, root))


@contextmanager
def _opened_above(root: str, path: str) -> Generator[tuple[int, str]]:
    """The folder that `path` lies in, open, and its name there. No link is followed: a command that still runs may have put one in the way."""
    *folders, name = path.split("/")
    above = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = inner
        yield above, name
    finally:
        os.close(above)


def _move(above: int, name: str, path: str, target: Path) -> None:
    """`path`: where it lies, for systems that have no names for open folders."""
    try:
        os.rename(name, target, src_dir_fd=above)
    except OSError as e:
        if e.errno != errno.EXDEV:
            raise
        opened = f"/proc/self/fd/{above}"
        shutil.move(f"{opened}/{name}" if os.path.isdir(opened) else path, target)


def _is_new(found: Found, before: Found | None) -> bool:
    return before is None or ("link" in (before.kind, found.kind) and found.identity != before.identity)


def _is_plain(folder: str) -> bool:
    try:
        if any(not name.endswith(".sample") for name in os.listdir(os.path.join(folder, "hooks"))):
            return False
    except FileNotFoundError:
        pass
    except OSError:
        return False
    if any(os.path.lexists(os.path.join(folder, name)) for name in ("config.worktree", "commondir", "gitdir", "info/attributes", "objects/info/alternates")):
        return False
    try:
        if not stat.S_ISREG(os.lstat(os.path.join(folder, "config")).st_mode):
            return False
        text = Path(folder, "config").read_text(encoding="utf-8")[:65_536]
    except (OSError, UnicodeError):
        return False
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return all(_PLAIN_SECTIONS.fullmatch(line) if line.startswith("[") else _is_plain_setting(line) for line in lines)


def _is_plain_setting(line: str) -> bool:
    key, _, value = (part.strip() for part in line.partition("="))
    return key.lower() in _PLAIN_KEYS and "\\" not in value and not value.startswith("ext::")


# ---------------------------------------------------------------- one folder


def _sorted_out(folder: str, changed: int, entries: Sequence[os.DirEntry[str]]) -> _Folder:
    guarded: list[Found] = []
    secrets: list[Found] = []
    folders: list[str] = []
    names, pattern = _guarded_names()
    for entry in entries:
        name = entry.name
        path = f"{folder}/{name}" if folder else name
        lower = name.casefold()
        if (lower in names or not name.isascii() or pattern.fullmatch(lower)) and guard_of(f"/w/{path}") is not None:
            if (found := _found(entry.path, path)) is not None:
                guarded.append(found)
            if not (name == ".github" and entry.is_dir(follow_symlinks=False)):
                continue
        if _SECRET.fullmatch(name) and not _PUBLIC.search(name):
            if (found := _found(entry.path, path)) is not None:
                secrets.append(found)
        elif name not in NOT_LOOKED_INTO and entry.is_dir(follow_symlinks=False):
            folders.append(path)
    if {entry.name for entry in entries} >= _BARE:
        for name in ("HEAD", "config", "hooks"):
            path = f"{folder}/{name}" if folder else name
            place = next((entry.path for entry in entries if entry.name == name), None)
            if place is not None and (found := _found(place, path)) is not None:
                guarded.append(found._replace(is_bare=True))
    return _Folder(changed, tuple(guarded), tuple(secrets), tuple(folders))


def _found(place: str, path: str) -> Found | None:
    try:
        known = os.lstat(place)
        mode = known.st_mode
        if stat.S_ISLNK(mode):
            return Found(path, "link", (known.st_dev, known.st_ino, os.readlink(place)))
    except OSError:
        return None
    is_folder = stat.S_ISDIR(mode)
    kind = "git" if is_folder and path.rpartition("/")[2].casefold() == ".git" else "folder" if is_folder else "file"
    return Found(path, kind, (known.st_dev, 0, ""))


@lru_cache(maxsize=1)
def _guarded_names() -> tuple[frozenset[str], re.Pattern[str]]:
    """The last names of guarded paths: whatever is called otherwise need not be looked at more closely."""
    tables = (guarded_paths.SEALED, guarded_paths.INSTRUCTS, guarded_paths.REVIEWED)
    last = {line.rpartition("/")[2].casefold() for table in tables for line in table.split() if not line.startswith("/")}
    patterns = "|".join(wildcards(name, ".") for name in last if set(name) & set("*?"))
    return frozenset(name for name in last if not set(name) & set("*?")), re.compile(patterns or r"(?!)")
