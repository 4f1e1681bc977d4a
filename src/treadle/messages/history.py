"""What was said so far, and the bytes that wires have made of it: each message is encoded once.

Entry: `History`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, overload

from typing_extensions import override

from treadle.messages.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator


class History(Sequence[Message]):
    """An append-only list of messages that the caller owns, and the bytes that wires have already
    made of it.

    `settled`: the messages before this index belong to ended runs, whose reasoning is not sent
    again. It is fixed for the life of the object: the next run makes a new History, and so switches
    the encoding once.
    """

    __slots__ = ("_bytes", "_messages", "memo", "settled")

    def __init__(self, messages: Iterable[Message] = (), settled: int = 0) -> None:
        self._messages = list(messages)
        self._bytes: dict[str, tuple[int, bytearray]] = {}
        self.settled = settled
        self.memo: dict[str, tuple[object, ...]] = {}
        """What a wire wants to remember of this conversation, by its name: the caller forgets it
        with the history.
        """

    def append(self, message: Message) -> None:
        self._messages.append(message)

    def encoded(self, wire: str, encode: Callable[[Message, bool], bytes]) -> bytearray:
        """Every message as JSON, joined by commas; only what came since the last call is encoded.
        Do not keep or change it.

        `encode(message, settled)` may give b"" for a message that this wire does not send.
        """
        done, joined = self._bytes.get(wire) or (0, bytearray())
        messages = self._messages
        pieces = (encode(messages[i], i < self.settled) for i in range(done, len(messages)))
        if new := b",".join([piece for piece in pieces if piece]):
            joined += b"," + new if joined else new
        self._bytes[wire] = (len(messages), joined)
        return joined

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    @override
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    @override
    def __len__(self) -> int:
        return len(self._messages)

    @override
    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)
