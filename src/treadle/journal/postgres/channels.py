"""Encoding of notifications for PostgreSQL: many messages in few texts of limited length, on
channels and with signatures that require the journal's key.

LISTEN and NOTIFY need no privilege other than connecting to the database. The names of the channels
and the signatures are therefore derived from a key in the journal's schema: a role that cannot read
the schema can neither listen nor forge notifications. Entry points: `ChannelKey`, `packed`,
`Unpacking`.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from zlib import crc32

CHANNELS: Final = 32
"""Number of channels over which topics are distributed, so that a process receives few
notifications for topics without a subscriber.
"""
_PART: Final = re.compile(r"[0-9]{1,9}")
"""Index of a part, or number of parts."""
TEXT_MAX: Final = 7900
"""Maximum length of a text. A notification holds less than 8000 bytes, and a signature takes 33."""


class Notification(NamedTuple):
    topic: str
    payload: bytes


class ChannelKey:
    """Channels of a journal, and signatures of the texts on them."""

    def __init__(self, key: bytes) -> None:
        """Create a channel key. `key`: the bytes in `treadle.notify_key`."""
        self._key = key
        self._channels = tuple(self._named(f"topics {number}") for number in range(CHANNELS))
        self.wishes = self._named("wishes")
        """Channel on which subscribers announce their topics."""

    def channel_of(self, topic: str) -> str:
        return self._channels[crc32(topic.encode("utf-8", "surrogatepass")) % CHANNELS]

    def signed(self, channel: str, text: str) -> str:
        """Sign a text for this channel, which makes it 33 characters longer."""
        return f"{self._mac(f'{channel} {text}')} {text}"

    def verified(self, channel: str, signed: str) -> str | None:
        """Return the text without its signature; None if it was not signed for this channel with
        this key.
        """
        mac, _, text = signed.partition(" ")
        given = mac.encode("utf-8", "surrogatepass")
        expected = self._mac(f"{channel} {text}").encode()
        return text if hmac.compare_digest(given, expected) else None

    def _named(self, what: str) -> str:
        return f"treadle_{self._mac(f'channel {what}')}"

    def _mac(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._key[:64], digest_size=16).hexdigest()


def packed(sender: str, serial: int, told: Sequence[Notification]) -> Iterator[str]:
    """Encode as ASCII strings, in order: `SENDER SERIAL PART PARTS JSON`."""
    text = json.dumps(
        [[one.topic, one.payload.decode("utf-8", "surrogateescape")] for one in told],
        separators=(",", ":"),
    )
    room = TEXT_MAX - len(sender) - 40
    parts = [text[at : at + room] for at in range(0, len(text), room)]
    for number, part in enumerate(parts, 1):
        yield f"{sender} {serial} {number} {len(parts)} {part}"


def batches(told: Iterable[Notification]) -> Iterator[list[Notification]]:
    """Yield groups of messages, each about as large as one text may be."""
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
    """Decoder of texts from other processes, in order of arrival."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._begun: dict[str, tuple[str, list[str]]] = {}
        """Parts received so far of each sender's latest message, if it has several."""

    def take(self, text: str) -> list[Notification]:
        """Decode a text. Empty for texts of this process, incomplete messages, and unknown
        formats.
        """
        sender, serial, number, count, part = (*text.split(" ", 4), "", "", "", "")[:5]
        if sender == self._me or not all(_PART.fullmatch(each) for each in (number, count)):
            return []
        if count != "1":
            last, parts = self._begun.pop(sender, ("", []))
            parts = [*parts, part] if last == serial else [part]
            if len(parts) != int(number):  # a part was lost
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
        ):  # from another version, or forged by a role that may connect to the database
            return []
