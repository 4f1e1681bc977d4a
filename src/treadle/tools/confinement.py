"""Confinement of a run's commands by the operating system: where they may write, what they see and
how much they may use.

The policy decides which commands need it; sandboxes/ implements it. Entry points: `Sandbox`,
`Confinement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    import socket


class SandboxStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Result of testing whether commands can be confined here."""

    works: bool
    text: str
    """Description in one line: what works, or why nothing does and what to do about it."""


class Ruled(NamedTuple):
    """Files and folders that rules of the user keep from commands: absolute, without links, and all
    below each of them.
    """

    hidden: Sequence[str] = ()
    """Paths that cannot be read."""
    fixed: Sequence[str] = ()
    """Paths that cannot be written."""
    denied: Sequence[str] = ()
    """Paths in `fixed` that no person can approve: a new one is moved away after the command."""
    too_many: str = ""
    """Why no command can be kept from all of them; empty if one can.

    `denied` is complete all the same.
    """


def _nothing_is(path: str) -> bool:
    return False


class NetworkGate(msgspec.Struct, frozen=True, kw_only=True):
    """The one way from a network of its own to listed hosts: a proxy on its loopback."""

    port: int
    """Port on 127.0.0.1."""
    enter: Sequence[str] = ()
    """Words before a command, which take it into the network."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A listening socket for a proxy. Its opener closes it."""

    listening: socket.socket
    enter: Sequence[str] = ()
    descriptors: Sequence[int] = ()
    """Open descriptors that keep the network in existence."""


class Network(Protocol):
    """Network of confined commands: the hosts that they can reach, and a loopback that they share.

    All tasks of one event loop can use it.
    """

    async def open(self, listen: Callable[[], Opening]) -> NetworkGate:
        """Open the network unless it is open. `listen` may block. Raises OSError."""
        ...

    def hold(self, is_over: Callable[[], bool]) -> None:
        """Keep the network open for a command, from before its start until `is_over`.

        A network that no command holds may be closed; the next command then opens it again.
        """
        ...

    def take_refused(self) -> Sequence[str]:
        """Return one sentence for each host that was refused since the last call."""
        ...


class CommandRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Access that the commands of one run have. They may at most read everything else, except
    secrets.
    """

    workspace: Path
    """Absolute and real.

    They may write there, but for what configures agents, editors, shells and git.
    """
    scratch: Callable[[], Path]
    """A private directory that is their /tmp, for the whole session."""
    shown: Sequence[Path] = ()
    """Read-only, wherever it lies: files with output that was too long."""
    quarantine: Callable[[], Path]
    """Makes a new directory, outside the workspace, for what they may not leave behind. It stays.
    """
    is_open: bool = False
    """True if everything is allowed (mode full, or an approved command): files that run elsewhere
    later may be written. Never together with `is_read_only`.
    """
    is_read_only: bool = False
    """True if nothing but `scratch` can be written. The command leaves nothing in the workspace, so
    nothing is checked after it.
    """
    shows_secrets: bool = False
    """Files of the workspace that likely hold a secret are in view."""
    is_granted: Callable[[str], bool] = _nothing_is
    """True for a secret of the workspace, by its absolute path, that a rule of the user allows to
    be read.
    """
    ruled: Callable[[], Ruled] | None = None
    """Returns the files that match the user's rules, as they are now. Blocks.

    Raises AgentError(tool) if they cannot be determined.
    """
    network: Literal["none", "open"] | Network | NetworkGate = "none"
    """`open`: the network of the machine, with its loopback.

    A `Network` is open once it is a `NetworkGate`.
    """


class CommandNotes(msgspec.Struct, frozen=True, kw_only=True):
    """Notes about a command after it has ended."""

    begun: bool = True
    """False: the sandbox could not be made, and the command never ran."""
    left_behind: bool = False
    """True if the command had left processes running, which were ended."""
    quarantined: Sequence[str] = ()
    """One sentence for each file or folder that was moved away, for the model and the user."""
    notes: Sequence[str] = ()
    """Notes for the model."""
    refused: Sequence[str] = ()
    """One sentence for each host that a command requested and could not reach, for the model and
    the user.
    """


class Cage(Protocol):
    """Confinement of one command. Start `argv`, pass it the pid, and always `leave` it."""

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def pass_fds(self) -> Sequence[int]: ...

    async def entered(self, pid: int) -> int | None:
        """Lets it begin, `pid` having been started.

        Gives the leader of its processes as seen from here; None: it is `pid`'s own group.
        """
        ...

    async def leave(self) -> CommandNotes:
        """Once nothing of it runs any more. Looks at what it left, and frees what it held.

        Idempotent.
        """
        ...


class Sandbox(Protocol):
    """A way to confine commands. Safe from many tasks of one event loop."""

    @property
    def name(self) -> str: ...

    def begin(self) -> None:
        """Starts finding out whether it works, in the background, where that is not known yet."""
        ...

    async def standing(self) -> SandboxStatus:
        """Return whether confinement works, as found by trying it. Cached after the first time."""
        ...

    async def cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> Cage:
        """Raises AgentError(tool) for a workspace that cannot be confined."""
        ...

    async def aclose(self) -> None: ...


class Confinement(msgspec.Struct, frozen=True):
    """Room, sandbox and network of one call's command."""

    sandbox: Sandbox
    room: CommandRoom

    async def cage(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Cage:
        return await self.sandbox.cage(argv, cwd, environment, self.room)
