"""Resource limits of a confined command: a control group if possible, and limits for each process.

The caller limits time and output. Entry points: `CommandLimits`, `Group`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from treadle.types import new_id

MIB = 1 << 20
_EMPTY_WITHIN_S = 1.0
_POLL_S = 0.01
_OLD_S = 3600.0
_NAME = "treadle"


def _three_quarters() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits for one command and all its descendants."""

    memory_bytes: int = msgspec.field(default_factory=_three_quarters)
    """Memory limit in bytes: of all its processes together in a control group, otherwise of
    each.
    """
    processes: int = 2_048
    """Maximum number of processes and threads."""
    file_bytes: int = 8 << 30

    def ulimits(self, *, grouped: bool) -> str:
        """Return the shell commands that set the limits. Without a group, processes are limited if
        the kernel counts them per user namespace.
        """
        limits = [f"ulimit -c 0 -f {self.file_bytes // 1024}"]
        if not grouped:
            limits.append(f"ulimit -d {self.memory_bytes // 1024}")
            if kernel() >= (5, 14):
                limits.append(f"ulimit -u {self.processes}")
        return "; ".join(limits)


def kernel() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


class _Controller(NamedTuple):
    folder: Path
    """Directory in which groups are created."""
    settings: Mapping[str, str]
    """Names of the limits by file."""


_JOIN = (
    'count=$1; shift; while [ $count -gt 0 ]; do echo 0 > "$1" || exit 1; shift; count=$((count '
    '- 1)); done; exec "$@"'
)


class Group:
    """Control group of one command. Created empty; `aclose` deletes it."""

    def __init__(self, folders: list[Path], limits: CommandLimits) -> None:
        self._folders, self._limits = folders, limits

    @classmethod
    def make(cls, limits: CommandLimits) -> Group | None:
        """Create a group; None if this process lacks permission. Blocks for less than a
        millisecond.
        """
        made: list[Path] = []
        name = new_id(_NAME)
        values = {
            "memory": str(limits.memory_bytes),
            "processes": str(limits.processes),
            "nothing": "0",
        }
        try:
            for folder, settings in _controllers():
                _sweep(folder)
                own = folder / name
                own.mkdir()
                made.append(own)
                for file, limit in settings.items():
                    _write(own / file, values[limit])
        except OSError:
            made, found = [], made
            for own in found:
                with suppress(OSError):
                    own.rmdir()
        return cls(made, limits) if made else None

    def joined(self, argv: Sequence[str]) -> list[str]:
        """Return the command that joins the group and then becomes `argv`. A thread that moves
        itself need not wait for the kernel to check all others.
        """
        files = [
            str(folder / ("tasks" if (folder / "tasks").exists() else "cgroup.procs"))
            for folder in self._folders
        ]
        return ["/bin/sh", "-c", _JOIN, "sh", str(len(files)), *files, *argv]

    def exceeded(self) -> str | None:
        """Return the name of the limit that was reached."""
        for folder in self._folders:
            if _count(folder / "memory.events", "oom_kill ") or _count(
                folder / "memory.oom_control", "oom_kill "
            ):
                return (
                    f"it used more than {self._limits.memory_bytes // MIB:,} MiB of memory, and "
                    "was killed for it"
                )
            if _count(folder / "pids.events", "max "):
                return f"it had {self._limits.processes:,} processes, and could start no more"
        return None

    async def aclose(self) -> None:
        """Delete the group, once nothing runs in it. Idempotent."""
        with anyio.move_on_after(_EMPTY_WITHIN_S, shield=True):
            while self._folders:
                try:
                    self._folders[-1].rmdir()
                except FileNotFoundError:
                    pass
                except OSError:  # the last of its processes has not been reaped yet
                    await anyio.sleep(_POLL_S)
                    continue
                self._folders.pop()


_swept: set[Path] = set()


def _sweep(folder: Path) -> None:
    """Delete empty groups whose creators were killed, once per process. Recent ones are kept,
    because a process may be about to join them.
    """
    if folder in _swept:
        return
    _swept.add(folder)
    for old in folder.glob(f"{_NAME}_*"):
        with suppress(OSError):  # not empty, or removed by another process
            if time.time() - old.stat().st_mtime > _OLD_S:
                old.rmdir()


def _controllers() -> Iterator[_Controller]:
    """Yield the controllers of this process. Raises OSError if there are none."""
    ours = [
        line.strip().split(":", 2)
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    ]
    mounts = _mounts()
    v1 = {name: path for _, names, path in ours for name in names.split(",")}
    if {"memory", "pids"} <= v1.keys() & mounts.keys():
        yield _Controller(
            _below(mounts["memory"], v1["memory"]), {"memory.limit_in_bytes": "memory"}
        )
        yield _Controller(_below(mounts["pids"], v1["pids"]), {"pids.max": "processes"})
        return
    yield _Controller(
        _delegated(Path(mounts["unified"]), v1.get("", "/")),
        {"memory.max": "memory", "memory.swap.max": "nothing", "pids.max": "processes"},
    )


def _mounts() -> dict[str, str]:
    """Return the mount point of each controller; `unified` is version 2. Raises OSError if there is
    none.
    """
    found: dict[str, str] = {}
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            found.setdefault("unified", place)
        elif kind == "cgroup":
            found.update((option, place) for option in options.split(","))
    if not found:
        raise FileNotFoundError("no control groups are mounted")
    return found


def _below(mount: str, path: str) -> Path:
    return Path(mount + path.rstrip("/"))


def _delegated(mount: Path, path: str) -> Path:
    """Return the nearest ancestor group in which a limited one can be created. Ours contains
    processes, so it cannot contain limited groups.

    Raises OSError.
    """
    ours = mount / path.strip("/")
    for folder in ours.parents if ours != mount else (mount,):
        if not folder.is_relative_to(mount):
            break
        if {"memory", "pids"} <= set(
            (folder / "cgroup.subtree_control").read_text().split()
        ) and os.access(folder, os.W_OK):
            return folder
    raise PermissionError(f"no control group above {path} can be divided")


def _write(file: Path, value: str) -> None:
    with open(file, "w", encoding="ascii") as opened:
        opened.write(value)


def _count(file: Path, key: str) -> int:
    with suppress(OSError, ValueError):
        return next(
            (
                int(line.removeprefix(key))
                for line in file.read_text(encoding="ascii").splitlines()
                if line.startswith(key)
            ),
            0,
        )
    return 0
