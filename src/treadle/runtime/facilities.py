"""What the runs of a runtime share and need: configuration, models, prices, sandbox, MCP servers.

Entry point: `Facilities`, which `Runtime` has its methods from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.errors import AgentError
from treadle.models.registry import Models
from treadle.policy.paths import Reach
from treadle.policy.policy import reach_of
from treadle.runtime.assembly import Assembly

if TYPE_CHECKING:
    from treadle.tools.mcp import ServerStatus


class Facilities:
    """Methods of a runtime that start no run and read none."""

    _assembly: Assembly

    @property
    def config(self) -> Config:
        """Configuration in effect."""
        return self._assembly.config

    @property
    def models(self) -> Models:
        """Models by name, with their connections."""
        return self._assembly.models

    def _check_models(self, agent: Agent[Any, Any]) -> None:
        """Raises AgentError(invalid) for a model of an unknown provider."""
        for name, model in agent.model_names():
            try:
                self.config.split(model)
            except AgentError as e:
                raise AgentError(e.kind, f"agent {name!r}: {e.message}") from e

    def set_credentials(
        self, provider: str, *, api_key: str | None = None, auth_token: str | None = None
    ) -> None:
        """Another key for a provider, from the next request on; sessions and their histories stay.

        Raises AgentError(invalid) for an unknown provider or a key that cannot be one.
        """
        self._assembly.use(
            self.config.with_credentials(provider, api_key=api_key, auth_token=auth_token)
        )

    async def is_priced(self, agent: Agent[Any, Any]) -> bool:
        """True if all prices are known, so that a run of this agent may have a limit on money."""
        return await self._assembly.is_priced(agent)

    def redact(self, text: str) -> str:
        """Without known secrets: what every sink is given."""
        return self._assembly.redact(text)

    async def is_confined(self, agent: Agent[Any, Any]) -> bool:
        """Return True if a working sandbox confines the commands that the agent runs without
        approval, or it has no commands.
        """
        return await self._assembly.toolboxes.confining.works_for(agent)

    def reach(self, cwd: Path) -> Reach:
        """Return a judge of paths by the configured permissions, as for a run in `cwd`.

        Make one for each decision, because it caches where links lead. Raises AgentError(invalid)
        for an invalid rule.
        """
        return reach_of(cwd, self._assembly.toolboxes.permissions)

    def mcp_servers(self, agent: Agent[Any, Any]) -> list[ServerStatus]:
        """Return the status of the agent's servers; starts none. Blocks while it reads a file."""
        return self._assembly.served.standing(agent)
