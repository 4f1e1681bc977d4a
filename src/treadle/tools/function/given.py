"""Arguments by a JSON Schema that somebody else wrote: checked for sense when the tool is made, compiled when it is first called.

Schemas made from functions are schema.py's part. Entry: `GivenArguments`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from treadle.errors import AgentError
from treadle.model import ToolDefinition
from treadle.tools.function.problems import JsonSchema, Path, Problem, as_string, misfit, missing, nearest, shown, strict_json, unknown, unparsable

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_MASK: Final = "the value"


class GivenArguments:
    """Reads a call's arguments by a given schema. Remote references are never fetched."""

    def __init__(self, name: str, description: str, parameters: Mapping[str, object]) -> None:
        """Raises AgentError(invalid) where this can be no schema of an object; what only a full check finds is raised at the first call."""
        try:
            own: Any = msgspec.json.decode(msgspec.json.encode(parameters))
        except (TypeError, ValueError, RecursionError) as e:
            raise AgentError("invalid", f"the parameters of tool {name!r} are no JSON Schema: {e}") from e
        if fault := _fault(own):
            raise AgentError("invalid", f"the parameters of tool {name!r} are no JSON Schema of an object: {fault}")
        self.definition: Final = ToolDefinition(name=name, description=description, parameters=own)
        self._compiled: Validator | None = None

    def asks_for(self, name: str) -> bool:
        return name in cast("dict[str, object]", self.definition.parameters.get("properties", {}))

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """A fresh dict, as the model wrote it. Raises InvalidArguments."""
        name, parameters = self.definition.name, self.definition.parameters
        text = arguments_json if arguments_json.strip() else "{}"
        try:
            arguments: object = strict_json.decode(text)
        except (ValueError, RecursionError) as e:
            raise unparsable(name, text, str(e)) from e
        if not isinstance(arguments, dict):
            raise misfit(name, [Problem((), f"expected one JSON object, got {shown(arguments)}{as_string(arguments)}")])
        validator = self._compiled or self._compile()
        if validator.is_valid(arguments):
            return cast("dict[str, Any]", arguments)
        raise misfit(name, [problem for error in validator.iter_errors(arguments) for problem in _problems(error, parameters)])

    def _compile(self) -> Validator:
        import jsonschema_rs  # noqa: PLC0415  costs 40 ms, and most tools have no given schema

        try:
            self._compiled = jsonschema_rs.validator_for(self.definition.parameters, mask=_MASK, offline=True)
        except ValueError as e:
            reason = str(e).partition("\n")[0]
            raise AgentError("invalid", f"the parameters of tool {self.definition.name!r} are no valid JSON Schema: {reason}") from e
        return self._compiled


def _fault(schema: object) -> str | None:
    """What is wrong with it at first sight."""
    kind = cast("dict[str, object]", schema).get("type") if isinstance(schema, dict) else None
    if kind != "object":
        return f"'type' is {kind!r} and must be 'object'"
    return next(_faults(cast("object", schema), "parameters"), None)


def _faults(schema: object, place: str) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{place} is {schema!r} and must be a schema (an object)"
        return
    words = cast("dict[str, Any]", schema)
    types: Any = words.get("type", [])
    for kind in cast("Iterable[object]", types if isinstance(types, list) else [types]):
        if kind not in _TYPES:
            yield f"{place} has the type {kind!r}: one of {', '.join(sorted(_TYPES))} is meant"
    properties: Any = words.get("properties", {})
    if not isinstance(properties, dict):
        yield f"the properties of {place} are {properties!r} and must be an object"
        return
    for name, inner in cast("dict[str, object]", properties).items():
        yield from _faults(inner, f"{place}.{name}")
    required: Any = words.get("required", [])
    if not (isinstance(required, list) and all(isinstance(name, str) for name in cast("list[object]", required))):
        yield f"'required' of {place} is {required!r} and must be a list of names"
    if "items" in words and not isinstance(words["items"], list):
        yield from _faults(words["items"], f"{place}[]")


# ---------------------------------------------------------------- problems


def _problems(error: ValidationError, parameters: JsonSchema) -> Iterator[Problem]:
    path: Path = tuple(error.instance_path)
    keyword, value = error.kind.name, cast("object", error.instance)
    facts: dict[str, Any] = error.kind.as_dict()
    if keyword == "required":
        yield missing((*path, facts["property"]), parameters)
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        for name in facts["unexpected"]:
            yield unknown((*path, name), parameters)
    else:
        yield Problem(path, f"{_wrong(error)}, got {shown(value)}{_hint(keyword, value, facts)}")


def _wrong(error: ValidationError) -> str:
    keyword = error.kind.name
    facts: dict[str, Any] = error.kind.as_dict()
    if keyword == "type":
        return f"expected {' or '.join(facts['types'])}"
    if keyword == "enum":
        return f"expected one of {', '.join(shown(v) for v in facts['options'][:20])}"
    if keyword in ("anyOf", "oneOf") and facts.get("context"):
        return "none of the allowed forms fits (" + "; ".join(" and ".join(map(_wrong, branch)) for branch in facts["context"][:5]) + ")"
    return error.message.replace(f"{_MASK} ", "", 1) if error.message.startswith(_MASK) else error.message


def _hint(keyword: str, value: object, facts: Mapping[str, Any]) -> str:
    if keyword == "type" and not {"array", "object"}.isdisjoint(facts["types"]):
        return as_string(value)
    if keyword == "enum" and isinstance(value, str):
        near = nearest(value, [v for v in facts["options"] if isinstance(v, str)])
        return f"; {near}" if near else ""
    return ""
