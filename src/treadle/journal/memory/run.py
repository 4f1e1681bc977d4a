"""A run of a journal in memory: its entries, packed once it is finished. Entry: `MemoryRun`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from treadle._internal.json_text import decode_json, encode_json
from treadle.journal.entries import Entry
from treadle.journal.journal import RunInfo, RunStatus, info_of
from treadle.journal.memory.queue import Queued


class MemoryRun:
    """Changed by its writer and by the queue."""

    __slots__ = ("entries", "fence", "held", "late", "packed", "queued", "session_id", "waiting")

    def __init__(
        self,
        entries: Sequence[Entry],
        session_id: str | None,
        late: dict[str, int],
        *,
        fence: int = 1,
    ) -> None:
        self.entries = [*entries]
        self.session_id = session_id
        self.late = late
        """Late results of its session, by run."""
        self.packed: bytes | None = None
        self.fence = fence
        self.held = self.waiting = False
        self.queued: Queued | None = None

    @property
    def finished(self) -> bool:
        return self.packed is not None

    @property
    def status(self) -> RunStatus:
        if self.finished or self.held or self.waiting:
            return "finished" if self.finished else "running" if self.held else "waiting"
        return "queued" if self.queued is not None and self.queued.parked is None else "stopped"

    def info(self) -> RunInfo:
        info = info_of(self.unpacked(), self.status)
        if (queued := self.queued) is None:
            return info
        return msgspec.structs.replace(
            info, queue=queued.place.queue, tenant=queued.place.tenant, parked=queued.parked
        )

    def unpacked(self) -> list[Entry]:
        return (
            self.entries
            if self.packed is None
            else decode_json(zlib.decompress(self.packed), list[Entry])
        )

    def pack(self) -> None:
        self.packed = zlib.compress(encode_json(self.unpacked()), level=1)
        self.entries = []
