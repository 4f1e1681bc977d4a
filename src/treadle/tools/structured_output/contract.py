"""Contract of typed answers: a schema for the model, and a reader that turns its text into a value.

structured_output/ makes one from a type or a schema. If a text does not fit, the loop asks the
model again. Entry points: `AnswerType`, `Unfit`.
"""

from __future__ import annotations

from typing import Protocol

from typing_extensions import TypeVar

from treadle._internal.json_text import JsonText

OutOf = TypeVar("OutOf", covariant=True)


class Unfit(Exception):
    """Raised when the model's text is not a value of the type.

    `message` is for the model: the error, its place and the expected value.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class AnswerType(Protocol[OutOf]):
    """Type of an answer."""

    @property
    def schema(self) -> dict[str, object]:
        """JSON Schema for `Settings.output_schema`. Returns the same object every time."""
        ...

    def read(self, text: JsonText) -> OutOf:
        """Parse a text into a value. Raises only Unfit."""
        ...

    def again(self, value: object) -> OutOf:
        """Rebuild the value from plain data, as `encoded` wrote it. Returns the plain data if it no
        longer fits the type.
        """
        ...

    def encoded(self, value: object) -> JsonText:
        """Encode a value that `read` returned, as JSON for the journal and events."""
        ...

    def partial(self, text: str) -> object | None:
        """Parse an incomplete text into plain data, without validation; None if there is no content
        yet.
        """
        ...

    def so_far(self, text: str) -> OutOf | None:
        """Return the longest valid prefix of a text; None if there is none. Never raises."""
        ...
