"""A JSON Schema that somebody else wrote: looked at when it is given, compiled when a value is first checked, never fetched from anywhere.

What is said to the model is its user's part. Entry: `CheckedSchema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from treadle.errors import AgentError
from treadle.shapes.problems import JsonSchema, Path, Problem, as_string, missing, nearest, shown, unknown
from treadle.shapes.references import remote_reference

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_MASK: Final = "the value"


class CheckedSchema:
    """A copy of the schema, and the check by it."""

    def __init__(self, schema: object, what: str, place: str) -> None:
        """`what`: whose it is, with its verb, in messages; `place`: what its top is called there.

        Raises AgentError(invalid) where JSON has no words for it. Whether it makes sense at first sight is told by `fault`, and wholly by `compile`.
        """
        self.what: Final = what
        try:
            self.schema: Final[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(schema))
        except (TypeError, ValueError, RecursionError) as e:
            raise AgentError("invalid", f"{what} no JSON Schema: {e}") from e
        fault = next(_faults(self.schema, place), None)
        if fault is None and (reference := remote_reference(self.schema)) is not None:
            fault = f"it refers to {reference[:200]!r}, and nothing is fetched: put that schema under '$defs' and refer to it as '#/$defs/NAME'"
        self.fault: Final = fault
        """What is wrong with it at first sight, or that it refers to a schema elsewhere."""
        self._compiled: Validator | None = None

    def compile(self) -> Validator:
        """Raises AgentError(invalid) for what is no valid schema."""
        if self._compiled is None:
            import jsonschema_rs  # noqa: PLC0415  costs 40 ms, and most runs have no given schema

            try:
                self._compiled = jsonschema_rs.validator_for(self.schema, mask=_MASK, offline=True)
            except ValueError as e:
                raise AgentError("invalid", f"{self.what} no valid JSON Schema: {_reason(e)}") from e
        return self._compiled

    def fits(self, value: object) -> bool:
        """Raises ValueError for text that UTF-8 cannot hold."""
        return (self._compiled or self.compile()).is_valid(value)

    def problems(self, value: object, noun: str) -> Sequence[Problem]:
        """What is wrong with it, if anything. `noun`: what an unknown name would be the name of. Raises ValueError as `fits` does."""
        return [problem for error in self.compile().iter_errors(value) for problem in _problems(error, self.schema, noun)]


def _reason(error: ValueError) -> str:
    """jsonschema-rs's words; where they only say that some form of the meta-schema is not met, the place is told."""
    said = str(error).partition("\n")[0]
    path: Sequence[object] = getattr(error, "instance_path", ())
    where = "".join(f"[{step!r}]" for step in path)
    return f"{said} (at {where})" if where else said


def _faults(schema: object, place: str) -> Iterator[str]:
    """What is wrong with it at first sight."""
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


def _problems(error: ValidationError, schema: JsonSchema, noun: str) -> Iterator[Problem]:
    path: Path = tuple(error.instance_path)
    keyword, value = error.kind.name, cast("object", error.instance)
    facts: dict[str, Any] = error.kind.as_dict()
    if keyword == "required":
        yield missing((*path, facts["property"]), schema)
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        for name in facts["unexpected"]:
            yield unknown((*path, name), schema, noun)
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
