"""Tables of a journal, their creation, and the detection of other files. Entry points: `connect`,
`make_ready`.
"""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from treadle.errors import AgentError
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.failures import translated
from treadle.journal.tables.database import Cursor

APPLICATION_ID = 0x54726564
"""Application id `Tred`, which marks a SQLite file as a journal."""

WAL_BYTES = 1 << 20
"""Size to which the write-ahead log shrinks after each checkpoint."""

_FIRST = """
create table runs(
    num integer primary key autoincrement,
    id text not null unique,
    session integer,                       -- sessions.num
    parent text,                           -- the run that started this one as a part of itself
    fork_of text,                          -- the run that it was forked from
    schema integer not null,               -- of its entries
    owner text,                            -- the worker that drives it; null: none
    fence integer not null,                -- one more for each driver
    head integer not null,                 -- sequence of its last entry
    waiting integer not null default 0,    -- for a person
    finished integer,                      -- sequence of run.finished
    indexed integer not null default 0,    -- whether a search finds its messages; 1 where it says none in a session
    started_at_us integer not null,        -- microseconds since 1970, UTC
    updated_at_us integer not null,
    summary blob not null,                 -- what a list shows of it
    counted integer not null default 0     -- whether that is all; 0: a fold of its entries says more
) strict;
create index runs_of_session on runs(session, num) where session is not null;
create index runs_open on runs(session, num) where finished is null;
create index runs_forked on runs(fork_of) where fork_of is not null;
create index runs_to_index on runs(num) where finished is not null and indexed = 0;

create table entries(
    place integer primary key,             -- of its run, times 2^32, plus its sequence: a run lies in one piece
    run integer not null generated always as (place >> 32) virtual,
    seq integer not null generated always as (place & 0xffffffff) virtual,
    type text not null,
    call any,
    attempt integer,
    body blob not null                     -- the entry as JSON, without the strings that cuts say
) strict;
create unique index one_result on entries(run, call) where type = 'tool.finished';
create unique index one_start on entries(run, call, attempt) where type = 'tool.started';

create table blobs(num integer primary key, hash blob not null unique, body blob not null) strict;
create table cuts(
    place integer not null,                -- entries.place
    at integer not null,                   -- offset of the string in the entry's bytes
    blob integer not null,                 -- blobs.num
    primary key(place, at)
) without rowid, strict;
create index cuts_of_blob on cuts(blob);

create table leaving(run integer primary key) strict;      -- those whose entries a prune takes away
create trigger entries_stay before update on entries begin select raise(abort, 'an entry is never changed'); end;
create trigger entries_are_kept before delete on entries when not exists (select 1 from leaving where run = old.place >> 32)
begin select raise(abort, 'an entry is never deleted'); end;

create table stops(run integer primary key) strict;        -- runs whose driver is asked to stop

create table sessions(
    num integer primary key autoincrement,
    id text unique,                        -- null: deleted, but runs that stay were forked from what was said in it
    title text not null,
    created_at_us integer not null,
    updated_at_us integer not null,
    changed integer not null,              -- rises with every change of any session
    messages integer                       -- in view; null: to be counted
) strict;
create index sessions_changed on sessions(changed);
create table session_entries(
    session integer not null,
    pos integer not null,
    kind text not null,                    -- run | message | cleared
    run integer,
    body blob,                             -- of a message
    primary key(session, pos)
) without rowid, strict;
create unique index session_runs on session_entries(run) where run is not null;

create table said(                         -- the message that words.rowid refers to
    num integer primary key,
    session integer not null,
    pos integer not null,                  -- in session_entries
    place integer,                         -- entries.place; null: the message is in session_entries
    nth integer not null,                  -- which of that entry's messages
    at_us integer not null
) strict;
create index said_in on said(session, pos);
create virtual table words using fts5(text, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 2");
"""

_CHILDREN = "create index runs_of_parent on runs(parent) where parent is not null"

_QUEUES = """
alter table runs add column queue text;                                -- where it waits for a worker; null: nowhere
alter table runs add column priority integer not null default 0;
alter table runs add column tenant text;
alter table runs add column ready_at_us integer not null default 0;    -- not before; of a parked run: since when it is
alter table runs add column sent_to text;                              -- a worker's id, or engine:NAME; null: with neither
alter table runs add column deliveries integer not null default 0;
alter table runs add column fruitless integer not null default 0;      -- deliveries since it last got further
alter table runs add column seen_head integer;                         -- head at the last claim
alter table runs add column parked text;                               -- why it is not delivered any more
create index runs_ready on runs(queue, priority desc, num)
where finished is null and queue is not null and waiting = 0 and parked is null and sent_to is null;
create index runs_sent on runs(sent_to) where finished is null and queue is not null and sent_to is not null;
create index runs_owned on runs(owner) where finished is null and queue is not null and owner is not null;

create table workers(                      -- those that take runs from queues; that they live, their locks say
    id text primary key,
    name text not null,
    host text not null,
    pid integer not null,
    version text not null,                 -- of Treadle
    engine text not null,
    queues text not null,                  -- JSON
    slots integer not null,
    since_us integer not null,
    seen_at_us integer not null,
    draining integer not null default 0,
    card integer not null default 1
) strict;
"""

