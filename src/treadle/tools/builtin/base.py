"""Base class of the built-in tools: arguments as a Struct, a schema as data, and a description in
an adjacent file.

See also: the tools themselves, and the list of them (coding.py). Entry point: `Builtin`.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec
from anyio import CancelScope, to_thread
from typing_extensions import TypeVarTuple

from treadle._internal.json_text import JsonText, met
from treadle.models.model import ToolDefinition
from treadle.tools.tool import (
    MAX_OUTPUT_CHARS,
    NOTHING_TOUCHED,
    InvalidArguments,
    ProbeAnswer,
    ToolContext,
    ToolFailed,
    ToolOutput,
    Touched,
)
from treadle.types import Effect

ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)
ResultT = TypeVar("ResultT")
ParametersT = TypeVarTuple("ParametersT")
Schema = Mapping[str, object]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of every tool's arguments."""


def closed_object(properties: Mapping[str, Schema], *, required: Sequence[str]) -> Schema:
    """Return the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


class Builtin(ABC, Generic[ArgumentsT]):
    """A `Tool` over an `Arguments` struct. A subclass sets the attributes and implements
    `execute`.
    """

    name: str
    effect: Effect
    arguments: type[ArgumentsT]
    parameters: Schema
    """JSON Schema with additionalProperties false. Also used to explain an invalid call."""
    example: str
    """Example of a valid call, as JSON."""
    parallel: bool = True
    timeout_s: float | None = None
    needs_approval: bool = False
    has_commands: bool = False
    """True if the tool runs programs, inside the run's sandbox if there is one."""
    ability: str | None = None
    """Field of `Abilities` (and of `ToolDefinition.native`) that a model needs in order to be
    offered this tool. None: offered to every model.
    """
    acts_as: tuple[str, ...] = ()
    """Tools whose ask and deny rules also apply to this one, because it can have the same
    effects.
    """
    polls: bool = False
    """True if the tool only observes work in progress, so that repeated equal results do not count
    as a loop.
    """
    max_output: int = MAX_OUTPUT_CHARS

    def __init__(self) -> None:
        self._definition: ToolDefinition | None = None

    @property
    def definition(self) -> ToolDefinition:
        if self._definition is None:
            met(self.arguments)
            self._definition = ToolDefinition(
                name=self.name,
                description=_description(type(self)),
                parameters=dict(self.parameters),
                native=self.ability,
            )
        return self._definition

    def parse(self, arguments_json: JsonText) -> ArgumentsT:
        """Parse arguments, tolerating harmless mistakes of models ("5" for 5, null for an omitted
        value, a list as JSON text) but not unknown names.

        Raises InvalidArguments with the error, its location, and a valid call.
        """
        arguments_json = arguments_json.strip() or "{}"
        try:
            arguments = msgspec.json.decode(arguments_json, type=self.arguments, strict=False)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as e:
            arguments = self._parse_harder(arguments_json, e)
        self.check(arguments)
        return arguments

    def _parse_harder(self, arguments_json: JsonText, error: Exception) -> ArgumentsT:
        try:
            value: object = json.loads(arguments_json)
        except (ValueError, RecursionError) as e:
            what = "nested too deeply" if isinstance(e, RecursionError) else f"no valid JSON ({e})"
            raise InvalidArguments(
                f"The arguments of {self.name} are {what}. {self._right_call}"
            ) from e
        if not _is_utf8(arguments_json, value):
            raise InvalidArguments(
                f"The arguments of {self.name} contain a lone surrogate (such as \\ud83d), which "
                "is not valid text."
            )
        value = _mended(value, self.parameters)
        try:
            return msgspec.convert(value, self.arguments, strict=False)
        except (msgspec.ValidationError, UnicodeError, RecursionError):
            problem = _problem(value, self.parameters, "") or str(error)
            raise InvalidArguments(
                f"Wrong arguments for {self.name}: {problem}. {self._right_call}"
            ) from error

    @property
    def _right_call(self) -> str:
        return f"A right call: {self.example}"

    def check(self, arguments: ArgumentsT) -> None:
        """Validate constraints that the schema cannot express. Raises InvalidArguments."""

    def touches(self, arguments: ArgumentsT, cwd: Path) -> Touched | None:
        """Return the paths and hosts that a call touches; nothing by default."""
        return NOTHING_TOUCHED

    @abstractmethod
    async def execute(self, ctx: ToolContext[Any], arguments: ArgumentsT) -> ToolOutput: ...

    async def probe(self, ctx: ToolContext[Any], arguments: ArgumentsT) -> ProbeAnswer:
        """Return None by default: most tools can safely be repeated, or leave no evidence."""
        return None


