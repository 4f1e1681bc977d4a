"""Changes in a folder between two moments, determined by git without touching the folder or its
repository.

A moment is a git tree of the working tree: tracked files, and untracked ones that are not ignored.
It is written to a separate object store that the repository does not see. Entry point:
`WorkingTreeChanges`.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread

from treadle.apps.batch.git import GitCommands, GitFailed
from treadle.apps.batch.report import Diff

UNTRACKED_BYTES_MAX = 5 * 1024 * 1024
"""Maximum size of an untracked file. Larger ones are omitted, because they would have to be
copied.
"""


class WorkingTreeChanges:
    """Changes of one working tree.

    `store`: directory for the objects of moments, created on demand.
    """

    def __init__(self, git: GitCommands, store: Path) -> None:
        """Create a comparison. `git`: commands in the top folder of the working tree."""
        self._git = git
        self._store = store
        self._objects: Path | None = None

    async def moment(self) -> str:
        """Return a tree of the current content. Raises GitFailed."""
        index = await self._path("index")
        try:
            self._store.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(prefix="treadle-index-") as private:
                copy = Path(private, "index")
                if index.exists():
                    await anyio.to_thread.run_sync(shutil.copyfile, index, copy)
                beside = await self._beside(GIT_INDEX_FILE=str(copy))
                git = await beside.without_filters()
                await git("add", "--update", "--ignore-errors", ".")
                unknown = (await git("ls-files", "--others", "--exclude-standard", "-z")).split(
                    "\0"
                )
                small = await anyio.to_thread.run_sync(
                    lambda: [name for name in unknown if self._is_small(name)]
                )
                await git(
                    "update-index",
                    "--add",
                    "--remove",
                    "-z",
                    "--stdin",
                    stdin=b"".join(os.fsencode(name) + b"\0" for name in small),
                )
                return await git("write-tree")
        except OSError as e:
            raise GitFailed(
                "invalid",
                f"the index of {str(self._git.folder)!r} cannot be copied: {e.strerror or e}",
            ) from e

    async def between(self, before: str, after: str) -> Diff:
        """Compare two moments or commits. Raises GitFailed."""
        git = await self._beside()
        lines = (
            await git(
                "diff-tree",
                "-r",
                "-z",
                "--numstat",
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
                before,
                after,
            )
        ).split("\0")
        counts = [line.split("\t")[:2] for line in lines if line]
        return Diff(
            files=len(counts),
            added=sum(_number(added) for added, _ in counts),
            removed=sum(_number(removed) for _, removed in counts),
        )

    async def _path(self, name: str) -> Path:
        """Return a path of the repository. Each path needs a separate call, because a name may
        contain a line feed.
        """
        return self._git.folder / await self._git("rev-parse", "--git-path", name)

    async def _beside(self, **environment: str) -> GitCommands:
        if self._objects is None:
            self._objects = await self._path("objects")
        alternate = str(self._objects)
        if ":" in alternate or alternate.startswith('"'):
            alternate = '"' + alternate.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return self._git.within(
            self._git.folder,
            GIT_OBJECT_DIRECTORY=str(self._store),
            GIT_ALTERNATE_OBJECT_DIRECTORIES=alternate,
            **environment,
        )

    def _is_small(self, name: str) -> bool:
        if not name or name.endswith("/"):  # another repository
            return False
        try:
            found = os.lstat(self._git.folder / name)
        except OSError:
            return False
        return stat.S_ISLNK(found.st_mode) or (
            stat.S_ISREG(found.st_mode) and found.st_size <= UNTRACKED_BYTES_MAX
        )


def _number(count: str) -> int:
    """Return a count as an int; 0 for the `-` of a binary file."""
    return int(count) if count.isdecimal() else 0
