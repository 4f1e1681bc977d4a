"""Answers by a JSON Schema that the caller wrote. The value is plain data.

Entry point: `Given`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from treadle._internal.json_text import JsonText, encode_json
from treadle.errors import AgentError
from treadle.tools.schemas.bounds import TooMuch
from treadle.tools.schemas.checked import CheckedSchema
from treadle.tools.schemas.problems import SchemaProblem


class Given:
    """`Shape` of a JSON Schema. If a name is repeated, its last value counts, as in `json`."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        """Create the family. Raises AgentError(invalid) if the schema is obviously invalid or
        refers to a remote one. `ready` compiles it.
        """
        self._check: Final = CheckedSchema(schema, "output= is", "output")
        if self._check.fault:
            raise AgentError("invalid", f"output= is not a valid JSON Schema: {self._check.fault}")
        self.schema: Final[dict[str, Any]] = self._check.schema

    def ready(self) -> Given:
        """Compile the schema, and return itself. Raises AgentError(invalid) if it is not valid."""
        self._check.compile()
        return self

    def read(self, text: JsonText) -> Any:
        value: object = json.loads(text)
        if not self._check.fits(value, len(text)):
            raise ValueError("it does not fit the schema")
        return value

    def problems(self, document: object, error: Exception) -> Sequence[SchemaProblem]:
        return (
            [SchemaProblem((), str(error))]
            if isinstance(error, TooMuch)
            else self._check.problems(document, "field")
        )

    def again(self, plain: object) -> Any:
        return plain

    def encoded(self, value: Any) -> JsonText:
        return encode_json(value).decode()
