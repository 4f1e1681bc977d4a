"""What an item of an answer is while it comes, whatever its kind: pieces go in, deltas come out,
and at its end it says all that it is.

The kinds are items.py's and calls.py's. Entry: `OutputItem`.
"""

from __future__ import annotations

from treadle.models.model import Delta, PartEnd
from treadle.models.providers.decoding import text_of
from treadle.models.providers.encoding import Fields
from treadle.models.providers.openai_responses.events import ItemDelta
from treadle.models.providers.surrogates import mended

PROVIDER = "openai"
NULL = b"null"
PLAIN_END = PartEnd()


class OutputItem:
    """One item.

    Pieces are added until it is closed; `finish` may come before that, after it, or never.
    """

    __slots__ = ("closed", "id", "index", "settled")

    def __init__(self, fields: Fields, index: int | None) -> None:
        self.index = index
        self.id = text_of(fields, "id")
        self.closed = False
        self.settled = False
        """Its end has come."""

    def add(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        """Not after it was closed."""

    def part_done(self, fields: Fields) -> None:
        """All that its open part is."""

    def close(self, deltas: list[Delta]) -> None:
        """Something else begins: its end has not come yet, or never will."""
        self.closed = True

    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        """This is all that it is. False where that can no longer be said in deltas."""
        raise NotImplementedError

    @property
    def is_call(self) -> bool:
        return False

    @property
    def is_search(self) -> bool:
        """Whether it is a web search, which the provider bills."""
        return False

    @property
    def refused(self) -> bool:
        return False


def present(fields: Fields, *but: str) -> Fields:
    return {name: raw for name, raw in fields.items() if name not in but and bytes(raw) != NULL}


def same(a: str, b: str) -> bool:
    """But for what is white around it, which some servers do not tell twice alike."""
    return a == b or mended(a).strip() == mended(b).strip()
