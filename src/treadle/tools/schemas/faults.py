"""Pydantic's errors as problems that a model can correct. Imported only when pydantic has raised
one.

Entry points: `fault_of_text`, `problems_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic_core import ErrorDetails, ValidationError

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

_QUOTED: Final = re.compile(r"'([^']*)'")
_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_CHOICES: Final = frozenset({"literal_error", "enum"})
_CONTAINERS: Final = re.compile(
    r"(list|dict|set|frozen_set|tuple|model|dataclass|model_attributes)_type|dataclass_exact_type"
)


def fault_of_text(error: ValidationError) -> str | None:
    """Return the reason why the text is not JSON. None if it is JSON that does not match the
    schema.
    """
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return str(first.get("ctx", {}).get("error", first["msg"]))
    return (
        "it contains half of a surrogate pair"
        if first["type"] == "string_unicode" and not first["loc"]
        else None
    )


def problems_of(
    error: ValidationError, document: object, schema: JsonSchema, noun: str
) -> Sequence[SchemaProblem]:
    """Return one problem for each place in the document; problems of a union's members are merged.
    Unknown names come first, because they often explain the rest.
    """
    by_place: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        by_place.setdefault(_place(detail, document), []).append(detail)
    in_order = sorted(by_place.items(), key=lambda place: place[1][0]["type"] not in _UNKNOWN)
    return [_problem(path, details, schema, noun) for path, details in in_order]


def _place(detail: ErrorDetails, document: object) -> Path:
    """Return the place without the names of union members, which the document does not contain."""
    path: list[str | int] = []
    here = document
    steps = detail["loc"]
    for i, step in enumerate(steps):
        if isinstance(here, Mapping) and step in here:
            here = cast("Mapping[object, object]", here)[step]
        elif isinstance(here, list) and isinstance(step, int):
            here = (
                cast("list[object]", here)[step] if step < len(cast("list[object]", here)) else None
            )
        elif not (detail["type"] == "missing" and i == len(steps) - 1):
            continue
        path.append(step)
    return tuple(path)


def _problem(
    path: Path, details: Sequence[ErrorDetails], schema: JsonSchema, noun: str
) -> SchemaProblem:
    first = details[0]
    if first["type"] == "missing":
        return missing(path, schema)
    if first["type"] in _UNKNOWN:
        return unknown(path, schema, noun)
    wrongs = dict.fromkeys(_wrong(detail) for detail in details)
    hints = dict.fromkeys(hint for detail in details for hint in _hints(detail))
    return SchemaProblem(
        path, f"{', or '.join(wrongs)}, got {shown(cast('object', first['input']))}{''.join(hints)}"
    )


def _wrong(detail: ErrorDetails) -> str:
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if message.startswith("Input should be "):
        return "expected " + message.removeprefix("Input should be ")
    return message[:1].lower() + message[1:]


def _hints(detail: ErrorDetails) -> Iterator[str]:
    value: Any = detail["input"]
    if _CONTAINERS.fullmatch(detail["type"]):
        yield as_string(value)
    elif detail["type"] in _CHOICES and isinstance(value, str):
        near = nearest(value, _QUOTED.findall(str(detail.get("ctx", {}).get("expected", ""))))
        if near:
            yield f"; {near}"
