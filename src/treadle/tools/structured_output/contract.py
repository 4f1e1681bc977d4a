"""What a typed answer is: a shape that the model is told, and the one way to read its words as a
value of it.

Making one from a type or a schema is outputs/; asking again where the words do not fit is the
loop's. Entry: `AnswerType`, `Unfit`.
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
        """What `read` gave, as JSON for the journal and for events."""
        ...

    def partial(self, text: str) -> object | None:
        """What the beginning of a text says so far, as plain data, not validated; None where
        nothing of it can be told yet.
        """
        ...
