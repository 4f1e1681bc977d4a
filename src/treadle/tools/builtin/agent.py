"""The `agent` tool: delegates a task to a named agent in a separate run.

The caller chooses the available agents; `ToolContext.spawn` starts and resumes the run. Entry
point: `AgentTool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from treadle.models.model import ToolDefinition
from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.registry import closest
from treadle.tools.subagent import PROMPT, answer_of
from treadle.tools.tool import InvalidArguments, SpawnedAgent, ToolContext, Touched
from treadle.types import Effect

SHOWN_MOST = 50
"""Maximum number of agents listed in the tool's description."""
DESCRIPTION_CHARS = 300
"""Maximum length of each agent's description."""


class AgentArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    prompt: str


class AgentTool(Builtin[AgentArguments]):
    """Tool that starts a subagent. Idempotent: a repeated call resumes the run that the first call
    started.
    """

    name = "agent"
    effect: Effect = "idempotent"
    arguments = AgentArguments
    example = '{"name": "reviewer", "prompt": "Review the change in src/app.py: …"}'
    parameters = closed_object(
        {
            "name": {"type": "string", "description": "Which agent."},
            "prompt": {"type": "string", "description": PROMPT},
        },
        required=["name", "prompt"],
    )
    delegates = True

    def __init__(self, agents: Mapping[str, SpawnedAgent[Any, Any]]) -> None:
        """Create an agent tool. `agents`: the available agents, by name."""
        super().__init__()
        self._agents = agents
        self._told: ToolDefinition | None = None

    @property
    @override
    def definition(self) -> ToolDefinition:
        if self._told is None:
            plain = super().definition
            self._told = msgspec.structs.replace(
                plain, description=f"{plain.description}\n\n{self._list()}"
            )
        return self._told

    def _list(self) -> str:
        lines = [
            f"- `{name}`: {_shortened(self._agents[name].description)}"
            for name in sorted(self._agents)[:SHOWN_MOST]
        ]
        more = len(self._agents) - len(lines)
        return "\n".join(["There are:", *lines, *([f"- and {more} more, by name"] if more else [])])

    @override
    def check(self, arguments: AgentArguments) -> None:
        if arguments.name not in self._agents:
            near = closest(arguments.name, list(self._agents))
            hint = (
                f"Did you mean {near!r}?"
                if near
                else f"There are: {', '.join(sorted(self._agents)[:SHOWN_MOST])}."
            )
            raise InvalidArguments(f"There is no agent {arguments.name[:80]!r}. {hint}")
        if not arguments.prompt.strip():
            raise InvalidArguments(
                "The prompt is empty: say what the agent should do, with all that it has to know."
            )

    @override
    def touches(self, arguments: AgentArguments, cwd: Path) -> Touched | None:
        """Return no paths or hosts. The subagent's own calls are checked individually, under the
        mode and rules of this run.
        """
        return Touched(own=True)

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: AgentArguments) -> str:
        return await answer_of(arguments.name, self._agents[arguments.name], ctx, arguments.prompt)


def _shortened(text: str) -> str:
    line = " ".join(text.split()) or "(no description)"
    return line if len(line) <= DESCRIPTION_CHARS else line[: DESCRIPTION_CHARS - 1] + "…"
