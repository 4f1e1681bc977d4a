"""Tables that only shards have: the name and list of a shard, and ids that are not in the shard in
which they belong.

Entry points: `read_record`, `write_record`, `is_used`, `reserve`.
"""

from __future__ import annotations

from typing import Final, LiteralString, cast

import psycopg

from treadle._internal.json_text import decode_json, encode_json
from treadle.errors import AgentError
from treadle.journal.shards.placement import Generation
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.holding import hold_session
from treadle.journal.tables.rows import key_of
from treadle.types import Value

# A process whose list is old must create no session, because another process may create the same
# one elsewhere; it is recognized by the name of its connections. The lock is exclusive while the
# list changes. Lists of several shards are merged by the times that the triggers and defaults set.
_TABLES: Final[LiteralString] = """
create table treadle.shard(
    is_one boolean primary key default true check (is_one),
    name text not null,
    journal text not null,                 -- id of the journal of which this is a shard
    generations text not null,             -- JSON
    client text not null                   -- application_name of processes with the current list
);
create table treadle.shard_places(
    id text collate "C" primary key,       -- run:ID or session:ID
    shard text collate "C" not null,       -- the shard that has it
    made_at_us bigint not null default treadle.now_us()
);
alter table treadle.runs add column made_at_us bigint;
alter table treadle.runs alter column made_at_us set default treadle.now_us();
alter table treadle.sessions add column touched_at_us bigint;
create function treadle.touch_session() returns trigger language plpgsql as $$
declare
    mine treadle.shard;
    other text;
begin
    new.touched_at_us := treadle.now_us();
    if tg_op = 'UPDATE' then
        return new;
    end if;
    perform pg_advisory_xact_lock_shared(hashtextextended('treadle ''shards''', 0));
    select * into mine from treadle.shard;
    if current_setting('application_name') <> mine.client then
        raise exception 'it is shard % of a journal, and this process has no list of shards or an old one: restart it with the current list', mine.name;
    end if;
    select shard into other from treadle.shard_places where id = 'session:' || new.id;
    if other <> mine.name then
        raise exception 'session % is in shard %', new.id, other;
    end if;
    return new;
end $$;
create trigger touch_session before insert or update of changed on treadle.sessions
for each row execute function treadle.touch_session();
do $$
declare
    role text;
begin
    for role in
        select distinct acl.grantee::regrole::text from pg_class, aclexplode(relacl) as acl
        where oid = 'treadle.runs'::regclass and acl.privilege_type = 'INSERT' and acl.grantee not in (0, relowner)
    loop
        execute format('grant select on treadle.shard to %s', role);
        execute format('grant select, insert, update, delete on treadle.shard_places to %s', role);
    end loop;
end $$;
"""
_LOCK: Final[LiteralString] = (
    "select set_config('synchronous_commit', 'on', true) where "
    "current_setting('synchronous_commit') = 'off'; select pg_advisory_xact_lock(hashtextextended('treadle ''shards''', 0))"
)


class ShardRecord(Value, frozen=True, kw_only=True):
    """Identity of a shard, as its database stores it."""

    name: str
    journal: str
    """Id of the journal of which it is a part."""
    generations: tuple[Generation, ...]
    """Every version of the list, the newest last."""

    @property
    def version(self) -> int:
        return self.generations[-1].version

    @property
    def client(self) -> str:
        """Name of the connections of processes that have this version of the list."""
        return f"treadle {self.journal}.{self.version}"


def read_record(db: psycopg.Connection) -> ShardRecord | None:
    """Return the identity of a shard; None for a database that is none yet."""
    if not _is_shard(db):
        return None
    row = db.execute("select name, journal, generations from treadle.shard").fetchone()
    if row is None:
        return None
    name, journal, generations = cast("tuple[str, str, str]", row)
    return ShardRecord(
        name=name,
        journal=journal,
        generations=decode_json(generations.encode(), tuple[Generation, ...]),
    )


def _is_shard(db: psycopg.Connection) -> bool:
    # to_regclass may return what this connection found before it waited for the lock
    tables = "select from pg_catalog.pg_tables where schemaname = 'treadle' and tablename = 'shard'"
    return db.execute(tables).fetchone() is not None


def write_record(db: psycopg.Connection, record: ShardRecord) -> bool:
    """Make the database a shard, or give it a newer list. Returns False if another process has
    stored something else in the meantime. Raises psycopg.Error.
    """
    with db.transaction():
        db.execute(_LOCK)
        if not _is_shard(db):
            db.execute(_TABLES)
        stored = read_record(db)
        if stored is not None and (
            (stored.name, stored.journal) != (record.name, record.journal)
            or stored.version > record.version
        ):
            return False
        db.execute(
            (
                "insert into treadle.shard(name, journal, generations, client) values(%s, %s, %s, "
                "%s) on conflict(is_one) do update set generations = excluded.generations, client "
                "= excluded.client"
            ),
            (
                record.name,
                record.journal,
                encode_json(record.generations).decode(),
                record.client,
            ),
        )
    return True


def is_used(db: psycopg.Connection) -> bool:
    """Return True if the database has runs or sessions."""
    row = db.execute(
        "select exists (select from treadle.runs) or exists (select from treadle.sessions)"
    ).fetchone()
    return row is not None and bool(row[0])


def reserve(db: Cursor, kind: str, name: str, shard: str, client: str) -> str:
    """Reserve an id for a shard, in the shard in which the id belongs, and return the shard that
    has it: another one if it was reserved before, or if this shard has it.

    Raises AgentError(agent) if the list of shards has changed since this process read it.
    """
    db.dialect.hold(db, "shards", shared=True)
    mine, current = db.execute("select name, client from shard").fetchall()[0]
    if current != client:
        raise AgentError(
            "agent",
            (
                f"the list of shards has changed since this process read it, so {kind} {name!r} "
                "was not created: restart the process with the current list"
            ),
        )
    if kind == "session":
        hold_session(db, name)
        if shard != mine and has(db, kind, name):
            return cast("str", mine)
    key = f"{kind}:{key_of(name)}"
    db.execute(
        "insert into shard_places(id, shard) values(?, ?) on conflict do nothing", (key, shard)
    )
    return cast("str", db.execute("select shard from shard_places where id = ?", (key,)).get)


def where(db: Cursor, kind: str, name: str) -> str | None:
    """Return the shard that has a run or session, as far as this shard knows."""
    if has(db, kind, name):
        return cast("str", db.execute("select name from shard").get)
    return cast(
        "str | None",
        db.execute("select shard from shard_places where id = ?", (f"{kind}:{key_of(name)}",)).get,
    )


def has(db: Cursor, kind: str, name: str) -> bool:
    """Return True if this shard has the run or session."""
    table = "runs" if kind == "run" else "sessions"
    statement = f"select 1 from {table} where id = ?"
    return db.execute(statement, (key_of(name),)).fetchone() is not None
