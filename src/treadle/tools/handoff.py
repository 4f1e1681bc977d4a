"""A handoff as a tool: the model calls it, and another agent continues the run.

The loop hands the run over once the calls of the turn have their results. Entry points: `Handoff`,
`handoff`, `HandoffTool`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, cast, get_args

from treadle._internal.json_text import JsonText, decode_json
from treadle._internal.other_names import hinted
from treadle.errors import AgentError
from treadle.messages.message import Message
from treadle.models.model import ToolDefinition
from treadle.tools.run_context import Given, RunContext, check_arity
from treadle.tools.tool import (
    DepsIn,
    InvalidArguments,
    OutOf,
    ProbeAnswer,
    SpawnedAgent,
    ToolContext,
    Touched,
)
from treadle.types import Effect

HistoryName: TypeAlias = Literal["all", "none", "summary"]
HandoffHistory: TypeAlias = (
    "HistoryName | Callable[[RunContext[Any], list[Message]], Given[Sequence[Message]]]"
)
"""Messages that the next agent sees: all of the conversation, only the prompt of the run, only a
summary that the calling agent writes, or those that a function returns."""

REASON = "Why the other agent takes over, in one sentence."
SUMMARY = (
    "Summary of the conversation for the other agent, with all the information it needs and what "
    "the user wants: it does not see the conversation."
)
_HISTORY = "def history(ctx: RunContext[Deps], messages: list[Message]) -> list[Message]"


@dataclass(frozen=True, slots=True)
class Handoff(Generic[DepsIn, OutOf]):
    """An agent to which another one can hand the conversation, as `handoff` makes it.

    Attributes:
        agent: The next agent, or its name.
        description: When to hand over, for the model of the calling agent.
        history: Messages that the next agent sees in this run.
    """

    agent: SpawnedAgent[DepsIn, OutOf] | str
    description: str = ""
    history: HandoffHistory = "all"

    def __post_init__(self) -> None:
        if not self.name:
            raise AgentError(
                "invalid", f"a handoff is to an agent or its name, not to {self.agent!r:.80}"
            )
        if callable(self.history):
            check_arity(self.history, f"handoff to {self.name!r}: history=", _HISTORY, arguments=2)
        elif self.history not in get_args(HistoryName):
            raise AgentError(
                "invalid",
                f"handoff to {self.name!r}: history={self.history!r} is not one of: "
                f"{', '.join(get_args(HistoryName))}; or pass a function: {_HISTORY}",
            )

    @property
    def name(self) -> str:
        """Name of the next agent."""
        agent = cast("object", self.agent)
        found = agent if isinstance(agent, str) else getattr(agent, "name", "")
        return found if isinstance(found, str) else ""


@hinted
def handoff(
    agent: SpawnedAgent[DepsIn, OutOf] | str,
    *,
    description: str = "",
    history: HandoffHistory = "all",
) -> Handoff[DepsIn, OutOf]:
    """Return a handoff for `Agent(handoffs=[…])`.

    `agent`: the next agent; or its name, for one that this run has had before, such as the agent
    that handed over, or that is among `Runtime.agents`. `description`: when to hand over; default:
    the agent's own description. `history`: messages that the next agent sees in this run. `all`;
    `none`: only the prompt of the run; `summary`: only a summary that the model of the calling
    agent writes; or a function of the `RunContext` and the messages that returns those to show. The
    session keeps all messages. Raises AgentError(invalid).
    """
    return Handoff(agent, description, history)


class HandoffTool:
    """Tool whose call hands the run to another agent."""

    effect: Effect = "pure"
    parallel = True
    timeout_s = None
    needs_approval = False
    max_output = 1_000

    def __init__(self, one: Handoff[Any, Any]) -> None:
        self.handoff = one
        self.hands_to = one.name
        """Marker that the loop checks."""
        self.name = f"transfer_to_{one.name.replace('.', '_')}"
        key, text = ("summary", SUMMARY) if one.history == "summary" else ("reason", REASON)
        self._key = key
        described = one.description or getattr(one.agent, "description", "")
        self.definition = ToolDefinition(
            name=self.name,
            description=(
                f"Hand the conversation to {one.name}, who answers the user from here on. "
                f"{described}"
            ).strip(),
            parameters={
                "type": "object",
                "properties": {key: {"type": "string", "description": text}},
                "required": [key],
                "additionalProperties": False,
            },
        )

    def __repr__(self) -> str:
        return f"HandoffTool({self.hands_to!r})"

    def parse(self, arguments_json: JsonText) -> str:
        try:
            given = decode_json(arguments_json.encode(errors="replace"), dict[str, object])
        except (ValueError, RecursionError) as e:
            text = f"The arguments of {self.name} are not a JSON object: {e}"
            raise InvalidArguments(text) from e
        text = given.get(self._key)
        if not isinstance(text, str) or not text.strip() or len(given) > 1:
            raise InvalidArguments(
                f'{self.name} takes one argument, a non-empty text: {{"{self._key}": "…"}}'
            )
        return text

    def touches(self, arguments: str, cwd: Path) -> Touched | None:
        """Return no files: the policy checks each call of the next agent."""
        return Touched(own=True)

    async def execute(self, ctx: ToolContext[Any], arguments: str) -> str:
        return f"{self.hands_to} answers the user from here on."

    async def probe(self, ctx: ToolContext[Any], arguments: str) -> ProbeAnswer:
        return None
