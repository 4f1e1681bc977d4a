"""A typed answer as the protocol has it: data that fits the schema which the tool was listed with,
an object in every era. Entry: `structured`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.structured_output.roots import RESULT

_OF_A_WRAPPER: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"}
)


def structured(answer: AnswerType[Any], value: object) -> dict[str, object]:
    """The value as plain data; inside `result`, where the schema is of a value that is no object."""  # noqa: E501
    plain = cast("object", json.loads(answer.encoded(value)))
    if _is_wrapper(answer.schema) and not (
        isinstance(plain, dict) and cast("dict[str, object]", plain).keys() == {RESULT}
    ):
        return {RESULT: plain}
    return cast("dict[str, object]", plain) if isinstance(plain, dict) else {RESULT: plain}


def _is_wrapper(schema: Mapping[str, object]) -> bool:
    properties = schema.get("properties")
    return (
        isinstance(properties, dict)
        and list(cast("dict[str, object]", properties)) == [RESULT]
        and schema.keys() <= _OF_A_WRAPPER
    )
