"""A checkout for each prompt: a git worktree on its own branch, separate from the user's checkout,
which is never touched.

Worktrees are outside Treadle's own folders, because tools cannot write there. changes.py compares
their contents. Entry point: `Worktrees`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from treadle._internal.crash import boundary
from treadle._internal.file_lock import take
from treadle.apps.batch.batch import Batch
from treadle.apps.batch.git import GitCommands, GitFailed
from treadle.apps.batch.logbook import WorkPlace
from treadle.errors import AgentError

BRANCHES = "treadle/"
_POLL_S = 0.01


class BatchRepository:
    """Git repository that contains the folder in which a batch was started."""

    def __init__(self, git: GitCommands, prefix: str) -> None:
        self.git = git
        """Git commands in the top folder of the user's checkout."""
        self._prefix = prefix
        """Path from the top folder to the folder of the batch; empty, or ending in a slash."""

    @classmethod
    async def of(cls, cwd: Path, environment: Mapping[str, str]) -> BatchRepository:
        """Return the repository around `cwd`. Raises GitFailed if there is none."""
        git = GitCommands(cwd, environment)
        try:
            # One at a time, because a name may contain a line feed.
            top, prefix = (
                await git("rev-parse", "--show-toplevel"),
                await git("rev-parse", "--show-prefix"),
            )
        except GitFailed as e:
            raise GitFailed(
                "invalid", f"{str(cwd)!r} is not in a git repository with a checkout ({e.message})"
            ) from e
        return cls(git.within(Path(top)), prefix)

    async def head(self) -> str:
        """Return the checked-out commit.

        Raises GitFailed if there is none yet, or it does not contain the folder of the batch.
        """
        try:
            commit = await self.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except GitFailed as e:
            raise GitFailed(
                "invalid",
                f"{str(self.git.folder)!r} has no commit yet, which a worktree needs: commit first",
            ) from e
        if self._prefix:
            try:
                await self.git(
                    "rev-parse", "--verify", "--quiet", f"HEAD:{self._prefix.rstrip('/')}"
                )
            except GitFailed as e:
                raise GitFailed(
                    "invalid",
                    (
                        f"the folder {self._prefix!r} is not committed, so no worktree would have "
                        "it: commit it first"
                    ),
                ) from e
        return commit

    async def is_changed(self) -> bool:
        """Return True if the checkout has uncommitted changes, which a worktree does not have."""
        return bool(
            await self.git(
                "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty"
            )
        )

    def worktrees(self, batch: Batch, shelf: Path) -> Worktrees:
        return Worktrees(self.git, batch, shelf, self._prefix)


class Worktrees:
    """Worktrees of one batch, in `shelf`."""

    def __init__(self, git: GitCommands, batch: Batch, shelf: Path, prefix: str) -> None:
        self._git, self._batch, self._shelf, self._prefix = git, batch, shelf, prefix

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """Serialize changes to lists of worktrees over all batches of this user, because git treats
        a half-created one as broken.

        Raises AgentError(invalid) if the shelf cannot be used.
        """
        try:
            await anyio.Path(self._shelf).mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(
                self._shelf.with_name(f"{self._shelf.name}.lock"),
                os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0),
                0o600,
            )
        except OSError as e:
            raise AgentError(
                "invalid", f"worktrees cannot be created in {str(self._shelf)!r}: {e.strerror or e}"
            ) from e
        try:
            while not take(descriptor):  # noqa: ASYNC110  the kernel does not signal a released lock
                await anyio.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def place(self, number: int) -> WorkPlace:
        """Return the path of a worktree, without creating it."""
        item = self._batch.item_id(number)
        # Tools that name things after their folder then find the usual name.
        root = self._shelf / item / (self._git.folder.name or "root")
        return WorkPlace(
            folder=str(root / self._prefix),
            root=str(root),
            branch=f"{BRANCHES}{item}",
            tree=self._batch.base,
        )

    async def make(self, place: WorkPlace) -> None:
        """Create a worktree, or leave nothing behind on failure or cancellation. Raises
        AgentError(invalid).
        """
        root, branch, base = _whole(place, self._batch)
        try:
            async with self._alone():
                boundary()
                await self._git("worktree", "add", "--quiet", "-b", branch, root, base)
                boundary()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.discard(place)
            raise

    async def discard(self, place: WorkPlace) -> None:
        """Remove an unused worktree. Raises nothing."""
        root, branch, base = _whole(place, self._batch)
        with suppress(AgentError):
            async with self._alone():
                # Twice `--force` also removes one that is locked while being created.
                await self._git("worktree", "remove", "--force", "--force", root)
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(Path(root).parent, ignore_errors=True))
        await self._drop(branch, base)

    async def is_clean(self, place: WorkPlace, tree: str) -> bool:
        """Return True if nothing was done in a worktree: `tree`, its current content, and its
        branch are still at the base.
        """
        root, branch, base = _whole(place, self._batch)
        with suppress(AgentError):
            found = await self._git.within(Path(root))(
                "rev-parse", "HEAD", f"refs/heads/{branch}", f"{base}^{{tree}}"
            )
            return found.split("\n") == [base, base, tree]
        return False

    async def remove(self, place: WorkPlace) -> bool:
        """Remove a clean worktree with its ignored files. Return False and keep it if git would
        lose something.
        """
        root, branch, base = _whole(place, self._batch)
        if await anyio.Path(root).exists():
            try:
                async with self._alone():
                    boundary()
                    await self._git("worktree", "remove", root)
                    boundary()
            except AgentError:
                return False
        with suppress(OSError):
            await anyio.Path(root).parent.rmdir()
        await self._drop(branch, base)
        return True

    async def _drop(self, branch: str, base: str) -> None:
        """Delete the branch if it is still at its base."""
        with suppress(AgentError):
            async with self._alone():
                await self._git("update-ref", "-d", f"refs/heads/{branch}", base)


def _whole(place: WorkPlace, batch: Batch) -> tuple[str, str, str]:
    """Return the root, the branch and the base of a worktree."""
    if place.root is None or place.branch is None or batch.base is None:
        raise AssertionError("it is a worktree")
    return place.root, place.branch, batch.base


def worktree_shelf(environment: Mapping[str, str]) -> Path:
    """Return the folder for worktrees: `treadle/worktrees` in the user's data folder
    (XDG_DATA_HOME, or ~/.local/share).
    """
    base = environment.get("HOME") or os.path.expanduser("~")
    given = environment.get("XDG_DATA_HOME", "")
    return Path(
        given if os.path.isabs(given) else os.path.join(base, ".local", "share"),
        "treadle",
        "worktrees",
    )
