"""Support for msgspec Structs in annotations that pydantic evaluates.

Structs in fields of pydantic models and dataclasses are not supported. Entry point: `with_structs`.
"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from treadle._internal.json_text import met
from treadle.tools.schemas.tidy import STRUCT


def with_structs(hint: Any, *, strict: bool = False) -> Any:
    """Return the annotation with pydantic hooks for each Struct in it.

    Unless `strict`, "3" is accepted for an int.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if _is_struct(origin or hint):
        return Annotated[hint, _Struct(hint, strict)]
    if not inner or origin is Literal:
        return hint
    if origin is Annotated:
        return Annotated[(with_structs(inner[0], strict=strict), *inner[1:])]
    told = tuple(with_structs(part, strict=strict) for part in inner)
    if told == inner:
        return hint
    if origin in (Union, UnionType):
        return cast("Any", Union)[told]
    return hint.copy_with(told) if hasattr(hint, "copy_with") else origin[told]


def _is_struct(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


class _Struct:
    """Hooks through which pydantic validates and describes a Struct."""

    def __init__(self, struct: Any, strict: bool) -> None:
        self.struct = struct
        self.strict = strict

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        met(self.struct)
        return core_schema.no_info_plain_validator_function(self.convert)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        prefix = f"{self.struct}".removeprefix("<class '").removesuffix("'>").replace("/", "_")
        (described,), definitions = msgspec.json.schema_components(
            [self.struct], ref_template=f"#/$defs/{prefix}:{{name}}"
        )
        held = {
            "schema": described,
            "definitions": {f"{prefix}:{name}": d for name, d in definitions.items()},
        }
        return {STRUCT: msgspec.json.encode(held).decode()}

    def convert(self, value: object) -> object:
        try:
            return msgspec.convert(value, self.struct, strict=self.strict)
        except (msgspec.ValidationError, RecursionError) as e:
            raise ValueError(str(e)) from e
