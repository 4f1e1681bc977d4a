"""Validation by a JSON Schema that a caller wrote. Obvious errors are found immediately; the schema
is compiled when the first value is checked. Nothing is ever fetched.

Callers write the messages to the model. Entry point: `CheckedSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from treadle.errors import AgentError
from treadle.tools.schemas.bounds import TOLD_MOST, WORK_MOST, Bounds, TooMuch
from treadle.tools.schemas.graph import check_size
from treadle.tools.schemas.problems import (
    JsonSchema,
    Path,
    SchemaProblem,
    as_string,
    missing,
    nearest,
    shown,
    unknown,
)
from treadle.tools.schemas.references import remote_reference

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_MASK: Final = "the value"
_LONG: Final = "checking it takes too long: make it smaller, with fewer levels or items"
_TOLD_WHOLE: Final = 30
_PLACE_CHARS: Final = 300
_COUNTED: Final = 1_000
BACKTRACKS_MOST: Final = 100_000
PATTERN_BYTES_MOST: Final = 4 << 20
"""Maximum size of a compiled pattern in bytes. Needed because bounds.py only estimates."""


class CheckedSchema:
    """Copy of a schema, with its validator."""

    def __init__(self, schema: object, what: str, place: str) -> None:
        """Create a checked schema. `what`: subject and verb of messages, such as "the schema of the
        answer is". `place`: name of the schema's root in messages.

        Raises AgentError(invalid) if JSON cannot express the schema. `fault` holds an obvious
        error; `compile` finds all others.
        """
        self.what: Final = what
        try:
            self.schema: Final[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(schema))
        except (TypeError, ValueError, RecursionError) as e:
            raise AgentError("invalid", f"{what} not a JSON Schema: {e}") from e
        self.fault: Final = _fault_of(self.schema, place)
        """Error that is detectable without compiling the schema, or a reference to an external
        schema; None if there is none.
        """
        self._compiled: tuple[Validator, Bounds] | None = None
        self._refused: ValueError | None = None
        """The error of its compilation."""
        self._chars_surely = -1
        self._is_valid: Callable[[object], bool] = lambda _: False

    def compile(self) -> tuple[Validator, Bounds]:
        """Compile the schema on first use. Raises AgentError(invalid) if it is not valid, or is
        beyond the limits of bounds.py; later calls raise it again without another look.
        """
        if self._compiled is None:
            if self._refused is None:
                try:
                    self._compiled = compiled(self.schema)
                except ValueError as e:
                    self._refused = e.with_traceback(None)  # its frames hold the whole analysis
                else:
                    return self._compiled
            what = (
                "a JSON Schema beyond the limits"
                if isinstance(self._refused, TooMuch)
                else "not a valid JSON Schema"
            )
            raise AgentError(
                "invalid", f"{self.what} {what}: {_reason(self._refused)}"
            ) from self._refused
        return self._compiled

    def fits(self, value: object, chars: int) -> bool:
        """Return True if the value matches. `chars`: length of its JSON text.

        Raises TooMuch if the check would take seconds, and ValueError for text that UTF-8 cannot
        encode.
        """
        if chars > self._chars_surely:
            self._count(value, chars)
        return self._is_valid(value)

    def _count(self, value: object, chars: int) -> None:
        """Compile the schema, and raise TooMuch for a check that would take too long."""
        validator, bounds = self.compile()
        self._is_valid, self._chars_surely = validator.is_valid, bounds.chars_surely
        if chars > bounds.chars_surely and bounds.work(value, WORK_MOST) > WORK_MOST:
            raise TooMuch(_LONG)

    def problems(self, value: object, noun: str) -> Sequence[SchemaProblem]:
        """Return the problems of a value, if any. `noun`: how messages refer to an unknown name,
        such as "field".

        Raises ValueError as `fits` does. Describes the first 30 problems and counts the others, up
        to 1,000.
        """
        validator, bounds = self.compile()
        work = bounds.work(value, WORK_MOST)
        if work > WORK_MOST:
            raise TooMuch(_LONG)
        if work > TOLD_MOST:
            return (
                []
                if validator.is_valid(value)
                else [
                    SchemaProblem(
                        (),
                        "it does not fit the schema, which has too many alternatives to tell where",
                    )
                ]
            )
        found = (
            problem
            for error in validator.iter_errors(value)
            for problem in _problems(error, self.schema, noun)
        )
        first = [*islice(found, _TOLD_WHOLE)]
        more = (
            sum(1 for _ in islice(validator.iter_errors(value), _COUNTED)) - _TOLD_WHOLE
            if len(first) == _TOLD_WHOLE
            else 0
        )
        return [*first, *[SchemaProblem((), "")] * max(more, 0)]


def compiled(schema: Mapping[str, Any]) -> tuple[Validator, Bounds]:
    """Return the validator of a schema and the bounds of its work.

    Raises ValueError if the schema is not valid; TooMuch, before compiling anything, if it is
    beyond a limit.
    """
    bounds = Bounds(schema)
    import jsonschema_rs  # noqa: PLC0415  costs 40 ms, and most runs have no given schema

    patterns = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=BACKTRACKS_MOST, size_limit=PATTERN_BYTES_MOST
    )
    return jsonschema_rs.validator_for(
        dict(schema), mask=_MASK, offline=True, pattern_options=patterns
    ), bounds


def _fault_of(schema: object, place: str) -> str | None:
    try:
        check_size(schema)
        if (fault := next(_faults(schema, place), None)) is not None:
            return fault
        reference = remote_reference(schema)
    except TooMuch as e:
        return str(e)
    return (
        None
        if reference is None
        else f"it refers to {reference[:200]!r}, which is not fetched: put that schema "
        "under '$defs' and refer to it as '#/$defs/NAME'"
    )


def _reason(error: ValueError) -> str:
    """Return the first line of jsonschema-rs's error, with the place in the schema if it has
    one.
    """
    said = str(error).partition("\n")[0]
    path: Sequence[object] = getattr(error, "instance_path", ())
    where = "".join(f"[{step!r}]" for step in path)
    return f"{said} (at {where})" if where else said


def _faults(schema: object, place: str) -> Iterator[str]:
    """Yield the errors that are detectable without compiling the schema."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{place} is {_shown(schema)} and must be a schema (an object)"
        return
    words = cast("dict[str, Any]", schema)
    types: Any = words.get("type", [])
    for kind in cast("Iterable[object]", types if isinstance(types, list) else [types]):
        if not (isinstance(kind, str) and kind in _TYPES):
            yield (
                f"{place} has the type {_shown(kind)} and must have one of "
                f"{', '.join(sorted(_TYPES))}"
            )
    properties: Any = words.get("properties", {})
    if not isinstance(properties, dict):
        yield f"the properties of {place} are {_shown(properties)} and must be an object"
        return
    for name, inner in cast("dict[str, object]", properties).items():
        yield from _faults(inner, f"{place}.{name}"[:_PLACE_CHARS])
    required: Any = words.get("required", [])
    if not (
        isinstance(required, list)
        and all(isinstance(name, str) for name in cast("list[object]", required))
    ):
        said = _shown(cast("object", required))
        yield f"'required' of {place} is {said} and must be a list of names"
    if "items" in words and not isinstance(words["items"], list):
        yield from _faults(words["items"], f"{place}[]"[:_PLACE_CHARS])


