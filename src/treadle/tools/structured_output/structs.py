"""Answers of msgspec's Structs, and of unions and lists of them: without pydantic.

Structs inside what pydantic knows are typed.py's part. Entry: `Structs`.
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
"""Left to msgspec: other libraries read other expressions and other dates."""
_PLACE: Final = re.compile(r" - at (?:key in )?`\$(.*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class Structs:
    """A `Shape`. What msgspec passes over, unknown fields above all, is checked by the schema."""

    def __init__(self, kind: Any) -> None:
        """Raises msgspec's errors, and those of the type's own code."""
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
            raise ValueError("it has other fields than the Struct")
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
    """The first and only words that msgspec has."""
    place = _PLACE.search(said)
    text = (said[: place.start()] if place else said).replace("`", "")
    path: Path = (
        tuple(name or int(index) for name, index in _STEP.findall(place[1])) if place else ()
    )
    return SchemaProblem(path, text[:1].lower() + text[1:])
