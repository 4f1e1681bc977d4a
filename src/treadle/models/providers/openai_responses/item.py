"""Base class of streamed items: fragments become deltas, and the end of an item contains its whole
content.

items.py and calls.py define the kinds. Entry points: `OutputItem`.
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
    """A streamed item.

    Fragments are added until it is closed; `finish` may come before, after, or never.
    """

    __slots__ = ("closed", "id", "index", "settled")

    def __init__(self, fields: Fields, index: int | None) -> None:
        self.index = index
        self.id = text_of(fields, "id")
        self.closed = False
        self.settled = False
        """True after its end has arrived."""

    def add(self, piece: ItemDelta, deltas: list[Delta]) -> None:
        """Add a fragment. Not called after `close`."""

    def part_done(self, fields: Fields) -> None:
        """Set the whole content of the open part."""

    def close(self, deltas: list[Delta]) -> None:
        """Close the item because another begins. Its end may still arrive."""
        self.closed = True

    def finish(self, fields: Fields, deltas: list[Delta]) -> bool:
        """Complete the item with its whole content. Returns False if deltas can no longer express
        it.
        """
        raise NotImplementedError

    @property
    def is_call(self) -> bool:
        return False

    @property
    def fee(self) -> str:
        """Return the item's separately billed unit: `web_search`, `file_search`, or the id of a
        container; "" if there is none.
        """
        return ""

    @property
    def refused(self) -> bool:
        return False


def present(fields: Fields, *but: str) -> Fields:
    return {name: raw for name, raw in fields.items() if name not in but and bytes(raw) != NULL}


def same(a: str, b: str) -> bool:
    """Return True if both are equal except for surrounding whitespace, which some servers do not
    repeat exactly.
    """
    return a == b or mended(a).strip() == mended(b).strip()
