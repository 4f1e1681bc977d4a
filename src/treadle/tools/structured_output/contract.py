"""Contract of typed answers: a schema for the model, and a reader that turns text into a value of
it.

structured_output/ makes one from a type or a schema; the loop asks again if the text does not fit.
Entry points: `AnswerType`, `Unfit`.
"""

from __future__ import annotations

from typing import Protocol

from typing_extensions import TypeVar

from treadle._internal.json_text import JsonText

OutOf = TypeVar("OutOf", covariant=True)


class Unfit(Exception):
    """The model's words are no such value.

    `message` is for the model: what is wrong, where, and what would be right.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class AnswerType(Protocol[OutOf]):
    """The shape of an answer."""

    @property
    def schema(self) -> dict[str, object]:
        """A JSON Schema, the same object every time: what `Settings.output_schema` says to the
        model.
        """
        ...

    def read(self, text: JsonText) -> OutOf:
        """The value. Raises Unfit, and nothing else, whatever the text is."""
        ...

    def again(self, value: object) -> OutOf:
        """The value out of its plain data, as `encoded` wrote it; the plain data itself where it
        does not fit any more.
        """
        ...

    def encoded(self, value: object) -> JsonText:
        """Encode a value that `read` returned, as JSON for the journal and events."""
        ...

    def partial(self, text: str) -> object | None:
        """Parse the beginning of a text into plain data, without validation; None if nothing is
        known yet.
        """
        ...
