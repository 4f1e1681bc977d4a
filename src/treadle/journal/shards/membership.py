"""Opening the databases of a list of shards, and checking that they are the shards of one journal.

Entry points: `joined`, `checked_again`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

import psycopg
from msgspec import structs

from treadle.errors import AgentError
from treadle.journal.memory.notifier import LocalNotifier
from treadle.journal.postgres.connections import PostgresServer, ShardPart
from treadle.journal.postgres.encrypting import opened_seal
from treadle.journal.postgres.schema import make_ready
from treadle.journal.shards.placement import Generation, ShardList
from treadle.journal.shards.tables import ShardRecord, is_used, read_record, write_record
from treadle.journal.tables.sealing import Seal
from treadle.types import new_id

T = TypeVar("T")

PING_S: Final = 2
"""Seconds within which a server answers, or counts as unreachable."""
_TRIES: Final = 5


class FoundShard(NamedTuple):
    """State in which a database was found."""

    record: ShardRecord | None
    """None: it is no shard yet."""
    is_used: bool


class AcceptedShard(NamedTuple):
    """Shard that answered, and belongs to the journal."""

    seal: Seal | None
    """None for a shard in plain text."""
    reading: psycopg.Connection
    """Connection for reads only, because it does not have the list's `application_name`. The caller
    closes it.
    """


class Membership(NamedTuple):
    """Result of opening: the shards that answered, and why the others did not."""

    record: ShardRecord
    """Record that all of them share, except for the name."""
    accepted: Mapping[str, AcceptedShard]
    missing: Mapping[str, AgentError]
    """Errors of unreachable shards by name."""


class _Database:
    """Database of a shard, with one connection. For one thread at a time."""

    def __init__(self, shards: ShardList, name: str) -> None:
        """Connect to nothing yet. Raises AgentError for a URL that cannot be used."""
        self.name = name
        self._db: psycopg.Connection | None = None
        try:
            part = ShardPart(name, "treadle", "", LocalNotifier())
            self.server = PostgresServer(shards.urls[name], shard=part)
        except AgentError as e:
            raise AgentError(e.kind, f"shard {name!r} of {shards.place}: {e.message}") from e

    def look(self) -> FoundShard:
        """Create missing tables, and return what is there. Raises AgentError."""

        def look(db: psycopg.Connection) -> FoundShard:
            make_ready(db, self.server.place)
            return FoundShard(read_record(db), is_used(db))

        return self._do(look)

    def seal(self, keys: Sequence[bytes]) -> Seal | None:
        """As `opened_seal`, which encrypts an empty journal: for a shard that was accepted."""
        return self._do(lambda db: opened_seal(db, self.server.place, keys))

    def handed_over(self, seal: Seal | None) -> AcceptedShard:
        """Return the connection, which this object then no longer has."""
        assert self._db is not None, "its seal was just read over it"
        db, self._db = self._db, None
        return AcceptedShard(seal, db)

    def write(self, record: ShardRecord) -> bool:
        """As `write_record`. Raises AgentError."""
        return self._do(lambda db: write_record(db, record))

    def _do(self, work: Callable[[psycopg.Connection], T]) -> T:
        try:
            if self._db is None:
                self._db = self.server.connect()
            with self.server.silence.over(self._db):
                return work(self._db)
        except psycopg.Error as e:
            self.close()
            raise self.server.unusable(e) from e

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def joined(shards: ShardList, keys: Sequence[bytes]) -> Membership:
    """Check the databases of a list, and store a new list in them. Blocks. `keys`: as of
    `PostgresJournal.open`.

    Raises AgentError(invalid) if they are not the shards of one journal, if a list that is new to
    them cannot be stored in all, or for the keys. Empty shards are encrypted once all are accepted.
    """
    with contextlib.ExitStack() as stack:
        databases = {name: _Database(shards, name) for name in sorted(shards.urls)}
        for database in databases.values():
            stack.callback(database.close)
        for _ in range(_TRIES):
            found, missing = _found(shards, databases)
            wanted = _wanted(shards, found, missing)
            if all(
                _is_written(shards, databases[name], wanted, found[name]) for name in sorted(found)
            ):
                seals = {name: databases[name].seal(keys) for name in found}
                accepted = {name: databases[name].handed_over(seal) for name, seal in seals.items()}
                return Membership(wanted, accepted, missing)
    raise AgentError(
        "busy", f"other processes are changing the shards of {shards.place}: try again"
    )


def checked_again(
    shards: ShardList, name: str, record: ShardRecord, keys: Sequence[bytes]
) -> Seal | None:
    """Check a shard that was unreachable when the others were opened, and return its keys. Raises
    AgentError.
    """
    with contextlib.closing(_Database(shards, name)) as database:
        if database.look().record != structs.replace(record, name=name):
            raise AgentError(
                "invalid",
                f"shard {name!r} of {shards.place} is back with another identity or list: check "
                "its URL, and restart this process with the current list",
            )
        return database.seal(keys)


def _found(
    shards: ShardList, databases: Mapping[str, _Database]
) -> tuple[dict[str, FoundShard], dict[str, AgentError]]:
    """Query all databases at the same time."""
    with ThreadPoolExecutor(len(shards.urls)) as pool:
        asked = {name: pool.submit(one.look) for name, one in databases.items()}
    found: dict[str, FoundShard] = {}
    missing: dict[str, AgentError] = {}
    for name, answer in asked.items():
        try:
            found[name] = answer.result()
        except AgentError as e:
            if e.kind != "agent" and databases[name].server.is_there(PING_S):
                raise
            missing[name] = e
    if not found:
        raise AgentError(
            "invalid", f"no shard of {shards.place} answers: {next(iter(missing.values())).message}"
        )
    return found, missing


def _wanted(
    shards: ShardList, found: Mapping[str, FoundShard], missing: Mapping[str, AgentError]
) -> ShardRecord:
    """Return the record that the shards should have, under any name. Raises AgentError(invalid) if
    the list does not fit what they have.
    """
    records = {name: one.record for name, one in found.items() if one.record is not None}
    _check_names(shards, records)
    if not records:
        _require_all(shards, missing, "is new")
        return ShardRecord(name="", journal=new_id("j")[-16:], generations=_first(shards, found))
    newest = max(records.values(), key=lambda record: record.version)
    current, given = newest.generations[-1], shards.generation
    if given.version < current.version:
        raise AgentError(
            "invalid",
            f"{shards.place} is version {given.version} of the list of shards, and the journal has "
            f"version {current.version} ({', '.join(current.names)}): use the current file",
        )
    if given.version == current.version:
        if given != current:
            raise AgentError(
                "invalid",
                f"{shards.place} differs from version {current.version} of the list of shards "
                f"({_shown(current)}): to change the list, raise its `version` to "
                f"{current.version + 1}",
            )
        return newest
    _require_all(shards, missing, f"has a new version ({given.version})")
    if gone := sorted(set(current.names) - set(given.names) - set(current.draining)):
        raise AgentError(
            "invalid",
            f"{shards.place} leaves out shard {gone[0]!r}, which still gets runs: list it under "
            "`draining` first, and leave it out when its runs are no longer needed",
        )
    return structs.replace(newest, generations=(*newest.generations, given))


def _check_names(shards: ShardList, records: Mapping[str, ShardRecord]) -> None:
    for name, record in records.items():
        if record.name != name:
            raise AgentError(
                "invalid",
                f"{shards.place}: the database of shard {name!r} is shard {record.name!r} of its "
                "journal: correct the URLs",
            )
    first = next(iter(records), "")
    for name, record in records.items():
        if record.journal != records[first].journal:
            raise AgentError(
                "invalid",
                f"{shards.place}: shards {first!r} and {name!r} belong to different journals: "
                "correct the URLs",
            )


def _require_all(shards: ShardList, missing: Mapping[str, AgentError], why: str) -> None:
    for name, error in missing.items():
        raise AgentError(
            "invalid",
            f"{shards.place} {why}, so all its shards must answer, and {name!r} does not: "
            f"{error.message}",
        )


def _first(shards: ShardList, found: Mapping[str, FoundShard]) -> tuple[Generation, ...]:
    """Return the first versions of the list: a database that already has runs was the journal, so
    that its sessions are found there.
    """
    used = [name for name, one in found.items() if one.is_used]
    if len(used) > 1:
        raise AgentError(
            "invalid",
            f"{shards.place}: shards {used[0]!r} and {used[1]!r} both have runs already: only one "
            "of the databases of a new list may. Import the runs of the others",
        )
    before = [Generation(version=0, names=(*used,))] if used and len(found) > 1 else []
    return (*before, shards.generation)


def _is_written(
    shards: ShardList, database: _Database, wanted: ShardRecord, found: FoundShard
) -> bool:
    name = database.name
    record = structs.replace(wanted, name=name)
    if found.record == record:
        return True
    was_there = any(name in generation.names for generation in wanted.generations[:-1])
    if found.record is None and found.is_used and not was_there:
        raise AgentError(
            "invalid",
            f"{shards.place}: the database of the new shard {name!r} already has runs: give it an "
            "empty database, and import them",
        )
    return database.write(record)


def _shown(generation: Generation) -> str:
    draining = ", ".join(generation.draining)
    return ", ".join(generation.names) + (f"; draining: {draining}" if draining else "")
