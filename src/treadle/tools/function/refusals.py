"""Messages to the model about rejected arguments: that nothing was run, why, and what to do next.

tools/schemas/problems.py describes the problems themselves. Entry points: `misfit`, `unparsable`,
`invalid_arguments`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from treadle.models.model import ToolDefinition
from treadle.tools.schemas.problems import SchemaProblem, told, why_unparsable
from treadle.tools.tool import InvalidArguments


def misfit(tool: str, problems: Sequence[SchemaProblem]) -> InvalidArguments:
    """Return the error for arguments that do not match the schema. Its message describes at most
    ten problems, each in a line of bounded length.
    """
    lines = [
        f"The arguments do not fit the tool {tool!r}, and nothing was run:",
        *told(problems, "the arguments"),
        "Correct them and call the tool again.",
    ]
    return InvalidArguments("\n".join(lines))


def unparsable(tool: str, text: str, reason: str) -> InvalidArguments:
    """Return the error for text that is not JSON."""
    why = why_unparsable(text, reason)
    return InvalidArguments(
        f"The arguments for the tool {tool!r} are not valid JSON, and nothing was run: {why}. "
        "Call the tool again with one JSON object."
    )


def invalid_arguments(error: Exception, definition: ToolDefinition, text: str) -> InvalidArguments:
    """Return the error for the model from a pydantic error or a RecursionError. A ValueError must
    be a pydantic ValidationError.
    """
    from pydantic_core import ValidationError  # noqa: PLC0415  only where pydantic has raised it

    from treadle.tools.schemas.faults import fault_of_text, problems_of  # noqa: PLC0415  imports pydantic

    if isinstance(error, RecursionError):
        return unparsable(definition.name, text, "it is nested too deeply")
    assert isinstance(error, ValidationError)
    if (fault := fault_of_text(error)) is not None:
        return unparsable(definition.name, text, fault)
    return misfit(
        definition.name, problems_of(error, json.loads(text), definition.parameters, "argument")
    )
