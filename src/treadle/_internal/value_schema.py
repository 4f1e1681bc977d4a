"""Schemas of msgspec values for pydantic, whose models may have them as fields.

pydantic is imported only if it is in use. Entry points: `core_schema_of`, `json_schema_of`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


def core_schema_of(validate: Callable[[object], object]) -> CoreSchema:
    """Return a schema that validates with a function, and serializes values as JSON data."""
    from pydantic_core import core_schema  # noqa: PLC0415  pydantic, which calls this, has imported it

    serialize = core_schema.plain_serializer_function_ser_schema(lambda v: json.loads(v.to_json()))
    return core_schema.no_info_plain_validator_function(validate, serialization=serialize)


def json_schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema with all references inlined, because they would not resolve inside
    pydantic's schema.
    """
    (own,), named = msgspec.json.schema_components(
        [kind], schema_hook=any_json, ref_template="{name}"
    )
    return _in_one_piece(own, named)


def any_json(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of `object`."""
    return {"description": "Any JSON value."}


def without_fields(text: str) -> str:
    """Return a docstring without its section on fields, which a schema describes itself, and
    without the indentation that Python before 3.13 leaves in it.
    """
    first, newline, rest = (
        re.split(r"\n\s*Attributes:\n", text, maxsplit=1)[0].rstrip().partition("\n")
    )
    return first + newline + textwrap.dedent(rest)


def _in_one_piece(schema: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_in_one_piece(inner, named) for inner in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return without_fields(schema) if isinstance(schema, str) else schema
    fields = cast("dict[str, Any]", schema)
    if "$ref" in fields:
        return _in_one_piece(named[fields["$ref"]], named)
    return {
        name: _in_one_piece(inner, named)
        for name, inner in fields.items()
        if name != "discriminator"
    }
