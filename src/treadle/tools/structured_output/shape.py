"""Contract of a family of output types: describe the type, read JSON, report problems.

answer.py has what all families share. Entry points: `Shape`.
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
        """JSON Schema of the value itself, whatever its root is."""
        ...

    def read(self, text: JsonText) -> Any:
        """Raises any exception where it does not fit: the code of a type is anybody's."""
        ...

    def problems(self, document: object, error: Exception) -> Sequence[SchemaProblem]:
        """Return the problems for which `read` raised `error`, given the parsed text."""
        ...

    def again(self, plain: object) -> Any:
        """Make a value from plain data, leniently. Raises any exception."""
        ...

    def encoded(self, value: Any) -> JsonText:
        """Raises any exception."""
        ...