# ---------------------------------------------------------------- problems


def _problems(error: ValidationError, schema: JsonSchema, noun: str) -> Iterator[SchemaProblem]:
    path: Path = tuple(error.instance_path)
    keyword, value = error.kind.name, cast("object", error.instance)
    facts: dict[str, Any] = error.kind.as_dict()
    if keyword == "required":
        yield missing((*path, facts["property"]), schema)
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        for name in facts["unexpected"]:
            yield unknown((*path, name), schema, noun)
    else:
        yield SchemaProblem(
            path, f"{_wrong(error)}, got {shown(value)}{_hint(keyword, value, facts)}"
        )


def _wrong(error: ValidationError) -> str:
    keyword = error.kind.name
    facts: dict[str, Any] = error.kind.as_dict()
    if keyword == "type":
        return f"expected {' or '.join(facts['types'])}"
    if keyword == "enum":
        return f"expected one of {', '.join(shown(v) for v in facts['options'][:20])}"
    if keyword in ("anyOf", "oneOf") and facts.get("context"):
        return (
            "none of the allowed forms fits ("
            + "; ".join(" and ".join(map(_wrong, branch)) for branch in facts["context"][:5])
            + ")"
        )
    return (
        error.message.replace(f"{_MASK} ", "", 1)
        if error.message.startswith(_MASK)
        else error.message
    )


def _hint(keyword: str, value: object, facts: Mapping[str, Any]) -> str:
    if keyword == "type" and not {"array", "object"}.isdisjoint(facts["types"]):
        return as_string(value)
    if keyword == "enum" and isinstance(value, str):
        near = nearest(value, [v for v in facts["options"] if isinstance(v, str)])
        return f"; {near}" if near else ""
    return ""


def _shown(value: object) -> str:
    from treadle._internal.terminal_text import one_line  # noqa: PLC0415  only errors need it

    return one_line(repr(value))
