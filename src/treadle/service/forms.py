"""Field types of the bodies, parameters and responses of chats and runs. Their constraints appear
in the schema.

See also: checks on every body (bodies.py). Entry points: `Words`, `Line`, `Id`, `Moment`, `Whole`,
`Data`, `problems`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Path
from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints, WithJsonSchema

from treadle.service.bodies import NO_NUL

INVISIBLE: Final = (
    r"\u0000-\u0020\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
)
"""Invisible characters of the Basic Multilingual Plane. A text of these alone is empty."""
NO_LINE: Final = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
NO_TEXT: Final = r"\u0000-\u0008\u000b-\u001f\u007f-\u009f"

Words = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=10_000, pattern=rf"^[^\u0000]*[^{INVISIBLE}][^\u0000]*$"
    ),
]
"""Text from a person, with at least one visible character and no NUL."""
Line = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\u0000]*$")]
Id = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\u0000]*$")]
"""Id of an object that may not exist; any text is valid."""
InPath = Annotated[str, Path(max_length=128)]


_MOMENT: Final = r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-5][0-9])$"  # noqa: E501


def _moment(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(_MOMENT, value):
        raise ValueError("give a time with its zone, like 2026-12-01T09:30:00Z")
    return value


Moment = Annotated[
    AwareDatetime, BeforeValidator(_moment), Field(json_schema_extra={"pattern": _MOMENT})
]


def _whole(value: Any) -> Any:
    """Convert 1.0 to an integer, as JSON Schema does. Unlike in Python, True is not a number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole: Final = BeforeValidator(_whole)
"""Accept 1.0 as an integer. Follows `Field`, whose constraints the schema loses otherwise."""

_DATA: Final = {
    "type": "object",
    "propertyNames": {"pattern": NO_NUL},
    "additionalProperties": {"$ref": "#/components/schemas/Data"},
}
Data = Annotated[dict[str, Any], WithJsonSchema(_DATA)]
"""JSON object without NUL: `DATA`, which the OpenAPI document contains once."""
DATA: Final = {
    "title": "Data",
    "anyOf": [
        {"type": ["null", "boolean", "number"]},
        {"type": "string", "pattern": NO_NUL},
        {"type": "array", "items": {"$ref": "#/components/schemas/Data"}},
        _DATA,
    ],
}

_TEXTS: Final = {
    404: "Not found, or not yours.",
    409: "In progress, or already finished.",
    504: "It took too long and was stopped.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe a route's error responses, except those that every route has (openapi.py)."""
    return {status: {"description": _TEXTS[status]} for status in statuses}