async def to_its_end(function: Callable[[*ParametersT], ResultT], *args: *ParametersT) -> ResultT:
    """Make a short blocking change in a worker thread. Cancellation does not interrupt it, so its
    outcome is always known.

    Raises ToolFailed(happened=False) if no thread can be started.
    """
    begun = False

    def change() -> ResultT:
        nonlocal begun
        begun = True
        return function(*args)

    with CancelScope(shield=True):
        try:
            return await to_thread.run_sync(change)
        except RuntimeError as e:
            if begun:
                raise
            raise ToolFailed(
                (
                    f"Nothing was changed: no thread could be started for it ({e}). Make the call "
                    "again later."
                ),
                happened=False,
            ) from e
    raise AssertionError("a shielded scope that is never cancelled returns or raises")


class _Loader(Protocol):
    def get_data(self, path: str) -> bytes: ...


def _description(tool: type[object]) -> str:
    """Return the text of NAME.md next to NAME.py, also from a zip file.

    Read through the loader, because importlib.resources adds 28 ms to start-up.
    """
    spec = sys.modules[tool.__module__].__spec__
    assert spec is not None
    assert spec.origin is not None
    return (
        cast("_Loader", spec.loader)
        .get_data(str(Path(spec.origin).with_suffix(".md")))
        .decode()
        .strip()
    )


# ---------------------------------------------------------------- invalid calls


def _is_utf8(*values: object) -> bool:
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _mended(value: object, schema: Schema) -> object:
    """Decode arrays and objects passed as JSON text, and wrap a single item where an array is
    expected.
    """
    kind = schema.get("type")
    if isinstance(value, str) and kind in ("array", "object"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if kind == "array" and isinstance(value, dict):
        value = [cast("object", value)]
    if kind == "array" and isinstance(value, list):
        return [_mended(item, _part(schema, "items")) for item in cast("list[object]", value)]
    if kind == "object" and isinstance(value, dict):
        fields, required = (
            _part(schema, "properties"),
            cast("list[str]", schema.get("required", [])),
        )
        given = cast("dict[str, object]", value).items()
        return {
            k: _mended(v, cast("Schema", fields.get(k, {})))
            for k, v in given
            if v is not None or k in required or k not in fields
        }
    return value


def _part(schema: Schema, key: str) -> Schema:
    return cast("Schema", schema.get(key, {}))


def _problem(value: object, schema: Schema, at: str) -> str | None:
    """Describe the first error in `value`, with its location."""
    kind = cast("str", schema.get("type", ""))
    if kind and not _is(value, kind):
        return f"{at or 'they'} must be {_article(kind)}, not {_shortly(value)}"
    if isinstance(value, dict):
        return _problem_in_object(cast("dict[str, object]", value), schema, at)
    if isinstance(value, list):
        items = enumerate(cast("list[object]", value))
        return next(
            (p for i, item in items if (p := _problem(item, _part(schema, "items"), f"{at}[{i}]"))),
            None,
        )
    choices = cast("list[object] | None", schema.get("enum"))
    if choices is not None and value not in choices:
        return f"{at} must be one of {', '.join(map(repr, choices))}, not {_shortly(value)}"
    return None


def _problem_in_object(value: dict[str, object], schema: Schema, at: str) -> str | None:
    fields, required = _part(schema, "properties"), cast("list[str]", schema.get("required", []))
    inside = f" in {at}" if at else ""
    for name in value:
        if name not in fields:
            return (
                f"there is no {name!r}{inside}{_nearest(name, fields)}. "
                f"{_fields_in_words(fields, required)}"
            )
    for name in required:
        if name not in value:
            return f"{name!r} is missing{inside}. {_fields_in_words(fields, required)}"
    named = ((cast("Schema", fields[k]), v, f"{at}.{k}" if at else k) for k, v in value.items())
    return next((p for part, v, place in named if (p := _problem(v, part, place))), None)


def _is(value: object, kind: str) -> bool:
    if kind in ("integer", "number") and isinstance(value, str):
        return value.strip().lstrip("-").replace(".", "", 1).isdecimal()
    if kind == "boolean" and isinstance(value, str):
        return value.lower() in ("true", "false")
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "number":
        return isinstance(value, int | float)
    return isinstance(value, _TYPES[kind])


def _nearest(name: str, fields: Schema) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  only for a wrong call

    close = get_close_matches(name, fields, n=1, cutoff=0.5) or [
        f for f in fields if f in name or name in f
    ]
    return f" (did you mean {close[0]!r}?)" if close else ""


def _fields_in_words(fields: Schema, required: Sequence[str]) -> str:
    return f"The fields are {', '.join(f'{f} (required)' if f in required else f for f in fields)}"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _shortly(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
