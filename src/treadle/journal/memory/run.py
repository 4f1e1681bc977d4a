"""A run of a journal in memory, with its entries, compressed once it is finished, and its one
driver. Entry: `MemoryRun`, `MemoryWriter`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from treadle._internal.json_text import decode_json, encode_json
from treadle.errors import AgentError
from treadle.journal.entries import Entry, RunFinished, ToolLate
from treadle.journal.memory.notifier import LocalNotifier
from treadle.journal.memory.queue import Queued
from treadle.journal.notifier import QUEUE, run_topic
from treadle.journal.queue import QueuePlace
from treadle.journal.run_info import RunInfo, RunStatus, info_of


class MemoryRun:
    """A run, changed only by its writer and by the queue."""

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


class MemoryWriter:
    """Appends to one run until another driver takes it over."""

    __slots__ = ("_notifier", "_run", "_topic", "failed_over", "fence", "run_id")

    def __init__(self, run_id: str, run: MemoryRun, notifier: LocalNotifier) -> None:
        self.run_id = run_id
        self._run = run
        self._notifier, self._topic = notifier, run_topic(run_id)
        self.fence, self.failed_over = run.fence, False
        run.held = True

    async def append(
        self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None, wakes: bool = False
    ) -> int:
        run = self._run
        if run.fence != self.fence or not (
            run.held or all(isinstance(entry, ToolLate) for entry in entries)
        ):
            raise self._not_held()
        finished = run.packed is not None
        if finished:
            run.entries, run.packed = run.unpacked(), None
            run.late[self.run_id] = len(run.entries) + len(entries)
        first = len(run.entries) + 1
        run.entries.extend(entries)
        run.waiting = run.waiting and not run.held
        if finished or RunFinished in map(type, entries):
            run.held = False
            run.pack()
        if put_back is not None:
            run.held, run.queued = False, Queued.put_back(run.queued, put_back)
        if wakes:
            run.waiting = False
        if put_back is not None or wakes:
            self._notifier.tell(QUEUE)
        self._notifier.tell(self._topic)
        return first

    async def verify(self) -> None:
        if self._run.fence != self.fence or not self._run.held:
            raise self._not_held()

    def _not_held(self) -> AgentError:
        return AgentError(
            "busy", f"run {self.run_id} is no longer held by this driver: nothing was appended"
        )

    async def release(self, *, waiting: bool | None = False) -> None:
        if self._run.held and self._run.fence == self.fence:
            run, queued = self._run, self._run.queued
            run.held, run.waiting = False, run.waiting if waiting is None else waiting
            if queued is not None:
                if waiting is None:
                    queued.sent_to = None
                else:
                    queued.let_go(waiting=waiting)
                self._notifier.tell(QUEUE)
