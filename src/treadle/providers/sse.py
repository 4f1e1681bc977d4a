"""Server-sent events out of bytes, however the bytes are cut.

No reading, no JSON, no reconnecting (`id` and `retry` are skipped). Entry: `EventSplitter`.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6.
"""

from __future__ import annotations

from treadle.errors import AgentError

EVENT_BYTES_MAX = 64 * 1024 * 1024
"""A single event beyond this is taken for a broken stream, so that memory stays bounded."""

_BOM = b"\xef\xbb\xbf"


class EventSplitter:
    """Feed it bytes as they come; it gives each event once it is whole, as its name (b"" where it has none) and its data."""

    __slots__ = ("_at_start", "_rest", "_searched", "_swallow_lf")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._at_start = True
        self._swallow_lf = False

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """The events that end in `chunk`, in order. Raises AgentError(network) where one grows beyond EVENT_BYTES_MAX."""
        if self._swallow_lf or b"\r" in chunk:
            chunk = self._with_plain_line_ends(chunk)
        rest = self._rest
        rest += chunk
        end = rest.rfind(b"\n\n", self._searched)
        if end < 0:
            if len(rest) > EVENT_BYTES_MAX:
                raise AgentError("network", f"the stream sent an event of more than {EVENT_BYTES_MAX} bytes")
            self._searched = max(0, len(rest) - 1)
            return []
        blocks = bytes(rest[:end]).split(b"\n\n")
        del rest[: end + 2]
        self._searched = max(0, len(rest) - 1)
        if self._at_start:
            self._at_start = False
            blocks[0] = blocks[0].removeprefix(_BOM)
        return _events(blocks)

    def finish(self) -> list[tuple[bytes, bytes]]:
        """What an ended stream left without its blank line. The standard drops it; some servers end so, and its reader can tell half from whole."""
        left = bytes(self._rest)
        self._rest.clear()
        return _events([left.removeprefix(_BOM) if self._at_start else left])

    def _with_plain_line_ends(self, chunk: bytes) -> bytes:
        """Every kind of line end as LF; a CR LF that is cut between two chunks is one."""
        if self._swallow_lf and chunk:
            self._swallow_lf = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            self._swallow_lf = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _events(blocks: list[bytes]) -> list[tuple[bytes, bytes]]:
    events: list[tuple[bytes, bytes]] = []
    for block in blocks:
        # Nearly every event of every provider is `event: NAME` and one `data:` line, or that line alone.
        line_end = block.find(b"\n")
        if line_end < 0:
            if block.startswith(b"data: "):
                events.append((b"", block[6:]))
                continue
        elif block.startswith(b"data: ", line_end + 1) and block.startswith(b"event: ") and block.find(b"\n", line_end + 7) < 0:
            events.append((block[7:line_end], block[line_end + 7 :]))
            continue
        if (event := _any_event(block)) is not None:
            events.append(event)
    return events


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
