"""Parser of server-sent events that accepts bytes in arbitrary chunks.

It ignores `id` and `retry`. Entry points: `EventSplitter`.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6.
"""

from __future__ import annotations

import re

from treadle.errors import AgentError

EVENT_BYTES_MAX = 64 * 1024 * 1024
"""Maximum size of an event. A larger one is treated as a broken stream, so that memory stays
bounded.
"""

_BOM = b"\xef\xbb\xbf"
_NAMED_EVENT = re.compile(rb"^event: (.*)\ndata: (.*)\n\n", re.MULTILINE)
_LINE_ENDS_OF_NAMED_EVENT = 3
_DATA = b"data: "
_BLANK_LINE = b"\r\n\r\n"


class EventSplitter:
    """Incremental splitter. Returns each complete event as its name (b"" if it has none) and
    data.
    """

    __slots__ = ("_at_start", "_held", "_held_bytes", "_swallow_lf")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        """The incomplete event, as received."""
        self._held_bytes = 0
        self._at_start = True
        self._swallow_lf = False

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Return the events that end in `chunk`, in order.

        Raises AgentError(network) if one exceeds EVENT_BYTES_MAX.
        """
        blank_line = -1 if self._swallow_lf or b"\r" not in chunk else chunk.rfind(_BLANK_LINE)
        if blank_line >= 0:
            end = blank_line + len(_BLANK_LINE)
            # mixed line ends in the held bytes make _unnamed return None
            if (events := _unnamed(b"".join([*self._held, chunk[:end]]), b"\r\n")) is not None:
                self._begin_anew()
                return events + self.feed(chunk[end:])
        aligned = not (self._held or self._swallow_lf)
        if self._swallow_lf or b"\r" in chunk:
            chunk = self._with_plain_line_ends(chunk)
        if aligned and chunk.endswith(b"\n\n"):
            whole = chunk.removeprefix(_BOM) if self._at_start else chunk
            self._at_start = False
            return _events(whole)
        before = self._held[-1][-1:] if self._held else b""
        blank_line = (before + chunk).rfind(b"\n\n")
        if blank_line < 0:
            self._hold(chunk)
            return []
        end = blank_line + 2 - len(before)
        whole = b"".join([*self._held, chunk[:end]])
        if self._at_start:
            whole = whole.removeprefix(_BOM)
        self._begin_anew()
        self._hold(chunk[end:])
        return _events(whole)

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Return the event that an ended stream left without its blank line.

        The standard discards it, but some servers end this way, and the decoder can detect
        incomplete events.
        """
        return self.feed(b"\n\n") if self._held else []

    def _begin_anew(self) -> None:
        """Clear the buffer after its events were returned."""
        self._held.clear()
        self._held_bytes = 0
        self._at_start = False

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._held.append(piece)
            self._held_bytes += len(piece)
        if self._held_bytes > EVENT_BYTES_MAX:
            raise AgentError(
                "network", f"the stream sent an event of more than {EVENT_BYTES_MAX} bytes"
            )

    def _with_plain_line_ends(self, chunk: bytes) -> bytes:
        """Normalize line ends to LF. A CR LF split between chunks counts once."""
        if self._swallow_lf and chunk:
            self._swallow_lf = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            self._swallow_lf = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _events(whole: bytes) -> list[tuple[bytes, bytes]]:
    """Return the events of a text that ends with a blank line."""
    if (unnamed := _unnamed(whole, b"\n")) is not None:
        return unnamed
    named: list[tuple[bytes, bytes]] = _NAMED_EVENT.findall(whole)
    # If all line ends belong to such events, there is nothing in between: these are all events, at
    # a sixth of the cost.
    if whole.count(b"\n") == _LINE_ENDS_OF_NAMED_EVENT * len(named):
        return named
    return [event for block in whole.split(b"\n\n") if (event := _any_event(block)) is not None]


def _unnamed(whole: bytes, line_end: bytes) -> list[tuple[bytes, bytes]] | None:
    """Return the events of a text in which each is a single data line and that ends with a blank
    line, or None for any other text.
    """
    if not whole.startswith(_DATA):
        return None
    pieces = whole[len(_DATA) : -2 * len(line_end)].split(line_end + line_end + _DATA)
    line_ends = 2 * len(pieces)
    if whole.count(b"\n") != line_ends or whole.count(b"\r") != (
        line_ends if line_end == b"\r\n" else 0
    ):
        return None
    return [(b"", piece) for piece in pieces]


def _any_event(block: bytes) -> tuple[bytes, bytes] | None:
    name, data = b"", list[bytes]()
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return (name, b"\n".join(data)) if data else None
