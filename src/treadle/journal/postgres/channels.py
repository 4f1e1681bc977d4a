"""Encoding of notifications for PostgreSQL: many messages in few texts of limited length.

Entry points: `packed`, `Unpacking`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

CHANNELS: Final = 32
"""Over so many the topics are spread, so that a process hears little of what it does not listen to.
"""
WISHES: Final = "treadle_wishes"
"""On it those who listen say so."""
TEXT_MAX: Final = 7900
"""A notification carries less than 8000 bytes."""


class Notification(NamedTuple):
    topic: str
    payload: bytes


def channel_of(topic: str) -> str:
    return f"treadle_{crc32(topic.encode('utf-8', 'surrogatepass')) % CHANNELS}"


def packed(sender: str, serial: int, told: Sequence[Notification]) -> Iterator[str]:
    """Encode as texts in ASCII, in order: `SENDER SERIAL PART PARTS JSON`."""
    text = json.dumps(
        [[one.topic, one.payload.decode("utf-8", "surrogateescape")] for one in told],
        separators=(",", ":"),
    )
    room = TEXT_MAX - len(sender) - 40
    parts = [text[at : at + room] for at in range(0, len(text), room)]
    for number, part in enumerate(parts, 1):
        yield f"{sender} {serial} {number} {len(parts)} {part}"


def batches(told: Iterable[Notification]) -> Iterator[list[Notification]]:
    """Together as many as one text may hold, about."""
    batch: list[Notification] = []
    size = 0
    for one in told:
        length = len(one.topic) + len(one.payload) + 8
        if batch and size + length > TEXT_MAX // 2:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch


class Unpacking:
    """Decoder of texts from other processes, in the order of their arrival."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._begun: dict[str, tuple[str, list[str]]] = {}
        """The parts that came of each sender's last message, where it has several."""

    def take(self, text: str) -> list[Notification]:
        """Decode a text; empty for texts of this process, for incomplete ones, and for unknown
        ones.
        """
        sender, serial, number, count, part = (*text.split(" ", 4), "", "", "", "")[:5]
        if sender == self._me or not (number.isdecimal() and count.isdecimal()):
            return []
        if count != "1":
            last, parts = self._begun.pop(sender, ("", []))
            parts = [*parts, part] if last == serial else [part]
            if len(parts) != int(number):  # one got lost
                return []
            if number != count:
                self._begun[sender] = (serial, parts)
                return []
            part = "".join(parts)
        try:
            items: list[Any] = json.loads(part)
            return [
                Notification(str(topic), str(payload).encode("utf-8", "surrogateescape"))
                for topic, payload in items
            ]
        except (
            ValueError,
            TypeError,
            RecursionError,
        ):  # from another version, or of anybody who may connect to the database
            return []
