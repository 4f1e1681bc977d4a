"""pydantic's errors as a refusal of arguments. Imported only once pydantic has found some.

Entry: `invalid_arguments`.
"""

from __future__ import annotations

import json

from pydantic_core import ValidationError

from treadle.models.model import ToolDefinition
from treadle.tools.function.refusals import misfit, unparsable
from treadle.tools.schemas.faults import fault_of_text, problems_of
from treadle.tools.tool import InvalidArguments


def invalid_arguments(error: Exception, definition: ToolDefinition, text: str) -> InvalidArguments:
    """Return the error for the model."""
    if isinstance(error, RecursionError):
        return unparsable(definition.name, text, "it is nested too deeply")
    assert isinstance(error, ValidationError)  # pydantic makes one of every other ValueError
    if (fault := fault_of_text(error)) is not None:
        return unparsable(definition.name, text, fault)
    return misfit(
        definition.name, problems_of(error, json.loads(text), definition.parameters, "argument")
    )
