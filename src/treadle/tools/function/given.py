"""Arguments by a JSON Schema that the caller wrote: obvious errors are reported when the tool is
created, others when the schema is compiled for the first call.

schema.py makes schemas from functions. Entry point: `GivenArguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from treadle.errors import AgentError
from treadle.models.model import ToolDefinition
from treadle.tools.function.refusals import misfit, unparsable
from treadle.tools.schemas.bounds import TooMuch
from treadle.tools.schemas.checked import CheckedSchema
from treadle.tools.schemas.problems import SchemaProblem, as_string, shown, strict_json


class GivenArguments:
    """Parser of a call's arguments by a given schema. Never fetches remote references."""

    def __init__(self, name: str, description: str, parameters: Mapping[str, object]) -> None:
        """Create a parser. Raises AgentError(invalid) if this is obviously not the schema of an
        object. Errors that only compilation detects are raised on the first call.
        """
        self._checked: Final = CheckedSchema(
            parameters, f"the parameters of tool {name!r} are", "parameters"
        )
        own = cast("object", self._checked.schema)
        kind = cast("dict[str, object]", own).get("type") if isinstance(own, dict) else None
        if (
            fault := f"'type' is {kind!r} and must be 'object'"
            if kind != "object"
            else self._checked.fault
        ):
            raise AgentError(
                "invalid",
                f"the parameters of tool {name!r} are not a JSON Schema of an object: {fault}",
            )
        self.definition: Final = ToolDefinition(
            name=name, description=description, parameters=self._checked.schema
        )

    def states(self) -> int:
        """Return the number of states of the schema's patterns. Compiles the schema; raises
        AgentError(invalid) as the first call would.
        """
        return self._checked.compile()[1].states

    def asks_for(self, name: str) -> bool:
        return name in cast("dict[str, object]", self.definition.parameters.get("properties", {}))

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """Return a new dict with the arguments as the model wrote them. Raises InvalidArguments."""
        name = self.definition.name
        text = arguments_json if arguments_json.strip() else "{}"
        try:
            arguments: object = strict_json.decode(text)
        except (ValueError, RecursionError) as e:
            raise unparsable(name, text, str(e)) from e
        if not isinstance(arguments, dict):
            raise misfit(
                name,
                [
                    SchemaProblem(
                        (),
                        f"expected one JSON object, got {shown(arguments)}{as_string(arguments)}",
                    )
                ],
            )
        try:
            if self._checked.fits(cast("object", arguments), len(text)):
                return cast("dict[str, Any]", arguments)
            problems = self._checked.problems(cast("object", arguments), "argument")
        except UnicodeEncodeError as e:
            raise unparsable(name, text, "it contains half of a surrogate pair") from e
        except TooMuch as e:
            raise misfit(name, [SchemaProblem((), str(e))]) from e
        raise misfit(name, problems)
