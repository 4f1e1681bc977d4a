"""Where the commands of runs are confined: the sandbox that works here, and the room that each command gets in it. Entry: `Confining`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from treadle.agent import Agent
from treadle.calls import Ready
from treadle.errors import AgentError
from treadle.execution import Toolbox, has_commands
from treadle.feed import Feed
from treadle.plan import Plan
from treadle.sandbox import Confinement, Room, Sandbox, Standing
from treadle.spill import Spill
from treadle.types import Mode, new_id

_PRIVATE = ("/tmp", "/var/tmp", "/run")
"""Of which confined commands see their own, or nothing."""


class Confining:
    """One for each runtime: what was found out about the sandbox holds for all its runs."""

    def __init__(self, wanted: Literal["auto", "on", "off"], own: Callable[[], Path]) -> None:
        """`wanted`: the setting defaults.sandbox. `own`: where treadle keeps its own files, if that is there."""
        self._wanted = wanted
        self._find_own = own
        self._sandbox: Sandbox | None = None
        self._warned = False

    async def aclose(self) -> None:
        """Idempotent."""
        if self._sandbox is not None:
            await self._sandbox.aclose()

    async def check(self, agent: Agent[Any, Any]) -> None:
        """Raises AgentError(invalid) where the configuration insists on a sandbox, the agent has commands, and none works."""
        if self._wanted != "on" or (sandbox := self.sandbox_for(agent)) is None:
            return
        if not (standing := await sandbox.standing()).works:
            raise AgentError("invalid", f"defaults.sandbox is on, and no sandbox works: {standing.text}. Mend that, or set it to auto")

    async def works_for(self, agent: Agent[Any, Any]) -> bool:
        """Whether its commands can be confined here, or it has none."""
        sandbox = self.sandbox_for(agent)
        return not any(map(has_commands, agent.own_tools)) if sandbox is None else (await sandbox.standing()).works

    def sandbox_for(self, agent: Agent[Any, Any]) -> Sandbox | None:
        """None where nobody needs or wants it. It is found, and begins to find out whether it works, when it is first asked for."""
        if self._wanted == "off" or not any(map(has_commands, agent.own_tools)):
            return None
        if self._sandbox is None:
            from treadle.sandboxes import find_sandbox  # noqa: PLC0415  most runs have no commands

            self._sandbox = find_sandbox(self._own)
        self._sandbox.begin()
        return self._sandbox

    def confinement(self, plan: Plan, ready: Ready, toolbox: Toolbox, spill: Spill) -> Confinement | None:
        """Where the commands of a call run, which may read what is in `spill`. What a person said yes to runs outside, unless the configuration insists."""
        if toolbox.sandbox is None or not has_commands(ready.tool):
            return None
        assert toolbox.standing is not None, "it is known before a command is decided"
        if not toolbox.confines or (ready.approved and self._wanted != "on"):
            return None
        room = Room(
            workspace=plan.cwd,
            scratch=partial(spill.folder, f"tmp-{plan.session_id or plan.run_id}"),
            shown=(*spill.directories, *own_python(plan.cwd)),
            quarantine=self._quarantine,
            is_open=toolbox.mode == "full" or ready.approved,
        )
        return Confinement(toolbox.sandbox, room)

    def warner(self, mode: Mode, feed: Feed) -> Callable[[Standing], None]:
        """What a run is to call with what was found out: says loudly, once, that nothing is confined."""

        def warn(standing: Standing) -> None:
            if not standing.works and not self._warned:
                self._warned = True
                instead = "in mode full they may do whatever you may" if mode == "full" else "what a sandbox would let run unasked needs approval instead"
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


def own_python(workspace: Path) -> tuple[Path, ...]:
    """The environment of the Python that runs us, where confined commands would not see it: `python` on their PATH is in it."""
    prefix = Path(os.path.realpath(sys.prefix))
    hidden = any(prefix.is_relative_to(os.path.realpath(place)) for place in _PRIVATE)
    return (prefix,) if hidden and not prefix.is_relative_to(workspace) and not workspace.is_relative_to(prefix) else ()
