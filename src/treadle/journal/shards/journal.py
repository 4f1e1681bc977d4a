"""The contract of a journal over several shards. Entry point: `ShardedJournal.open`."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import anyio
from typing_extensions import Unpack

from treadle.budget.costs import By, Costs, Tally
from treadle.errors import AgentError
from treadle.journal.entries import Fork, Record, RunStarted
from treadle.journal.journal import Journal, RunWriter, read_run
from treadle.journal.memory.notifier import LocalNotifier
from treadle.journal.postgres.connections import PostgresServer, ShardPart
from treadle.journal.postgres.workers import LEASE_S
from treadle.journal.queue import RunQueue
from treadle.journal.removable import unfinished
from treadle.journal.run_info import (
    Freed,
    Holder,
    RunFilter,
    RunInfo,
    UnknownRun,
    checked_filter,
)
from treadle.journal.run_state import RunState
from treadle.journal.sessions import Sessions, SessionView, ViewMark
from treadle.journal.shards.directory import Directory, ShardedNotifier
from treadle.journal.shards.membership import checked_again, joined
from treadle.journal.shards.part import PartJournal
from treadle.journal.shards.placement import is_generated, key_of, read_list
from treadle.journal.shards.queue import ShardedQueue
from treadle.journal.shards.sessions import ShardedSessions
from treadle.journal.shards.shard import MissingShard, Shard, ask_all
from treadle.types import Time, new_id

T = TypeVar("T")


class ShardedJournal:
    """Journal over several databases. Created by `open`."""

    def __init__(self, directory: Directory, notifier: LocalNotifier, *, identity: str) -> None:
        self.identity = identity
        """URL that identifies the journal, whatever file lists its shards."""
        self._directory = directory
        self._shards = [*directory.shards.values()]
        self.sessions: Sessions = ShardedSessions(directory)
        self.queue: RunQueue = ShardedQueue(directory, self._at)
        self.notifier = ShardedNotifier(directory, notifier)

    @classmethod
    def open(cls, path: Path, *, lease_s: float = LEASE_S, keys: Sequence[bytes] = ()) -> Self:
        """Open the journal whose shards are listed in a file (docs/deployment.md). Blocks.

        A shard whose server does not answer is opened when it does; a list that is new to the
        shards needs all of them. Raises AgentError(invalid) for a file, a server or a database that
        cannot be used, and for a list that does not fit the databases; no error shows a password.
        """
        listed = read_list(path)
        membership = joined(listed, keys)
        record, notifier, worker = membership.record, LocalNotifier(), new_id("worker")
        shards: dict[str, Shard] = {}
        for name, url in listed.urls.items():
            part = ShardPart(name, record.client, worker, notifier)
            server = PostgresServer(url, shard=part)
            check = partial(checked_again, listed, name, record, keys)
            shards[name] = Shard(name, server, lease_s=lease_s, check=check)
        try:
            for name, one in membership.accepted.items():
                shards[name].open(one.seal, one.reading)
        except BaseException:
            for name, one in membership.accepted.items():
                if (opened := shards[name].opened) is not None:
                    opened.close_now()
                one.reading.close()
            raise
        for name, error in membership.missing.items():
            shards[name].lose(error.message)
        directory = Directory(shards, record.generations)
        return cls(directory, notifier, identity=f"postgresql://shards/{record.journal}")

    def __repr__(self) -> str:
        return f"ShardedJournal({', '.join(self._directory.shards)})"

    @property
    def missing(self) -> Mapping[str, str]:
        """Reasons why shards do not answer now, by name. Lists lack their runs."""
        return {shard.name: why.why for shard in self._shards if (why := shard.missing) is not None}

    @property
    def renewals_missed(self) -> int:
        """Number of late or failed renewals of this process's leases since it was opened."""
        return sum(shard.opened.renewals_missed for shard in self._shards if shard.opened)

    async def _at(self, run_id: str, work: Callable[[PartJournal], Awaitable[T]]) -> T:
        """Run an operation in the shard of a run."""
        if (known := self._directory.known(run_id)) is not None:
            try:
                return await known.do(work)
            except UnknownRun:  # it was removed, and may have been imported elsewhere
                self._directory.forget(run_id)
        if (found := await self._directory.find(run_id)) is not None:
            return await found.do(work)
        try:
            return await self._directory.homes(key_of(run_id))[0].do(work)
        except UnknownRun as e:
            near = await ask_all(self._shards, lambda journal: journal.near(run_id))
            raise UnknownRun(run_id, [one for _, some in near for one in some]) from e

    # ------------------------------------------------------------ driving

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        shard = await self._directory.place(started)
        writer = await shard.do(lambda journal: journal.begin(started, found=found))
        self._directory.remember(started.run_id, shard)
        return writer

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        return await self._at(run_id, lambda journal: journal.take_over(run_id, force=force))

    async def ask_to_stop(self, run_id: str) -> bool:
        return await self._at(run_id, lambda journal: journal.ask_to_stop(run_id))

    def on_stop(self, heard: Callable[[str], None]) -> None:
        for shard in self._shards:
            shard.on_stop(heard)

    def hurry(self) -> None:
        for shard in self._shards:
            shard.server.hurry()

    async def aclose(self, *, keep_runs: bool = False) -> None:
        for shard in self._shards:
            shard.stop_looking()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for shard in self._shards:
                    if shard.opened is not None:
                        group.start_soon(partial(shard.opened.aclose, keep_runs=keep_runs))
        self.notifier.close()

    # ------------------------------------------------------------ one run

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        return await self._at(run_id, lambda journal: journal.read(run_id, after=after))

    async def load(self, run_id: str) -> RunState:
        return await self._at(run_id, lambda journal: journal.load(run_id))

    async def children(self, run_id: str) -> list[RunInfo]:
        children = await self._at(run_id, lambda journal: journal.children(run_id))
        if children and (shard := self._directory.known(run_id)) is not None:
            for child in children:
                self._directory.remember(child.run_id, shard)
        return children

    async def load_fork(self, fork: Fork) -> RunState:
        return await self._at(fork.run_id, lambda journal: journal.load_fork(fork))

    async def read_bytes(self, run_id: str) -> list[bytes]:
        return await self._at(run_id, lambda journal: journal.read_bytes(run_id))

    async def info(self, run_id: str) -> RunInfo:
        return await self._at(run_id, lambda journal: journal.info(run_id))

    async def add_run(self, entries: Sequence[bytes]) -> RunInfo:
        started = read_run(entries)[0]
        assert isinstance(started, RunStarted), "read_run sees to it"
        try:
            shard = await self._directory.place(started)
        except MissingShard:
            raise
        except AgentError as e:
            raise AgentError("invalid", f"{e.message}: nothing was added") from e
        info = await shard.do(lambda journal: journal.add_run(entries))
        self._directory.remember(info.run_id, shard)
        return info

    # ------------------------------------------------------------ one session

    async def view(self, session_id: str) -> SessionView:
        shard, _ = await self._directory.session(session_id)
        return await shard.do(lambda journal: journal.view(session_id))

    async def holder(self, session_id: str) -> Holder | None:
        shard, _ = await self._directory.session(session_id)
        return await shard.do(lambda journal: journal.holder(session_id))

    # ------------------------------------------------------------ lists

    async def runs(self, *, limit: int | None = None, **only: Unpack[RunFilter]) -> list[RunInfo]:
        wanted = checked_filter(only)
        if (session_id := wanted.get("session_id")) is not None:
            shard, _ = await self._directory.session(session_id)
            return await shard.do(partial(PartJournal.runs, limit=limit, **wanted))
        if (origin := wanted.get("forked_from")) is not None:
            return await self._at(origin, partial(PartJournal.runs, limit=limit, **wanted))
        answers = await ask_all(self._shards, lambda journal: journal.dated_runs(limit, wanted))
        for shard, dated in answers:
            for _, info in dated:
                self._directory.remember(info.run_id, shard)
        merged = heapq.merge(*(dated for _, dated in answers), key=lambda one: one[0], reverse=True)
        return [info for _, info in merged][:limit]

    async def under_way(self, *, limit: int) -> list[RunInfo]:
        answers = await ask_all(self._shards, lambda journal: journal.under_way(limit=limit))
        infos = (info for _, some in answers for info in some)
        return sorted(infos, key=lambda info: info.updated_at)[:limit]

    async def left_behind(self, *, limit: int) -> list[str]:
        return await self._newest(lambda journal: journal.left_behind(limit=limit), limit)

    async def orphans(self, *, limit: int) -> list[str]:
        return await self._newest(lambda journal: journal.orphans(limit=limit), limit)

    async def _newest(
        self, find: Callable[[PartJournal], Awaitable[list[str]]], limit: int
    ) -> list[str]:
        """Merge ids of runs, newest first."""

        async def dated(journal: PartJournal) -> dict[str, int]:
            return await journal.made_at_us(await find(journal))

        made: dict[str, int] = {}
        for shard, some in await ask_all(self._shards, dated):
            made |= some
            for run_id in some:
                self._directory.remember(run_id, shard)
        return sorted(made, key=lambda run_id: made[run_id], reverse=True)[:limit]

    async def costs(self, by: By, *, since: date | None = None) -> Costs:
        tally = Tally(by, since=since)
        for _, costs in await ask_all(self._shards, lambda journal: journal.costs(by, since=since)):
            tally.merge(costs)
        return tally.costs()

    # ------------------------------------------------------------ deleting

    async def prune(self, before: Time, *, apply: bool) -> Freed:
        answers = await ask_all(self._shards, lambda journal: journal.prune(before, apply=apply))
        if apply:
            for _, freed in answers:
                await self._forget(freed.runs)
        return _together([freed for _, freed in answers])

    async def remove(self, run_ids: Collection[str]) -> Freed:
        by_shard: dict[str, list[str]] = {}
        for run_id in run_ids:
            if (shard := await self._directory.find(run_id)) is not None:
                by_shard.setdefault(shard.name, []).append(run_id)
        if len(by_shard) > 1:  # all of them or none
            for some in by_shard.values():
                await self._require_finished(some)
        freed: list[Freed] = []
        for name, some in by_shard.items():
            freed.append(
                await self._directory.shards[name].do(partial(PartJournal.remove, run_ids=some))
            )
            await self._forget(freed[-1].runs)
        return _together(freed)

    async def _require_finished(self, run_ids: Collection[str]) -> None:
        """Raise AgentError(busy) if one of the runs or their descendants is not finished."""
        waiting = [*run_ids]
        while waiting:
            try:
                info = await self.info(waiting.pop())
            except UnknownRun:
                continue
            if info.status != "finished":
                raise unfinished(info.run_id)
            waiting += [child.run_id for child in await self.children(info.run_id)]

    async def _forget(self, run_ids: Collection[str]) -> None:
        """Forget deleted runs, and remove their reservations."""
        by_shard: dict[str, list[str]] = {}
        for run_id in run_ids:
            self._directory.forget(run_id)
            if not is_generated(run_id):
                for shard in self._directory.homes(key_of(run_id)):
                    by_shard.setdefault(shard.name, []).append(run_id)
        for name, some in by_shard.items():
            shard = self._directory.shards[name]
            if shard.missing is None:  # a reservation that remains only keeps the id in its shard
                await shard.do(partial(PartJournal.forget, kind="run", names=some))


def _together(freed: Sequence[Freed]) -> Freed:
    return Freed(
        runs=tuple(run_id for one in freed for run_id in one.runs),
        kept=tuple(run_id for one in freed for run_id in one.kept),
        size_bytes=sum(one.size_bytes for one in freed),
    )


if TYPE_CHECKING:
    _: type[Journal] = ShardedJournal
