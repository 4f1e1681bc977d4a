"""Conversation history that encodes each message once per wire.

Entry points: `History`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, overload

from typing_extensions import override

from treadle.messages.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator


class History(Sequence[Message]):
    """Append-only list of messages, with a cached encoding for each wire. The caller owns it.

    `settled`: messages before this index belong to ended runs, whose reasoning is not sent again.
    It never changes, because it affects the encoding: the next run creates a new History.
    """

    __slots__ = ("_bytes", "_messages", "memo", "settled")

    def __init__(self, messages: Iterable[Message] = (), settled: int = 0) -> None:
        self._messages = list(messages)
        self._bytes: dict[str, tuple[int, bytearray]] = {}
        self.settled = settled
        self.memo: dict[str, tuple[object, ...]] = {}
        """Values that wires cache for this conversation, by wire name."""

    def append(self, message: Message) -> None:
        self._messages.append(message)

    def encoded(self, wire: str, encode: Callable[[Message, bool], bytes]) -> bytearray:
        """Return all messages as JSON, joined by commas. Do not keep or modify the returned array.

        Encodes only messages added since the last call. `encode(message, settled)` returns b"" for
        a message that this wire does not send.
        """
        done, joined = self._bytes.get(wire) or (0, bytearray())
        messages, settled = self._messages, self.settled
        new = b",".join(
            [
                piece
                for i in range(done, len(messages))
                if (piece := encode(messages[i], i < settled))
            ]
        )
        if new:
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
