"""Agents of a worker: each run uses the definition in its own directory, as with `runs resume`.
Entry points: `Agents`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from treadle.cli.agent_of_run import agent_of_run, schema_of
from treadle.cli.agent_option import ASSISTANT, ChosenAgent, defined_agent, made_agent, module_hooks
from treadle.cli.exits import CommandFailed
from treadle.config import Config, load
from treadle.config.workspace import narrower
from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.agents.agent import Agent
    from treadle.agents.definitions import Catalog
    from treadle.config.serving import Schedule
    from treadle.journal.run_info import RunInfo
    from treadle.runtime.runtime import Runtime


class Agents:
    """Agents with which a worker drives runs.

    Agents that `--agent` selects from the worker's own folder take precedence over those of a run's
    folder.
    """

    def __init__(self, config: Config, runtime: Runtime, flags: Mapping[str, Any]) -> None:
        self._config, self._runtime, self._flags = config, runtime, flags
        self._hooks = module_hooks(config)
        self._own: frozenset[str] = frozenset()

    def register(self, names: Sequence[str]) -> None:
        """Register agents of this folder. Raises AgentError(invalid) with all problems of a
        definition.
        """
        for name in dict.fromkeys(names):
            self._register(name, defined_agent)
        self._own = frozenset(names)

    def schedules(self, warn: Callable[[str], None]) -> dict[str, Schedule]:
        """Return the schedules whose agents this folder defines. The other schedules start no runs
        here.
        """
        kept: dict[str, Schedule] = {}
        for name, schedule in self._config.schedules.items():
            try:
                self._register(schedule.agent, made_agent)
            except AgentError as e:
                warn(f"the schedule {name!r} starts no runs here: {e.message}")
            else:
                kept[name] = schedule
        return kept

    def _register(self, name: str, make: Callable[[Config, Catalog, str], ChosenAgent]) -> None:
        if name in self._runtime.agents:
            return
        if name == ASSISTANT:
            from treadle.agents.coding import coding_agent  # noqa: PLC0415  it brings the tools

            self._runtime.agents.register(
                replace(coding_agent(self._config, Path.cwd()).agent, limits=self._config.limits)
            )
            return
        from treadle.agents.definitions import Catalog  # noqa: PLC0415  it brings the library for YAML

        chosen = make(self._config, Catalog(self._config, Path.cwd()), name)
        for agent in (*chosen.others, replace(chosen.agent, limits=chosen.limits)):
            if agent.name not in self._runtime.agents:
                self._runtime.agents.register(agent)

    async def of(self, info: RunInfo) -> Agent[Any, Any] | None:
        """Return the agent of a run; None if the runtime should resolve it by name.

        Raises AgentError(invalid) if the run cannot be driven here.
        """
        if not await anyio.Path(info.cwd).is_dir():
            raise AgentError(
                "invalid", f"its directory {info.cwd!r} does not exist on this machine"
            )
        if info.agent in self._own:
            return None
        schema = await schema_of(self._runtime.journal, info.run_id)
        return await anyio.to_thread.run_sync(self._found, info, schema)

    def _found(self, info: RunInfo, schema: dict[str, object] | None) -> Agent[Any, Any]:
        cwd = Path(info.cwd)
        there = load(cwd=cwd, flags=dict(self._flags))
        self._check_rules(there, cwd)
        try:
            found = agent_of_run(info, there, cwd, schema=schema)
        except CommandFailed as e:
            raise AgentError("invalid", e.message) from e
        for other in found.others:
            if other.name not in self._runtime.agents:
                self._runtime.agents.register(other)
        if there.agents == self._config.agents:
            return found.agent
        more = [hook for hook in module_hooks(there) if hook not in self._hooks]
        return replace(found.agent, hooks=(*more, *found.agent.hooks))

    def _check_rules(self, there: Config, cwd: Path) -> None:
        """Check that the worker enforces the rules of the run's project, because it has a single
        set of rules for all runs.

        Raises AgentError(invalid) if it would drop some.
        """
        for name in ("ask", "deny"):
            own, theirs = getattr(self._config.permissions, name), getattr(there.permissions, name)
            if missing := [rule for rule in theirs if rule not in own]:
                where = there.origin("permissions", name)
                raise AgentError(
                    "invalid",
                    (
                        f"{where} has rules that this worker does not have ({name}: "
                        f"{missing[0]!r}): start one in {str(cwd)!r} for its runs"
                    ),
                )
        if narrower(self._config.permissions.network, there.permissions.network, ()) is not None:
            where = there.origin("permissions", "network")
            raise AgentError(
                "invalid",
                (
                    f"{where} allows less of the network than this worker: start one in "
                    f"{str(cwd)!r} for its runs"
                ),
            )
