"""What confines the commands of a run: where they may write, what they see and how much they may use, held by the operating system.

Which commands need it is the policy's to say, how it is done a leaf's (sandboxes/). Entry: `Sandbox`, `Confinement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Whether commands can be confined here, as found out by trying."""

    works: bool
    text: str
    """What works, or why nothing does and what to do about it: one line."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What the commands of one run are given. Everything else they may read at most, and secrets not even that."""

    workspace: Path
    """Absolute and real. They may write there, but for what configures agents, editors, shells and git."""
    scratch: Callable[[], Path]
    """A private directory that is their /tmp, for the whole session."""
    shown: Sequence[Path] = ()
    """Read-only, wherever it lies: files with output that was too long."""
    quarantine: Callable[[], Path]
    """Makes a new directory, outside the workspace, for what they may not leave behind. It stays."""
    is_open: bool = False
    """Somebody allowed everything (mode full, or a person said yes to this command): the network is there, and what runs elsewhere later
    may be written."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told of a command after it has ended."""

    begun: bool = True
    """False: the sandbox could not be made, and the command never ran."""
    left_behind: bool = False
    """It had left something running, which was ended."""
    quarantined: Sequence[str] = ()
    """One sentence for each file or folder that was moved away; for the model and for a person."""
    notes: Sequence[str] = ()
    """For the model."""


class Cage(Protocol):
    """One command, confined. Start `argv`, tell it the pid, and `leave` it whatever happens."""

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def pass_fds(self) -> Sequence[int]: ...

    async def entered(self, pid: int) -> int | None:
        """Lets it begin, `pid` having been started. Gives the leader of its processes as seen from here; None: it is `pid`'s own group."""
        ...

    async def leave(self) -> Left:
        """Once nothing of it runs any more. Looks at what it left, and frees what it held. Idempotent."""
        ...


class Sandbox(Protocol):
    """A way to confine commands. Safe from many tasks of one event loop."""

    @property
    def name(self) -> str: ...

    def begin(self) -> None:
        """Starts finding out whether it works, in the background, where that is not known yet."""
        ...

    async def standing(self) -> Standing:
        """Whether it works: tried, not assumed. Known at once after the first time."""
        ...

    async def cage(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: Room) -> Cage:
        """Raises AgentError(tool) for a workspace that cannot be confined."""
        ...

    async def aclose(self) -> None: ...


class Confinement(msgspec.Struct, frozen=True):
    """Where the command of one call runs."""

    sandbox: Sandbox
    room: Room

    async def cage(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Cage:
        return await self.sandbox.cage(argv, cwd, environment, self.room)
