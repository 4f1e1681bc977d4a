"""Answers that are msgspec Structs, or unions and lists of them, without pydantic.

typed.py handles Structs inside pydantic's types. Entry point: `Structs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from treadle._internal.json_text import JsonText, met
from treadle.tools.schemas.bounds import TooMuch
from treadle.tools.schemas.checked import CheckedSchema
from treadle.tools.schemas.problems import Path, SchemaProblem
from treadle.tools.schemas.tidy import closed, tidy, walked

_UNCHECKED: Final = frozenset({"pattern", "format", "contentEncoding", "discriminator"})
"""Keywords that only msgspec checks, since other libraries differ in regular expressions and dates.
"""
_PLACE: Final = re.compile(r" - at (?:key in )?`\$(.*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class Structs:
    """`Shape` of a Struct. Also validated by the schema, because msgspec ignores unknown fields."""

    def __init__(self, kind: Any) -> None:
        """Describe the type. Raises errors of msgspec and of the type's own code."""
        self._kind: Final = met(kind)
        self._decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(self._kind)
        self.schema: Final[dict[str, Any]] = closed(tidy(msgspec.json.schema(kind)))
        checked = walked(
            self.schema,
            lambda part: {name: inner for name, inner in part.items() if name not in _UNCHECKED},
        )
        self._check: Final = CheckedSchema(checked, "the schema of the answer is", "answer")

    def read(self, text: JsonText) -> Any:
        value = self._decoder.decode(text)
        if not self._check.fits(json.loads(text), len(text)):
            raise ValueError("it has fields that the Struct does not have")
        return value

    def problems(self, document: object, error: Exception) -> Sequence[SchemaProblem]:
        return ([] if isinstance(error, TooMuch) else self._check.problems(document, "field")) or [
            _problem(str(error))
        ]

    def again(self, plain: object) -> Any:
        return msgspec.convert(plain, self._kind, strict=False)

    def encoded(self, value: Any) -> JsonText:
        return msgspec.json.encode(value).decode()


def _problem(said: str) -> SchemaProblem:
    """Return msgspec's error as a problem. msgspec reports only the first one."""
    place = _PLACE.search(said)
    text = (said[: place.start()] if place else said).replace("`", "")
    path: Path = (
        tuple(name or int(index) for name, index in _STEP.findall(place[1])) if place else ()
    )
    return SchemaProblem(path, text[:1].lower() + text[1:])