# runs that were removed from it
_REMOVED = "alter table sessions add column removed integer not null default 0"

# how runs are found
_LABELS = """
alter table runs add column agent text;        -- in charge; null: an older version made the row, and the summary has its labels
alter table runs add column user_id text;
alter table runs add column tags text;         -- each between two line breaks; null: none
create index runs_of_agent on runs(agent, num) where agent is not null;
create index runs_of_user on runs(user_id, num) where user_id is not null;
create index runs_tagged on runs(num, tags) where tags is not null;
create index runs_unlabelled on runs(num) where agent is null;
"""

# the journal's secret, encrypted with each key (tables/sealing.py); empty: everything is plain text
_SEAL_KEYS = (
    "create table seal_keys(id blob primary key, secret blob not null) without rowid, strict"
)

MIGRATIONS = (_FIRST, _CHILDREN, _QUEUES, _REMOVED, _LABELS, _SEAL_KEYS)
"""Migrations, each from one version of the tables to the next. The file's `user_version` is the
number of applied ones.
"""
VERSION = len(MIGRATIONS)


def connect(path: Path, *, busy_timeout_s: float) -> apsw.Connection:
    """Open a connection, for one thread at a time. Raises apsw.Error."""
    db = apsw.Connection(
        str(path),
        flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX,
        statementcachesize=64,
    )
    db.set_busy_timeout(int(busy_timeout_s * 1000))
    # fullfsync: on macOS, nothing less reaches the disk; elsewhere it has no effect. secure_delete:
    # overwrites deleted text
    for setting in (
        "synchronous = normal",
        "secure_delete = 1",
        "fullfsync = 1",
        f"journal_size_limit = {WAL_BYTES}",
        "trusted_schema = 0",
    ):
        cursor_of(db).execute(f"pragma {setting}").fetchall()
    return db


def make_ready(connection: apsw.Connection, path: Path, *, busy_timeout_s: float) -> None:
    """Create missing tables. Any number of processes may do so concurrently. Raises
    AgentError(invalid) for a file that is not a journal, is damaged, or is of a newer version.
    """
    db = cursor_of(connection)
    try:
        if _version(db, path) < VERSION:
            _migrate(db, path)
        _use_wal(db, deadline=time.monotonic() + busy_timeout_s)
        db.execute("select num from runs where num = -1").fetchall()
    except apsw.Error as e:  # the caller closes it, which rolls back
        raise unusable(e, path) from e


def unusable(error: apsw.Error, path: Path) -> AgentError:
    """Return the error for a file that cannot be opened as a journal."""
    if isinstance(error, apsw.NotADBError):
        return AgentError(
            "invalid",
            f"{str(path)!r} is neither a journal nor any other SQLite file: choose another one",
        )
    told = translated(error, path, "it is not used")
    return (
        AgentError("invalid", told.message)
        if isinstance(error, (apsw.CorruptError, apsw.CantOpenError, apsw.ReadOnlyError))
        else told
    )


def _version(db: Cursor, path: Path) -> int:
    """Return the number of migrations applied to the file."""
    application, version = (
        db.execute(f"pragma {name}").get for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID and (
        application or version or db.execute("select count(*) from sqlite_schema").get
    ):
        raise AgentError(
            "invalid",
            f"{str(path)!r} is a SQLite file, but not a Treadle journal: choose another one",
        )
    if version > VERSION:
        raise AgentError(
            "invalid",
            (
                f"the journal {str(path)!r} was written by a newer Treadle (version {version}; "
                f"this one reads {VERSION}): upgrade to read it"
            ),
        )
    return version


def _migrate(db: Cursor, path: Path) -> None:
    # effective only while the file is empty
    db.execute("pragma auto_vacuum = incremental").fetchall()
    db.execute("begin immediate")
    # checked again, because another process may have been first
    for script in MIGRATIONS[_version(db, path) :]:
        db.execute(script).fetchall()
    db.execute(
        f"pragma application_id = {APPLICATION_ID}; pragma user_version = {VERSION}; commit"
    ).fetchall()


def _use_wal(db: Cursor, *, deadline: float) -> None:
    """Switch to WAL. This needs exclusive access for a moment, for which SQLite does not wait."""
    while True:
        try:
            if db.execute("pragma journal_mode = wal").get == "wal":
                return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.005)
