"""Contract of a family of output types: describe the type, read JSON, report problems.

answer.py has what all families share. Entry points: `Shape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from treadle._internal.json_text import JsonText
from treadle.tools.schemas.problems import SchemaProblem


class Shape(Protocol):
    """Description and reader of one type, built on first use. Its input is either valid JSON
    (words.py) or not JSON at all.
    """

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the value itself, whatever its root is."""
        ...

    def read(self, text: JsonText) -> Any:
        """Return the value. Raises any exception if the text does not fit, because a type may run
        arbitrary code.
        """
        ...

    def problems(self, document: object, error: Exception) -> Sequence[SchemaProblem]:
        """Return the problems for which `read` raised `error`, given the parsed text."""
        ...

    def again(self, plain: object) -> Any:
        """Make a value from plain data, leniently. Raises any exception."""
        ...

    def encoded(self, value: Any) -> JsonText:
        """Encode a value. Raises any exception."""
        ...
