"""What a family of types does for an answer: it describes itself, reads JSON, and tells what is
wrong with it.

What all have in common is answer.py's part. Entry: `Shape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from treadle._internal.json_text import JsonText
from treadle.tools.schemas.problems import SchemaProblem


class Shape(Protocol):
    """Made when it is first needed. Texts are sound JSON (words.py) or no JSON at all."""

    @property
    def schema(self) -> dict[str, Any]:
        """Of the value itself, whatever its root is."""
        ...

    def read(self, text: JsonText) -> Any:
        """Raises any exception where it does not fit: the code of a type is anybody's."""
        ...

    def problems(self, document: object, error: Exception) -> Sequence[SchemaProblem]:
        """What `read` raised `error` for, given what its text says."""
        ...

    def again(self, plain: object) -> Any:
        """From plain data, leniently. Raises any exception."""
        ...

    def encoded(self, value: Any) -> JsonText:
        """Raises any exception."""
        ...
