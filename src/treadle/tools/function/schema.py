"""JSON Schema and validator from a function's signature and docstring. Imports pydantic, so import
this module only where it is needed.

given.py handles schemas that the caller wrote, refusals.py the texts of errors. Entry point:
`describe`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Required, cast

import msgspec
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from treadle.errors import AgentError
from treadle.tools.function.docstring import read_docstring
from treadle.tools.function.signature import Signature
from treadle.tools.schemas.structs import with_structs
from treadle.tools.schemas.tidy import tidy


@dataclass(frozen=True, slots=True)
class Described:
    text: str
    """The docstring without its parameters."""
    parameters: dict[str, object]
    validate: Callable[[str], dict[str, Any]]
    """JSON text -> values by name. Omitted parameters with a default are absent.

    Raises pydantic's ValidationError.
    """


def describe(name: str, signature: Signature, docstring: str | None) -> Described:
    """Build the schema and the validator. Raises AgentError(invalid), which names the function, the
    parameter and its type, if JSON cannot describe the type.
    """
    context = [signature.context.name] if signature.context else []
    docs = read_docstring(docstring, [*(p.name for p in signature.parameters), *context])
    hints = signature.hints()
    try:
        adapter = _adapter(
            name,
            {
                p.name: _field(p, hints[p.name], docs.parameters.get(p.name))
                for p in signature.parameters
            },
        )
        schema = tidy(_json_schema(adapter))
    except Exception as e:
        raise _blamed(signature, hints) from e
    return Described(docs.text, _with_defaults(schema, signature), adapter.validator.validate_json)


def _adapter(name: str, fields: Mapping[str, Any]) -> TypeAdapter[dict[str, Any]]:
    """Return a validator whose result is a dict. Omitted parameters stay absent, so that the
    function's own defaults apply.
    """
    typed: Any = cast("Any", TypedDict)(name, dict(fields))
    typed.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)
    return TypeAdapter(typed)


def _field(parameter: inspect.Parameter, hint: Any, documented: str | None) -> Any:
    """Return the annotation as a field of a TypedDict, with its description. A description in the
    annotation has precedence over the docstring.
    """
    default: object = parameter.default
    hint = with_structs(hint)
    if isinstance(default, FieldInfo):
        hint = Annotated[hint, default]
    declared = FieldInfo.from_annotation(hint)
    if declared.description is None and (words := _annotated_words(declared) or documented):
        hint = Annotated[hint, Field(description=words)]
    required = declared.is_required() and (
        default is inspect.Parameter.empty or isinstance(default, FieldInfo)
    )
    return Required[hint] if required else NotRequired[hint]


def _annotated_words(declared: FieldInfo) -> str | None:
    """Return the text of `Annotated[str, "text"]` or `Annotated[str, Doc("text")]`, or None."""
    for meta in declared.metadata:
        words = meta if isinstance(meta, str) else getattr(meta, "documentation", None)
        if isinstance(words, str):
            return words
    return None


def _blamed(signature: Signature, hints: Mapping[str, Any]) -> AgentError:
    """Return the error that names the parameter at fault, by trying each one alone."""
    for p in signature.parameters:
        try:
            _json_schema(_adapter(p.name, {p.name: _field(p, hints[p.name], None)}))
        except Exception as e:  # noqa: BLE001  evaluating annotations runs arbitrary code, and the caller has to fix it
            reason = f"{type(e).__name__}: {e}".partition("\n")[0].partition(". ")[0]
            if getattr(e, "code", None) == "typed-dict-version":
                reason = (
                    "before Python 3.12, import TypedDict from typing_extensions: typing's own "
                    "forgets which keys are required"
                )
            what = f"parameter {p.name!r} of type {inspect.formatannotation(hints[p.name])}"
            return AgentError(
                "invalid", f"{signature.label}: {what} cannot be described as JSON ({reason})"
            )
    return AgentError(
        "invalid", f"{signature.label}: its parameters cannot be described as JSON together"
    )


# ---------------------------------------------------------------- validator -> JSON Schema


class _Quiet(GenerateJsonSchema):
    """Schema generator that omits a default that JSON cannot express, without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own name and type


def _json_schema(adapter: TypeAdapter[dict[str, Any]]) -> dict[str, Any]:
    return adapter.json_schema(schema_generator=_Quiet)


def _with_defaults(schema: dict[str, Any], signature: Signature) -> dict[str, object]:
    properties: dict[str, Any] = schema.get("properties", {})
    for p in signature.parameters:
        if p.default is not inspect.Parameter.empty and p.name in properties:
            _add_default(properties[p.name], p.default)
    in_order = {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }
    return in_order | ({"$defs": schema["$defs"]} if "$defs" in schema else {})


def _add_default(field: dict[str, Any], default: object) -> None:
    """Add the default, unless JSON cannot express it."""
    try:
        value: object = to_jsonable_python(default, fallback=msgspec.to_builtins)
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return
    field.setdefault("default", value)
