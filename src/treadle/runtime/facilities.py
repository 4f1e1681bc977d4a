"""Resources that the runs of a runtime share: configuration, models, prices, sandbox, MCP servers.

Entry point: `Facilities`, a base class of `Runtime`.
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
    """Methods of a runtime that neither start nor read runs."""

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
        """Check that the models' providers are known. Raises AgentError(invalid)."""
        for name, model in agent.model_names():
            try:
                self.config.split(model)
            except AgentError as e:
                raise AgentError(e.kind, f"agent {name!r}: {e.message}") from e

    def set_credentials(
        self, provider: str, *, api_key: str | None = None, auth_token: str | None = None
    ) -> None:
        """Replace the key of a provider, from the next request on. Sessions and their histories are
        kept.

        Raises AgentError(invalid) for an unknown provider or an invalid key.
        """
        self._assembly.use(
            self.config.with_credentials(provider, api_key=api_key, auth_token=auth_token)
        )

    async def is_priced(self, agent: Agent[Any, Any]) -> bool:
        """Return True if all prices are known, so that a run of this agent may have a cost
        limit.
        """
        return await self._assembly.is_priced(agent)

    def redact(self, text: str) -> str:
        """Return text with known secrets masked, as every sink receives it."""
        return self._assembly.redact(text)

    async def is_confined(self, agent: Agent[Any, Any]) -> bool:
        """Return True if a working sandbox confines the commands that the agent runs without
        approval, or it has no commands.
        """
        return await self._assembly.toolboxes.confining.works_for(agent)

    def reach(self, cwd: Path) -> Reach:
        """Return a checker of paths under the configured permissions, as for a run in `cwd`.

        Create one for each decision, because it caches the targets of links. Raises
        AgentError(invalid) for an invalid rule.
        """
        return reach_of(cwd, self._assembly.toolboxes.permissions)

    def mcp_servers(self, agent: Agent[Any, Any]) -> list[ServerStatus]:
        """Return the status of the agent's servers; starts none. Blocks while it reads a file."""
        return self._assembly.served.standing(agent)
