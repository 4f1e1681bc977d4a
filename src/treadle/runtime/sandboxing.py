"""Confinement of commands: the sandbox of this machine, and the access of each command in it.

Entry point: `Confining`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from treadle.agents.agent import Agent
from treadle.config.hosts import HostList
from treadle.errors import AgentError
from treadle.events.feed import Feed
from treadle.loop.call_values import Ready
from treadle.loop.plan import Plan
from treadle.loop.tool_code import has_commands
from treadle.loop.toolbox import Toolbox
from treadle.policy.permissions import Permissions, granted
from treadle.policy.ruled_files import RuledFiles
from treadle.tools.confinement import CommandRoom, Confinement, Sandbox, SandboxStatus
from treadle.tools.spill import Spill
from treadle.types import Mode, new_id

if TYPE_CHECKING:
    from treadle.policy.sandboxes.egress import Egress

_PRIVATE = ("/tmp", "/var/tmp", "/run")
"""Directories of which confined commands see a private copy, or nothing."""
OPEN = (
    "commands have an open network (permissions.network is open): they reach every host, private "
    "networks and the servers of this machine"
)

RULED_KEPT = 100
IDLE_KEPT = 8
"""Maximum number of idle networks that are kept open.

Each takes four descriptors and two namespaces; creating a new one takes some 40 ms.
"""


class Confining:
    """Sandboxes of a runtime. The result of testing the sandbox applies to all its runs."""

    def __init__(
        self,
        wanted: str,
        own: Callable[[], Path],
        network: Literal["none", "open"] | tuple[str, ...],
    ) -> None:
        """Create the confinement of commands. `wanted`: the setting defaults.sandbox.

        `own`: Treadle's own directory, if it exists. `network`: permissions.network.
        """
        self._wanted = wanted
        self._network: Literal["none", "open"] | tuple[str, ...] = network
        self._networks: dict[str, Egress] = {}
        """Networks by family, least recently used first."""
        self._find_own = own
        self._sandbox: Sandbox | None = None
        self._warned = False
        self._ruled: dict[tuple[object, ...], RuledFiles | None] = {}
        """Ruled files by rules and workspace. Their cached directories serve every run there."""

    @property
    def _is_required(self) -> bool:
        """True with `on`, and with the sandbox of a plug-in."""
        return self._wanted not in ("auto", "off")

    async def aclose(self) -> None:
        """Close all networks. Idempotent."""
        while self._networks:
            await self._networks.popitem()[1].aclose()
        if self._sandbox is not None:
            await self._sandbox.aclose()

    async def check(self, agent: Agent[Any, Any]) -> None:
        """Raise AgentError(invalid) if the configuration requires a sandbox, the agent has
        commands, and no sandbox works.
        """
        if not self._is_required or (sandbox := self.sandbox_for(agent)) is None:
            return
        if not (standing := await sandbox.standing()).works:
            raise AgentError(
                "invalid",
                (
                    f"defaults.sandbox is {self._wanted}, and no sandbox works: {standing.text}. "
                    "Fix that, or set it to auto"
                ),
            )

    async def works_for(self, agent: Agent[Any, Any]) -> bool:
        """Return True if the agent's commands can be confined here, or if it has none."""
        sandbox = self.sandbox_for(agent)
        return (
            not any(map(has_commands, agent.own_tools))
            if sandbox is None
            else (await sandbox.standing()).works
        )

    def sandbox_for(self, agent: Agent[Any, Any]) -> Sandbox | None:
        """Return the sandbox, or None if it is not needed or disabled.

        The first call finds it and starts testing it.
        """
        if self._wanted == "off" or not any(map(has_commands, agent.own_tools)):
            return None
        if self._sandbox is None:
            from treadle.policy.sandboxes import chosen_sandbox  # noqa: PLC0415  most runs have no commands

            self._sandbox = chosen_sandbox(self._wanted, self._own)
        self._sandbox.begin()
        return self._sandbox

    def confinement(
        self, plan: Plan, ready: Ready, toolbox: Toolbox, spill: Spill
    ) -> Confinement | None:
        """Return the confinement of a call's commands, which may read the files in `spill`.

        Approved commands run outside, unless the configuration requires the sandbox.
        """
        if toolbox.sandbox is None or not has_commands(ready.tool):
            return None
        assert toolbox.standing is not None, "it is known before a command is decided"
        if not toolbox.confines or (
            ready.approved and not self._is_required and not ready.stays_confined
        ):
            return None
        is_read_only = toolbox.mode == "plan" or (ready.looks_only and not ready.approved)
        is_allowed = toolbox.mode == "full" or ready.approved
        room = CommandRoom(
            workspace=plan.cwd,
            scratch=partial(spill.folder, f"tmp-{plan.session_id or plan.run_id}"),
            shown=(*spill.directories, *own_python(plan.cwd)),
            quarantine=self._quarantine,
            is_open=is_allowed and not is_read_only,
            is_read_only=is_read_only,
            shows_secrets=is_allowed,
            is_granted=granted(toolbox.permissions, plan.cwd),
            ruled=None
            if (files := self._ruled_files(toolbox.permissions, plan.cwd)) is None
            else partial(files.look, approved=ready.approved),
            network="none"
            if is_read_only
            else "open"
            if ready.approved
            else self._network_of(plan.family)
            if toolbox.mode == "full"
            else "none",
        )
        return Confinement(toolbox.sandbox, room)

    def _ruled_files(self, permissions: Permissions, workspace: Path) -> RuledFiles | None:
        key = (permissions.rules.deny, permissions.rules.ask, permissions.home, workspace)
        if key not in self._ruled:
            if len(self._ruled) == RULED_KEPT:  # of workspaces whose runs have ended
                self._ruled.clear()
            self._ruled[key] = RuledFiles.of(permissions, workspace)
        return self._ruled[key]

    def _network_of(self, family: str) -> Literal["none", "open"] | Egress:
        """Return the network of a family. Its commands share one loopback, so that they reach
        services that others start in the background.
        """
        if isinstance(self._network, str):
            return self._network
        found = self._networks[family] = self._networks.pop(family, None) or egress_to(
            self._network
        )
        return found

    async def tidy(self) -> None:
        """Close idle networks, except for the most recently used. Sessions themselves are not
        closed.
        """
        if len(self._networks) > IDLE_KEPT:
            for network in [network for network in self._networks.values() if network.is_idle][
                :-IDLE_KEPT
            ]:
                await network.rest()

    def release(self, family: str) -> Egress | None:
        """Return the network of a family whose last command has ended. The caller closes it."""
        return self._networks.pop(family, None)

    def announced(self, agent: Agent[Any, Any], mode: Mode) -> tuple[str, ...]:
        """Return the warnings with which a run begins."""
        if mode != "full" or self._network != "open" or not any(map(has_commands, agent.own_tools)):
            return ()
        return (OPEN,)

    def announcer(self, agent: Agent[Any, Any], begun: Mode, feed: Feed) -> Callable[[Mode], None]:
        """Return a function that warns once about anything that the mode at the start did not
        announce.
        """
        is_announced = bool(self.announced(agent, begun))

        def changed(mode: Mode) -> None:
            nonlocal is_announced
            if not is_announced and (warnings := self.announced(agent, mode)):
                is_announced = True
                for warning in warnings:
                    feed.warn(warning)

        return changed

    def warner(self, mode: Mode, feed: Feed) -> Callable[[SandboxStatus], None]:
        """Return the function that reports the sandbox's status to a run: a loud warning, once, if
        nothing is confined.
        """

        def warn(standing: SandboxStatus) -> None:
            if not standing.works and not self._warned:
                self._warned = True
                instead = (
                    "in mode full they may do whatever you may"
                    if mode == "full"
                    else "commands that a sandbox would contain need approval instead"
                )
                feed.warn(f"commands are not confined: {standing.text}; {instead}")

        return warn

    @property
    def _own(self) -> Path | None:
        return own if (own := self._find_own()).is_dir() else None

    def _quarantine(self) -> Path:
        if (own := self._own) is None:
            return Path(tempfile.mkdtemp(prefix="treadle-quarantine-"))
        folder = own / "quarantine" / new_id("moved")
        folder.mkdir(parents=True, mode=0o700)
        return folder


def egress_to(hosts: tuple[str, ...]) -> Egress:
    """Return a network that reaches the listed hosts.

    It is opened when the first command needs it.
    """
    from treadle.policy.sandboxes.egress import Egress  # noqa: PLC0415  most runs have no unapproved commands

    return Egress(HostList.of(hosts, os.environ), os.environ)


def own_python(workspace: Path) -> tuple[Path, ...]:
    """Return the virtual environment of this Python if confined commands would not see it:

    `python` on their PATH is in it.
    """
    prefix = Path(os.path.realpath(sys.prefix))
    hidden = any(prefix.is_relative_to(os.path.realpath(place)) for place in _PRIVATE)
    return (
        (prefix,)
        if hidden and not prefix.is_relative_to(workspace) and not workspace.is_relative_to(prefix)
        else ()
    )
