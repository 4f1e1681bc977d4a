"""The last trusted state of a workspace, kept in Treadle's own directory while any command of any
Treadle process runs in that workspace.

The first command writes it, every later one is compared with it, and the last one to end removes
it. If the file exists while no process holds the lock, a process died before it inspected its
command's leftovers. The next command is then compared with it too, and so inspects everything that
appeared since. Locks use `flock`, which ends with the process, so a killed process blocks no other.

Limitations: the user's own control files that appeared since then are also quarantined. Writes are
not synced: after a power loss the state may be lost. Two workspaces of which one contains the
other, and worktrees of one repository, have separate states. A few microseconds pass between the
kernel releasing the lock of a killed process and ending its command, in which a new command may
begin. A process that is stopped (not ended) while it inspects delays the others. Without its own
directory, a state belongs to one `ControlFiles` in one process. Entry points: `SharedSight`,
`Watched`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle.errors import AgentError
from treadle.policy.sandboxes.replaced import State
from treadle.policy.sandboxes.sight import Sight

FOLDER = "workspaces"
_SIGHT = "sight-1.json"
"""File name, with the version of the format."""


class Watched(NamedTuple):
    """Directory that is inspected: a workspace, or the external repository of a worktree."""

    root: str
    sight: Sight
    states: dict[str, State]


class SharedSight:
    """State of one workspace that processes share. Not thread-safe: its owner has a lock."""

    def __init__(self, own: Path | None, workspace: str) -> None:
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
        self._folder = None if own is None else own / FOLDER / name
        self._running: int | None = None
        """Locked while commands of this process run in the workspace."""

    @contextmanager
    def held(self) -> Generator[None]:
        """Prevent every other process from beginning, ending and inspecting. Blocks.

        Raises AgentError(tool) if Treadle's directory cannot be written.
        """
        with self._opened("lock") as lock:
            if lock is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def is_free(self) -> bool:
        """Return whether `held` can begin without waiting."""
        with suppress(OSError, AgentError), self._opened("lock") as lock:
            if lock is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def begin(self) -> tuple[Sequence[Watched], bool]:
        """Record that a command of this process runs, inside `held`.

        Return the state from the earlier commands, and whether they died; empty if there is none.
        """
        if self._folder is None:
            return (), False
        if self._running is None:
            with self._opened("running") as running:
                assert running is not None, "there is a folder"
                self._running = os.dup(running)
        died = self._is_last()
        fcntl.flock(self._running, fcntl.LOCK_SH)
        try:
            return msgspec.convert(
                json.loads((self._folder / _SIGHT).read_bytes()), tuple[Watched, ...]
            ), died
        except FileNotFoundError:
            return (), False
        except (OSError, ValueError) as e:
            if died:
                return (), True
            self._release()
            raise AgentError(
                "tool",
                (
                    "another Treadle process runs commands here, and what it saw cannot be read "
                    f"({e}): end it first"
                ),
            ) from e

    def keep(self, watched: Sequence[Watched]) -> None:
        """Write the state, inside `held`. Raises AgentError(tool) on failure."""
        if self._folder is None:
            return
        new = self._folder / f"{_SIGHT}.new"
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(json.dumps(msgspec.to_builtins(watched)).encode())
            new.replace(self._folder / _SIGHT)
        except OSError as e:
            raise self._unwritable(e) from e

    def end(self) -> None:
        """Record that no command of this process is running, inside `held`.

        The last process removes the state.
        """
        if self._folder is None or self._running is None:
            return
        if self._is_last():
            (self._folder / _SIGHT).unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        assert self._running is not None, "called between begin and end"
        os.close(self._running)
        self._running = None

    def _is_last(self) -> bool:
        """Return whether no other process runs commands here."""
        assert self._running is not None, "asked between begin and end"
        try:
            fcntl.flock(self._running, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextmanager
    def _opened(self, name: str) -> Generator[int | None]:
        if self._folder is None:
            yield None
            return
        try:
            self._folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            fd = os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as e:
            raise self._unwritable(e) from e
        try:
            yield fd
        finally:
            os.close(fd)

    def _unwritable(self, e: OSError) -> AgentError:
        return AgentError(
            "tool",
            (
                f"{str(self._folder)!r} cannot be written ({e.strerror or e}), but the state "
                "before a command must be recorded there: fix that first"
            ),
        )
