"""Termination of a program with all its descendants.

Its process group is found on every system. On Linux, descendants that left the group are also
found, through their parents and a marker in their environment. Elsewhere a process that called
setsid is missed. See also: starting and reading (bash.py). Entry point: `Tree`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import anyio
import msgspec
from anyio import to_thread

MARK = "TREADLE_PROCESS_TREE"
"""Environment variable that marks the descendants of one command."""
GRACE_S = 0.5
"""Time between SIGTERM and SIGKILL."""
_DEATH_S = 2.0
"""Time after which a killed process is considered stuck in the kernel."""
_POLL_S = 0.01


class ProcessIdentity(NamedTuple):
    pid: int
    started: str
    """Start time. A pid may be reused; pid and start time together are unique."""


class Tree(msgspec.Struct, frozen=True):
    """Processes started by the leader of a process group. `mark` is the value of MARK in its
    environment.
    """

    leader: int
    mark: str
    started: str = ""
    """Start time of the leader, as `ProcessIdentity.started`. Needed because its pid and group may
    be reused after it ends. Empty if unknown.
    """
    inside: ProcessIdentity | None = None
    """First process of a sandbox: it leads the working group, and its end terminates every process
    in the sandbox.
    """

    async def end(self) -> None:
        """Send SIGTERM to the group, wait half a second, then call `kill`. Call it shielded,
        because it also ends cancelled commands.
        """
        before = await to_thread.run_sync(self._members)
        if self.inside is None and self._has_group:
            _signal_group(self.leader, signal.SIGTERM)
        elif self.inside is not None and is_alive(self.inside):
            _signal_group(self.inside.pid, signal.SIGTERM)
        with anyio.move_on_after(GRACE_S):
            await self.group_ended()
        await self.kill(before)

    async def kill(self, before: frozenset[ProcessIdentity] = frozenset()) -> None:
        """Send SIGKILL to all processes, including new ones, until none is left. `before`:
        processes found earlier.
        """
        if self.inside is not None:
            await self._kill_inside(self.inside)
            return
        found = before | await to_thread.run_sync(self._members)
        with anyio.move_on_after(_DEATH_S):
            while found or self._lives():
                self.kill_now()
                for one in found:
                    if seen(one.pid) == one:
                        _signal(one.pid, signal.SIGKILL)
                await anyio.sleep(_POLL_S)
                found = await to_thread.run_sync(self._members)

    async def _kill_inside(self, first: ProcessIdentity) -> None:
        """Kill the sandbox's init process, so that the kernel kills all others."""
        with anyio.move_on_after(_DEATH_S):
            while is_alive(first) or self._lives():
                self.kill_now()
                await anyio.sleep(_POLL_S / 5)

    def kill_now(self) -> None:
        """Send one SIGKILL to each process without waiting."""
        if self.inside is not None and is_alive(self.inside):
            _signal(self.inside.pid, signal.SIGKILL)
        if self._has_group:
            _signal_group(self.leader, signal.SIGKILL)

    @property
    def _has_group(self) -> bool:
        """Return False if the leader's pid was reused: the group with that id is then unrelated."""
        now = seen(self.leader)
        return not self.started or now is None or now.started == self.started

    def _lives(self) -> bool:
        return self._has_group and _group_lives(self.leader)

    async def group_ended(self) -> None:
        """Wait until no process of the group is left."""
        while self._lives():  # noqa: ASYNC110  the kernel does not signal that a group has become empty
            await anyio.sleep(_POLL_S)

    def _members(self) -> frozenset[ProcessIdentity]:
        """Return all known members; empty without /proc. Blocks for about 20 µs per process of this
        machine.
        """
        processes, leader = list(_processes()), self.leader if self._has_group else -1
        inside = {
            p.pid
            for p in processes
            if leader in (p.pid, p.group, p.session) or _has_mark(p.pid, self.mark)
        }
        size = -1
        while size != len(inside):
            size = len(inside)
            inside |= {p.pid for p in processes if p.parent in inside}
        return frozenset(
            ProcessIdentity(p.pid, p.started)
            for p in processes
            if p.pid in inside and p.state not in "ZX"
        )


def tree_of(leader: int, mark: str, inside: int | None = None) -> Tree:
    """Return the tree of a program that has just been started."""
    known = seen(leader)
    return Tree(
        leader,
        mark,
        "" if known is None else known.started,
        None if inside is None else seen(inside),
    )


# ---------------------------------------------------------------- signals


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _group_lives(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):  # no such group, or no permission
        return False
    # The kernel counts zombies as members.
    processes = [p for p in _processes() if p.group == leader]
    return not processes or any(p.state not in "ZX" for p in processes)


# ---------------------------------------------------------------- /proc


class _Process(NamedTuple):
    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: str


def _processes() -> Iterator[_Process]:
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return
    for pid in pids:
        if (process := _process(pid)) is not None:
            yield process


def _process(pid: int) -> _Process | None:
    """Read a process from /proc. None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    # "pid (name) state ppid pgrp session …": the name may contain anything, including blanks and
    # brackets; the start time is field 22.
    fields = text.rpartition(")")[2].split()
    return (
        _Process(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), fields[19])
        if len(fields) > 19
        else None
    )


def is_alive(one: ProcessIdentity) -> bool:
    """Return True if the process runs. False for a zombie, and if the pid was reused."""
    process = _process(one.pid)
    return process is not None and process.started == one.started and process.state not in "ZX"


def seen(pid: int) -> ProcessIdentity | None:
    """Return the process that now has this pid. None if there is none, or no /proc."""
    process = _process(pid)
    return ProcessIdentity(pid, process.started) if process is not None else None


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False
