"""An agent as a tool of another agent. Its only parameter is a prompt; its result is the answer of
the child run. Entry point: `Subagent`.

The child has its own history and limits, its usage also counts against the parent's limits, and it
has no more rights than the parent. `ToolContext.spawn` enforces this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle._internal.json_text import JsonText, decode_json
from treadle.errors import AgentError
from treadle.messages.result import RunResult
from treadle.models.model import ToolDefinition
from treadle.tools.tool import (
    MAX_OUTPUT_CHARS,
    InvalidArguments,
    ProbeAnswer,
    SpawnedAgent,
    ToolContext,
    ToolDeferred,
    ToolFailed,
    Touched,
)
from treadle.types import Effect, Outcome

PROMPT = (
    "The task for the agent, with all the information it needs: it does not see this conversation."
)


class Subagent:
    """Tool that runs an agent. Idempotent: a repeated call continues the child run that the first
    call started, from the journal of that run.
    """

    effect: Effect = "idempotent"
    parallel = True
    timeout_s = None
    needs_approval = False
    max_output = MAX_OUTPUT_CHARS
    delegates = True
    """True: the policy checks each call of the child separately."""

    def __init__(self, agent: SpawnedAgent[Any, Any]) -> None:
        self.agent = agent
        self.name = agent.name.replace(".", "_")  # no provider accepts a dot in the name of a tool
        self.trace = {"agent": agent.name}
        """Attributes of the tool for a trace (`Tracer.tool`)."""
        self._definition = self._described()

    def __repr__(self) -> str:
        return f"Subagent({self.name!r})"

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    def _described(self) -> ToolDefinition:
        prompt = {"type": "string", "description": PROMPT}
        parameters: dict[str, object] = {
            "type": "object",
            "properties": {"prompt": prompt},
            "required": ["prompt"],
            "additionalProperties": False,
        }
        return ToolDefinition(
            name=self.name,
            description=self.agent.description or f"The agent {self.name}.",
            parameters=parameters,
        )

    def parse(self, arguments_json: JsonText) -> str:
        return prompt_in(arguments_json, self.name)

    def touches(self, arguments: str, cwd: Path) -> Touched | None:
        """Return no files: the policy checks each call of the child separately, under the mode and
        the rules of this run.
        """
        return Touched(own=True)

    async def execute(self, ctx: ToolContext[Any], arguments: str) -> str:
        return await answer_of(self.name, self.agent, ctx, arguments)

    async def probe(self, ctx: ToolContext[Any], arguments: str) -> ProbeAnswer:
        return None


def prompt_in(arguments_json: JsonText, name: str) -> str:
    """Return the prompt in the arguments. Raises InvalidArguments."""
    try:
        arguments = decode_json(
            (arguments_json or "{}").encode(errors="replace"), dict[str, object]
        )
    except (ValueError, RecursionError) as e:
        raise InvalidArguments(f"The arguments of {name} are not a JSON object: {e}") from e
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip() or len(arguments) > 1:
        raise InvalidArguments(f'{name} takes one argument, a non-empty text: {{"prompt": "…"}}')
    return prompt


async def answer_of(
    name: str, agent: SpawnedAgent[Any, Any], ctx: ToolContext[Any], prompt: str
) -> str:
    """Return the answer for the parent's model.

    Raises ToolFailed if the child has no answer, ToolDeferred if it waits.
    """
    try:
        result = await ctx.spawn(agent, prompt, deps=ctx.deps)
    except AgentError as e:
        raise ToolFailed(f"The agent {name} could not begin: {e.message}") from e
    return told(name, result)


def told(name: str, result: RunResult[Any]) -> str:
    """Return the answer for the parent's model.

    Raises ToolFailed if the child has no answer, ToolDeferred if it waits.
    """
    if result.outcome is Outcome.COMPLETED:
        return result.output_text
    if result.outcome is Outcome.APPROVAL_NEEDED and result.waiting:
        raise ToolDeferred(f"the agent {name} waits for a person, in run {result.run_id}")
    why = f": {result.error.message}" if result.error is not None else ""
    said = f" Its text so far: {result.text}" if result.text else ""
    raise ToolFailed(
        f"The agent {name} ended {result.outcome.value} after {result.turn_count} "
        f"turn(s){why}.{said}"
    )
