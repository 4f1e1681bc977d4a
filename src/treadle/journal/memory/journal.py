"""Journal in memory: the full contract without durability. Finished runs are stored as compressed
JSON. Entry point: `MemoryJournal`.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from treadle._internal.json_text import encode_json
from treadle.budget.costs import By, Costs, Tally
from treadle.errors import AgentError
from treadle.journal.entries import (
    Entry,
    Fork,
    Record,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolLate,
)
from treadle.journal.importing import standing_of
from treadle.journal.journal import Journal, RunWriter, read_run
from treadle.journal.load import forked, load
from treadle.journal.memory.notifier import LocalNotifier
from treadle.journal.memory.queue import MemoryQueue
from treadle.journal.memory.run import MemoryRun, MemoryWriter
from treadle.journal.notifier import run_topic
from treadle.journal.queue import RunQueue
from treadle.journal.removable import aged, removable, unfinished
from treadle.journal.run_info import (
    Freed,
    Holder,
    RunFilter,
    RunInfo,
    UnknownRun,
    checked_filter,
    meets,
    spent,
)
from treadle.journal.run_state import RunState
from treadle.journal.session_names import NEW_SESSION, fork_title, title_of
from treadle.journal.session_store import SessionStore
from treadle.journal.sessions import SessionChanged, SessionView, ViewMark
from treadle.journal.totals import with_totals
from treadle.types import Time, now


class MemoryJournal:
    """Journal that keeps runs in a dictionary, for the life of the process."""

    def __init__(self) -> None:
        self._runs: dict[str, MemoryRun] = {}
        self._last: dict[str, str] = {}
        """Newest run of each session."""
        self._late: dict[str, dict[str, int]] = {}
        """By session, the sequence number of the last late result of each run that received any
        after its end.
        """
        self._children: dict[str, list[MemoryRun]] = {}
        """Child runs by the run that started them."""
        self.sessions = SessionStore()
        self.notifier = LocalNotifier()
        self.queue: RunQueue = MemoryQueue(self._runs, self._add, self._find, self.notifier)
        self._stop: Callable[[str], None] | None = None

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        return MemoryWriter(started.run_id, self._add([started], found=found), self.notifier)

    def _add(
        self, entries: Sequence[Entry], *, fence: int = 1, found: ViewMark | None = None
    ) -> MemoryRun:
        """Add a new run without a driver. `found`: as for `begin`."""
        started = entries[0]
        assert isinstance(started, RunStarted), "a run begins with run.started"
        run_id, session_id = started.run_id, started.session_id
        if run_id in self._runs:
            raise AgentError("busy", f"run {run_id} already exists: use another id, or `ensure`")
        if session_id is not None and started.parent_run_id is None:
            self._join(session_id, started, found)
        run = self._insert(started, entries, fence)
        self.notifier.tell(run_topic(run_id))
        return run

    def _insert(self, started: RunStarted, entries: Sequence[Entry], fence: int) -> MemoryRun:
        late = self._late.setdefault(started.session_id or "", {})
        run = self._runs[started.run_id] = MemoryRun(entries, started.session_id, late, fence=fence)
        if started.parent_run_id is not None:
            self._children.setdefault(started.parent_run_id, []).append(run)
        return run

    def _join(self, session_id: str, started: RunStarted, found: ViewMark | None) -> None:
        """Add the run to its session, which has one open run at a time. The first run names the
        session.
        """
        last = self._last.get(session_id, "")
        if (other := self._runs.get(last)) is not None and not other.finished:
            now_what = (
                "wait for its end, or cancel it"
                if other.held or other.status == "queued"
                else "resume it, or kill it"
            )
            raise AgentError(
                "busy", f"run {last} of session {session_id!r} is not finished: {now_what}"
            )
        if found is not None and found != self.sessions.mark(session_id):
            raise SessionChanged(session_id)
        info = self.sessions.get(session_id) or self.sessions.make(
            self._forked_title(started), session_id
        )
        if info.title == NEW_SESSION:
            self.sessions.update_title(session_id, title_of(started.input.text))
        self.sessions.begin(session_id, started.run_id)
        self._last[session_id] = started.run_id

    def _forked_title(self, started: RunStarted) -> str:
        """Return the title of the session that a run creates: for a fork, that of its origin's."""
        origin = None if started.fork is None else self._runs.get(started.fork.run_id)
        info = None if origin is None else self.sessions.get(origin.session_id or "")
        return "" if info is None else fork_title(info.title)

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        run = self._find(run_id)
        if run.finished:
            raise AgentError("invalid", f"run {run_id} is finished")
        if run.held and not force:
            raise AgentError(
                "busy", f"run {run_id} is being driven: wait for its end, or cancel it"
            )
        run.fence += 1
        return MemoryWriter(run_id, run, self.notifier)

    async def ask_to_stop(self, run_id: str) -> bool:
        if not self._find(run_id).held or self._stop is None:
            return False
        self._stop(run_id)
        return True

    def on_stop(self, heard: Callable[[str], None]) -> None:
        self._stop = heard

    def hurry(self) -> None: ...

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        return self._records(run_id, after=max(after, 0))

    async def load(self, run_id: str) -> RunState:
        return load(run_id, self._records, self.sessions)

    async def children(self, run_id: str) -> list[RunInfo]:
        return self._infos(self._children.get(run_id, ()))

    async def load_fork(self, fork: Fork) -> RunState:
        return forked(fork, self._records, self.sessions)

    async def view(self, session_id: str) -> SessionView:
        return SessionView(
            self.sessions.get_messages(session_id),
            self.sessions.mark(session_id),
            dict(self._late.get(session_id, {})),
        )

    async def read_bytes(self, run_id: str) -> list[bytes]:
        return [encode_json(entry) for entry in self._find(run_id).unpacked()]

    async def add_run(self, entries: Sequence[bytes]) -> RunInfo:
        read = read_run(entries)
        started = read[0]
        assert isinstance(started, RunStarted), "read_run sees to it"
        if started.run_id in self._runs:
            raise AgentError(
                "invalid", f"run {started.run_id} is already in this journal: nothing was added"
            )
        if started.fork is not None and started.fork.run_id not in self._runs:
            raise AgentError(
                "invalid",
                (
                    f"run {started.run_id} was forked from {started.fork.run_id}, which is not "
                    "in this journal: import it first"
                ),
            )
        standing = standing_of(read)
        run = self._insert(started, read, standing.fence)
        run.waiting = standing.waiting
        session_id, finished = (
            started.session_id,
            any(isinstance(entry, RunFinished) for entry in read),
        )
        if session_id is not None and started.parent_run_id is None:
            if self.sessions.get(session_id) is None:
                self.sessions.make(title_of(started.input.text), session_id)
            self.sessions.begin(session_id, started.run_id)
            last = self._runs.get(self._last.get(session_id, ""))
            if last is None or last.finished or not finished:
                self._last[session_id] = started.run_id
            if finished and isinstance(read[-1], ToolLate):
                run.late[started.run_id] = len(read)
            if finished:
                state = load(started.run_id, self._records, self.sessions)
                self.sessions.remember(
                    session_id,
                    state.context.added(is_fork=started.fork is not None),
                    run_id=started.run_id,
                )
        if finished:
            run.pack()
        return await self.info(started.run_id)

    async def info(self, run_id: str) -> RunInfo:
        return self._infos([self._find(run_id)])[0]

    async def runs(self, *, limit: int | None = None, **only: Unpack[RunFilter]) -> list[RunInfo]:
        wanted, session_id = checked_filter(only), only.get("session_id")
        infos = (
            info
            for run in reversed(self._runs.values())
            if session_id in (None, run.session_id) and meets(info := run.info(), wanted)
        )
        most = None if limit is None else min(max(limit, 0), sys.maxsize)
        return with_totals([*islice(infos, most)], self._started_by)

    async def under_way(self, *, limit: int) -> list[RunInfo]:
        running = [info for info in await self.runs() if info.status == "running"]
        return sorted(running, key=lambda info: info.updated_at)[:limit]

    async def left_behind(self, *, limit: int) -> list[str]:
        stopped = [
            info.run_id
            for info in await self.runs()
            if info.status == "stopped" and info.queue is None and info.parent_run_id is None
        ]
        return stopped[:limit]

    async def orphans(self, *, limit: int) -> list[str]:
        found = [
            info.run_id
            for info in await self.runs()
            if info.status not in ("running", "finished")
            and (parent := self._runs.get(info.parent_run_id or "")) is not None
            and parent.finished
        ]
        return found[:limit]

    async def holder(self, session_id: str) -> Holder | None:
        run_id = self._last.get(session_id, "")
        run = self._runs.get(run_id)
        if run is None or not run.held:
            return None
        since = next(
            entry.at
            for entry in reversed(run.entries)
            if isinstance(entry, RunStarted | RunResumed)
        )
        return Holder(run_id=run_id, pid=os.getpid(), host=socket.gethostname(), since=since)

    async def costs(self, by: By, *, since: date | None = None) -> Costs:
        tally = Tally(by, since=since)
        for run in self._runs.values():
            tally.add(spent(run.info()))
        return tally.costs()

    async def prune(self, before: Time, *, apply: bool) -> Freed:
        ends = [(run, run.unpacked()[-1].at) for run in self._runs.values() if run.finished]
        old = {
            _started(run).run_id: run
            for run in aged(
                ends, before, now=now(), is_imported=lambda run: bool(_started(run).imported)
            )
        }
        needs = self._needs()
        needed = {
            other for run_id, others in needs.items() if run_id not in old for other in others
        }
        while (
            more := {other for run_id in needed & old.keys() for other in needs.get(run_id, ())}
            - needed
        ):
            needed |= more
        return self._free(old, [run_id for run_id in old if run_id not in needed], apply=apply)

    def _needs(self) -> dict[str, set[str]]:
        """Return the ids of the runs that each run needs: its parent and children, the run that it
        was forked from, and the runs before an unfinished run or before the origin of a fork.
        """
        needs: dict[str, set[str]] = {}
        for run_id, run in self._runs.items():
            started = _started(run)
            if not run.finished:
                needs.setdefault(run_id, set()).update(self._before(run_id))
            if started.fork is not None:
                origin = started.fork.run_id
                needs.setdefault(run_id, set()).update({origin}, self._before(origin))
            # a run that resumes needs its children's results
            if (parent := started.parent_run_id) in self._runs:
                needs.setdefault(run_id, set()).add(parent)
                needs.setdefault(parent, set()).add(run_id)
        return needs

    def _before(self, run_id: str) -> set[str]:
        run = self._runs.get(run_id)
        if run is None or run.session_id is None:
            return set()
        return self.sessions.runs_before(run.session_id, run_id)

    async def remove(self, run_ids: Collection[str]) -> Freed:
        trees = {run_id: self._tree(run_id) for run_id in run_ids if run_id in self._runs}
        forks = {
            run_id: fork.run_id
            for run_id, run in self._runs.items()
            if (fork := _started(run).fork) is not None
        }
        going = removable(
            trees,
            lambda origin: [
                run_id for run_id, forked_from in forks.items() if forked_from == origin
            ],
        )
        return self._free([run_id for tree in trees.values() for run_id in tree], going)

    def _free(self, wanted: Iterable[str], going: Collection[str], *, apply: bool = True) -> Freed:
        """Return what removing these runs would free; without `apply`, change nothing."""
        size = sum(len(self._runs[run_id].packed or b"") for run_id in going)
        if apply:
            self._forget({run_id: self._runs.pop(run_id) for run_id in going})
        gone = frozenset(going)
        kept = tuple(run_id for run_id in wanted if run_id not in gone)
        return Freed(runs=tuple(going), kept=kept, size_bytes=size)

    def _forget(self, gone: Mapping[str, MemoryRun]) -> None:
        for run_id, run in gone.items():
            self._children.pop(run_id, None)
            siblings = self._children.get(_started(run).parent_run_id or "", [])
            if run in siblings:
                siblings.remove(run)
            if self._last.get(session_id := run.session_id or "") == run_id:
                del self._last[session_id]
            run.late.pop(run_id, None)
            run.fence += 1  # so that its driver cannot append late results
        for session_id in {run.session_id for run in gone.values()}:
            if session_id is not None:
                self.sessions.forget(session_id, gone)

    def _tree(self, root: str) -> list[str]:
        """Return the ids of a run and all its descendants. Raises AgentError(busy) if one is not
        finished.
        """
        tree, found = list[str](), [root]
        while found:
            tree.append(run_id := found.pop())
            if not self._runs[run_id].finished:
                raise unfinished(run_id)
            found += [_started(child).run_id for child in self._children.get(run_id, ())]
        return tree

    async def aclose(self, *, keep_runs: bool = False) -> None:
        self.notifier.close()
        self._runs.clear()
        self._children.clear()

    def _records(self, run_id: str, *, after: int = 0) -> list[Record]:
        return [
            Record(seq=seq, entry=entry)
            for seq, entry in enumerate(self._find(run_id).unpacked()[after:], after + 1)
        ]

    def _infos(self, runs: Iterable[MemoryRun]) -> list[RunInfo]:
        return with_totals([run.info() for run in runs], self._started_by)

    def _started_by(self, run_ids: Collection[str]) -> list[RunInfo]:
        return [child.info() for run_id in run_ids for child in self._children.get(run_id, ())]

    def _find(self, run_id: str) -> MemoryRun:
        found = self._runs.get(run_id)
        if found is None:
            raise UnknownRun(run_id, self._runs)
        return found


def _started(run: MemoryRun) -> RunStarted:
    started = run.unpacked()[0]
    assert isinstance(started, RunStarted), "a run begins with run.started"
    return started


if TYPE_CHECKING:
    _: type[Journal] = MemoryJournal
