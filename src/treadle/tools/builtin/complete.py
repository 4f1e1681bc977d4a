"""The `complete(output)` tool, which the model calls to end its run with a result. Entry point:
`Complete`.

The loop ends the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle._internal.json_text import JsonText, decode_json, members
from treadle.models.model import ToolDefinition
from treadle.tools.structured_output.contract import AnswerType, Unfit
from treadle.tools.tool import InvalidArguments, ProbeAnswer, ToolContext, Touched
from treadle.types import Effect

DESCRIPTION = (
    "Ends this task and hands over its output. Call it once, when everything is done, "
    "and nothing else."
)


class Complete:
    """Tool that ends the run. Its output is validated like a text answer; validation errors are
    returned to the model, which calls it again.
    """

    name = "complete"
    effect: Effect = "pure"
    parallel = False
    timeout_s = None
    needs_approval = False
    max_output = 1_000
    completes = True
    """Marker that the loop checks."""

    def __init__(self, answer: AnswerType[Any] | None) -> None:
        """Create the tool `complete`. `answer`: type of the output. None: text."""
        self._answer = answer
        self._definition: ToolDefinition | None = None

    def __repr__(self) -> str:
        return "Complete()"

    @property
    def definition(self) -> ToolDefinition:
        """Return the definition, built on first use because it describes the type of the output."""
        self._definition = self._definition or self._described()
        return self._definition

    def _described(self) -> ToolDefinition:
        output: dict[str, object] = {"type": "string", "description": "What you hand over."}
        parameters: dict[str, object] = {
            "type": "object",
            "required": ["output"],
            "additionalProperties": False,
        }
        if self._answer is not None:
            output = dict(self._answer.schema)
            if (named := output.pop("$defs", None)) is not None:
                parameters["$defs"] = named
        return ToolDefinition(
            name=self.name,
            description=DESCRIPTION,
            parameters={**parameters, "properties": {"output": output}},
        )

    def parse(self, arguments_json: JsonText) -> JsonText:
        """Parse and validate the arguments. Returns the output as JSON. Raises InvalidArguments."""
        try:
            output = members(arguments_json or "{}").get("output")
        except (ValueError, RecursionError) as e:
            raise InvalidArguments(f"The arguments of complete are not a JSON object: {e}") from e
        if output is None:
            raise InvalidArguments("complete takes one argument, `output`: your final result.")
        if self._answer is None:
            try:
                decode_json(output.encode(errors="replace"), str)
            except ValueError as e:
                raise InvalidArguments("`output` must be a string.") from e
            return output
        try:
            self._answer.read(output)
        except Unfit as e:
            raise InvalidArguments(f"`output` is not what is asked for. {e.message}") from e
        return output

    def touches(self, arguments: JsonText, cwd: Path) -> Touched | None:
        return Touched(own=True)

    async def execute(self, ctx: ToolContext[Any], arguments: JsonText) -> str:
        return "done"

    async def probe(self, ctx: ToolContext[Any], arguments: JsonText) -> ProbeAnswer:
        return None
