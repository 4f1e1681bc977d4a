"""Confinement of a run's commands by the operating system: write access, visibility and resource
limits.

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
    """Result of testing whether commands can be confined on this machine."""

    works: bool
    text: str
    """One-line description: what works, or why confinement is unavailable and how to fix it."""


class Ruled(NamedTuple):
    """Files and directories that the user's rules protect from commands, including everything below
    each directory. Absolute paths without links.
    """

    hidden: Sequence[str] = ()
    """Paths that cannot be read."""
    fixed: Sequence[str] = ()
    """Paths that cannot be written."""
    denied: Sequence[str] = ()
    """Paths in `fixed` whose creation cannot be approved: a new one is quarantined after the
    command.
    """
    too_many: str = ""
    """Reason why the sandbox cannot protect all of these paths; empty if it can. `denied` is
    complete in either case.
    """


def _nothing_is(path: str) -> bool:
    return False


class NetworkGate(msgspec.Struct, frozen=True, kw_only=True):
    """The only way out of an isolated network to listed hosts: a proxy on its loopback."""

    port: int
    """Port on 127.0.0.1."""
    enter: Sequence[str] = ()
    """Command prefix that runs a command inside the network."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A listening socket for a proxy. Its opener closes it."""

    listening: socket.socket
    enter: Sequence[str] = ()
    descriptors: Sequence[int] = ()
    """Open descriptors that keep the network in existence."""


class Network(Protocol):
    """Network of confined commands, with the hosts they can reach and a shared loopback.

    May be used from any task of one event loop.
    """

    async def open(self, listen: Callable[[], Opening]) -> NetworkGate:
        """Open the network if it is not open yet. `listen` may block. Raises OSError."""
        ...

    def hold(self, is_over: Callable[[], bool]) -> None:
        """Keep the network open for a command, from before its start until `is_over`.

        A network that no command holds may be closed; the next command then opens it again.
        """
        ...

    def take_refused(self) -> Sequence[str]:
        """Return one sentence for each host that was blocked since the last call."""
        ...


class CommandRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Access of the commands of one run. Everything that is not listed here is at most readable,
    except secrets.
    """

    workspace: Path
    """Absolute, resolved path.

    Commands may write there, except to files that configure agents, editors, shells and git.
    """
    scratch: Callable[[], Path]
    """Private directory that serves as /tmp for the whole session."""
    shown: Sequence[Path] = ()
    """Directory that is readable wherever it is located: files with truncated output."""
    quarantine: Callable[[], Path]
    """Create a new directory, outside the workspace, for files that commands must not leave there.
    It is not deleted.
    """
    is_open: bool = False
    """True if everything is allowed (mode full, or an approved command), including writes to files
    that other programs execute later. Never combined with `is_read_only`.
    """
    is_read_only: bool = False
    """True if only `scratch` is writable. Nothing is then checked after the command, because it
    cannot change the workspace.
    """
    shows_secrets: bool = False
    """True if files of the workspace that probably contain a secret are visible."""
    is_granted: Callable[[str], bool] = _nothing_is
    """Return True for a secret in the workspace, by absolute path, that a rule of the user makes
    readable.
    """
    ruled: Callable[[], Ruled] | None = None
    """Return the files that currently match the user's rules. Blocks.

    Raises AgentError(tool) if they cannot be determined.
    """
    network: Literal["none", "open"] | Network | NetworkGate = "none"
    """`open`: the machine's own network and loopback.

    A `Network` that is open is passed as its `NetworkGate`.
    """


class CommandNotes(msgspec.Struct, frozen=True, kw_only=True):
    """Notes about a command after it has ended."""

    begun: bool = True
    """False if the sandbox could not be set up, so that the command never ran."""
    left_behind: bool = False
    """True if the command left processes running, which were terminated."""
    quarantined: Sequence[str] = ()
    """One sentence for each file or directory that was moved to quarantine, for the model and the
    user.
    """
    notes: Sequence[str] = ()
    """Notes for the model."""
    refused: Sequence[str] = ()
    """One sentence for each host that the command tried to reach and was denied, for the model and
    the user.
    """


class Cage(Protocol):
    """Confinement of one command. Start `argv`, pass its pid to `entered`, and always call
    `leave`.
    """

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def pass_fds(self) -> Sequence[int]: ...

    async def entered(self, pid: int) -> int | None:
        """Let the command begin, once `pid` has started.

        Return the leader of its processes as seen from outside the sandbox. None: `pid` leads its
        own group.
        """
        ...

    async def leave(self) -> CommandNotes:
        """Check what the command left behind, and release its resources. Call it after all its
        processes have ended.

        Idempotent.
        """
        ...


class Sandbox(Protocol):
    """Implementation of confinement. May be used from many tasks of one event loop."""

    @property
    def name(self) -> str: ...

    def begin(self) -> None:
        """Start testing in the background whether the sandbox works, unless the result is known."""
        ...

    async def standing(self) -> SandboxStatus:
        """Return whether confinement works, by trying it. The first result is cached."""
        ...

    async def cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> Cage:
        """Prepare the confinement of one command. Raises AgentError(tool) for a workspace that
        cannot be confined.
        """
        ...

    async def aclose(self) -> None: ...


class Confinement(msgspec.Struct, frozen=True):
    """Room, sandbox and network of one call's command."""

    sandbox: Sandbox
    room: CommandRoom

    async def cage(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Cage:
        return await self.sandbox.cage(argv, cwd, environment, self.room)
