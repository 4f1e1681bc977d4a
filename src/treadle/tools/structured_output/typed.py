"""Answers of types that pydantic knows: its models, dataclasses, TypedDicts, enums, unions, lists
and plain types.

Imports pydantic, so import this module only where it is needed. Entry point: `Typed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from treadle._internal.json_text import JsonText
from treadle.tools.schemas.faults import problems_of
from treadle.tools.schemas.problems import SchemaProblem
from treadle.tools.schemas.structs import with_structs
from treadle.tools.schemas.tidy import closed, tidy, walked


class Typed:
    """`Shape` of a type that pydantic knows.

    Strict: "3" is not accepted for an int. Closed: an unknown field is an error, unless the type is
    configured to ignore or keep unknown fields.
    """

    def __init__(self, kind: Any, scope: Mapping[str, object]) -> None:
        """Create a shape of the type. `scope`: local names that a type defined in a function may
        mention.

        Raises errors of pydantic and of the type's own code.
        """
        self._adapter: Final = _adapter(with_structs(kind, strict=True), scope)
        described = tidy(self._adapter.json_schema(schema_generator=_Schemas))
        self.schema: Final[dict[str, Any]] = closed(described)
        self._extra: Final[Literal["forbid"] | None] = (
            None if _has_open_fields(described) else "forbid"
        )

    def read(self, text: JsonText) -> Any:
        return self._adapter.validate_json(text, strict=True, extra=self._extra)

    def problems(self, document: object, error: Exception) -> Sequence[SchemaProblem]:
        return (
            problems_of(error, document, self.schema, "field")
            if isinstance(error, ValidationError)
            else []
        )

    def again(self, plain: object) -> Any:
        return self._adapter.validate_json(json.dumps(plain), strict=False)

    def encoded(self, value: Any) -> JsonText:
        return self._adapter.dump_json(value, by_alias=True, warnings="error").decode()


def _adapter(kind: Any, scope: Mapping[str, object]) -> TypeAdapter[Any]:
    adapter = TypeAdapter(kind)
    if not adapter.pydantic_complete:
        adapter.rebuild(_types_namespace=dict(scope), raise_errors=True)
    return adapter


class _Schemas(GenerateJsonSchema):
    """Schema generator without warnings. Sets `additionalProperties` to true for types that are
    configured to ignore unknown fields.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  pydantic's own name and type

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        return _opened(super().model_schema(schema), cast("Any", schema["cls"]).model_config)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        return _opened(
            super().dataclass_schema(schema), getattr(schema["cls"], "__pydantic_config__", {})
        )

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> dict[str, Any]:
        return _opened(
            super().typed_dict_schema(schema),
            cast("Mapping[str, object]", schema.get("config", {})),
        )


def _opened(described: dict[str, Any], config: Mapping[str, object]) -> dict[str, Any]:
    return (
        {**described, "additionalProperties": True}
        if config.get("extra") == "ignore"
        else described
    )


def _has_open_fields(schema: dict[str, Any]) -> bool:
    found: list[bool] = []

    def look(part: dict[str, Any]) -> dict[str, Any]:
        more = part.get("additionalProperties", False)
        found.append(more is not False and "properties" in part)
        return part

    walked(schema, look)
    return any(found)
