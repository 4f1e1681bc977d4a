"""Journal checks of `treadle doctor`. Entry points: `journal_findings`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import anyio

from treadle._internal.terminal_text import one_line
from treadle._internal.units import ago, count, size
from treadle.cli.journal_option import (
    journal_file,
    journal_url,
    opened_journal,
    shards_file,
    shown_url,
)
from treadle.config import Config
from treadle.config.plugins import offers
from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.journal.queue import WorkerInfo
from treadle.journal.run_info import RunInfo
from treadle.types import now

if TYPE_CHECKING:
    from treadle.journal.postgres.checkup import Checkup

CLOCK_S = 5.0
"""Clock difference, in seconds, from which a warning is given. Entries have the time of their
process's clock; only leases use the server's.
"""
COMMIT_MS = 20.0
"""Commit time, in milliseconds, from which a journal counts as slow. A run waits for a commit at
each step.
"""

NEEDS_PSYCOPG = "a journal in PostgreSQL needs psycopg: pip install 'treadle[postgres]'"

State = Literal["ok", "note", "bad"]


class _Seen(NamedTuple):
    counts: list[str]
    workers: list[WorkerInfo]


def journal_findings(config: Config) -> Iterator[tuple[str, State, str]]:
    """Yield subject, state and text of each finding. Opens the journal as a run would, but never
    creates one.
    """
    url = journal_url(config, None)
    file = journal_file(url)
    if url == "memory:":
        yield "journal", "note", "in memory: runs are lost when the process ends"
    elif (shards := shards_file(url)) is not None:
        yield from _shards(config, url, shards)
    elif file is None and offers("journals", url.partition(":")[0]):
        yield from _plugged(config, url)
    elif file is None:
        yield from _server(config, url)
    elif not file.exists():
        yield ("journal", *_place(file))
    else:
        try:
            seen = anyio.run(_seen, config, url)
        except AgentError as e:
            yield "journal", "bad", e.message
            return
        from treadle.journal.sqlite.schema import VERSION  # noqa: PLC0415  only needed to inspect a journal

        yield (
            "journal",
            "ok",
            f"{file}: {', '.join([f'version {VERSION}', size(file.stat().st_size), *seen.counts])}",
        )
        yield from _workers(seen.workers)


def _plugged(config: Config, url: str) -> Iterator[tuple[str, State, str]]:
    try:
        seen = anyio.run(_seen, config, url)
    except AgentError as e:
        yield "journal", "bad", e.message
        return
    yield "journal", "ok", f"{shown_url(url)}, of a plug-in: {', '.join(seen.counts) or 'no runs'}"
    yield from _workers(seen.workers)


def _server(config: Config, url: str) -> Iterator[tuple[str, State, str]]:
    try:
        from treadle.journal.postgres.checkup import checked  # noqa: PLC0415  an extra

        found = checked(url)
        seen = anyio.run(_seen, config, url) if found.tables else _Seen([], [])
    except ImportError:
        yield "journal", "bad", NEEDS_PSYCOPG
        return
    except AgentError as e:
        yield "journal", "bad", e.message
        return
    if not found.may_write:
        yield (
            "journal",
            "bad",
            (
                f"this user can only read {found.place}: runs cannot be stored there. Grant it "
                "the rights of the journal's owner"
            ),
        )
        return
    tables = (
        f"tables of version {found.tables}"
        if found.tables
        else "no tables yet, the first run creates them"
    )
    yield (
        "journal",
        "ok",
        f"{found.place}: {', '.join([f'PostgreSQL {found.server}', tables, *seen.counts])}",
    )
    yield from _connection(found)
    yield from _workers(seen.workers)


def _shards(config: Config, url: str, file: Path) -> Iterator[tuple[str, State, str]]:
    """Check each shard, then open the journal over all of them."""
    try:
        from treadle.journal.postgres.checkup import checked  # noqa: PLC0415  an extra
        from treadle.journal.shards.placement import read_list  # noqa: PLC0415  as above

        listed = read_list(file)
    except ImportError:
        yield "journal", "bad", NEEDS_PSYCOPG
        return
    except AgentError as e:
        yield "journal", "bad", e.message
        return
    for name, one in sorted(listed.urls.items()):
        drains = ", draining" if name in listed.generation.draining else ""
        try:
            found = checked(one)
        except AgentError as e:
            yield f"shard {name}", "bad", e.message
            continue
        yield f"shard {name}", "ok", f"{found.place}: PostgreSQL {found.server}{drains}"
        for what, state, text in _connection(found):
            yield f"{name}: {what}", state, text
    try:
        seen = anyio.run(_seen, config, url)
    except AgentError as e:
        yield "journal", "bad", e.message
        return
    summary = ", ".join([f"version {listed.generation.version}", *seen.counts])
    yield "journal", "ok", f"{count(len(listed.urls), 'shard')} of {file}: {summary}"
    yield from _workers(seen.workers)


def _connection(found: Checkup) -> Iterator[tuple[str, State, str]]:
    if found.commit_ms is not None:
        slow = found.commit_ms > COMMIT_MS
        why = ": each step waits for one: move the server closer, or its log to a faster disk"
        yield (
            "commit",
            "note" if slow else "ok",
            (
                f"takes {found.commit_ms:.1f} ms, including a round trip of "
                f"{found.round_trip_ms:.1f} ms{why if slow else ''}"
            ),
        )
    if found.is_pooled:
        yield (
            "listening",
            "note",
            (
                "the connection goes through a pooler without LISTEN, so processes poll. Use the "
                "server's own address for immediate notifications"
            ),
        )
    elif not found.may_notify:
        yield (
            "listening",
            "note",
            (
                "this user cannot read the key of notifications, so processes poll: `grant select "
                "on treadle.notify_key` to it"
            ),
        )
    else:
        yield "listening", "ok", "LISTEN works: processes are notified of runs immediately"
    if found.all_connect:
        yield (
            "roles",
            "note",
            (
                "every role of the server may connect to this database: `revoke connect on "
                "database NAME from public`, unless they are all yours"
            ),
        )
    if abs(found.clock_s) > CLOCK_S:
        yield (
            "clock",
            "note",
            (
                f"the server's is {abs(found.clock_s):.0f} s "
                f"{'ahead of' if found.clock_s > 0 else 'behind'} this machine's: use NTP on both"
            ),
        )


def _counts(runs: list[RunInfo]) -> list[str]:
    not_finished = Counter(info.status for info in runs if info.status != "finished")
    return [
        count(len(runs), "run"),
        *(f"{number} {status}" for status, number in not_finished.items()),
    ]


async def _queued(journal: Journal) -> list[str]:
    backlogs = await journal.queue.backlogs()
    sums = {
        state: sum(getattr(backlog, state) for backlog in backlogs)
        for state in ("ready", "running", "waiting", "parked")
    }
    return [f"{number} {state}" for state, number in sums.items() if number]


def _workers(workers: list[WorkerInfo]) -> Iterator[tuple[str, State, str]]:
    """Yield one line per worker seen within a day."""
    for info in workers:
        card = info.card
        where = (
            f"{one_line(card.name)} on {one_line(card.host)}, {card.version}, queues "
            f"{one_line(', '.join(card.queues))}"
        )
        if not info.alive:
            yield (
                "worker",
                "note",
                (
                    f"{where}: dead, last seen {ago(info.seen_at, now())} ago; its runs continue "
                    "on other workers"
                ),
            )
        else:
            yield (
                "worker",
                "ok",
                (
                    f"{where}: {info.running} of {card.slots} slots in "
                    f"use{', draining' if info.draining else ''}"
                ),
            )


async def _seen(config: Config, url: str) -> _Seen:
    """Count the runs of a journal: all runs of a file, but only queued runs on a server, which may
    have any number.
    """
    journal = opened_journal(config, url)
    try:
        counts = (
            await _queued(journal) if journal_file(url) is None else _counts(await journal.runs())
        )
        return _Seen(counts, await journal.queue.workers())
    finally:
        await journal.aclose()


def _place(file: Path) -> tuple[State, str]:
    """Report whether a journal could be created there."""
    from treadle.journal.sqlite.places import NETWORK, mount_kind  # noqa: PLC0415  only needed for a new journal

    folder = next(parent for parent in file.parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return (
            "bad",
            (
                f"{file} cannot be created: {folder} is not a directory that you can write. Set "
                "TREADLE_HOME or TREADLE_JOURNAL"
            ),
        )
    if (kind := mount_kind(folder.resolve())) in NETWORK:
        return (
            "bad",
            (
                f"{file} would be on a network file system ({kind}), where locks are "
                "unreliable: set TREADLE_JOURNAL"
            ),
        )
    return "ok", f"{file}: does not exist yet, the first run creates it"
