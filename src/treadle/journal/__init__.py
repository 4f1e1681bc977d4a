"""The journal: the append-only log that every result, list and resume is derived from. Stores are
in memory/, sqlite/ and postgres/; tables/ holds what the two databases share, and shards/ spreads
runs over several.

    journal.py     `Journal`, `RunWriter`: the contract
    run_info.py    `RunInfo`: a run in lists
    entries.py     the entries of a run
    entry_codec.py  decoding of stored entries, including other versions'
    run_state.py   `RunState`: the fold of a run's entries
    context_state.py  the messages of a run, as the model sees them
    run_values.py  values that make up a `RunState`: turn, approvals, spending, context
    projection.py  `events_of`: the events of an entry
    receipts.py    compaction receipts, and the history after them
    view.py        messages that a model sees in the place of others
    window.py      the part of a session that its next run sees
    sessions.py    `Sessions`: the contract of conversations
    session_store.py  `SessionStore`: conversations in memory
    conversation.py   one of them, compressed
    session_names.py  ids and titles of sessions
    repetition.py  detection of a run that repeats itself
    run_messages.py  messages that a run derives from its entries
    load.py        a run's state from its entries
    importing.py   an imported run without its authority
    import_bounds.py  limits of the size, figures and times of an imported run
    fork.py        the starting point of a fork
    diff.py        comparing two runs
    queue.py       runs that wait for a worker
    engine.py      `Engine`: the contract of a delivery engine
    notifier.py    change notifications between processes
    threads.py     starting threads, and errors if the system has none left
    pending.py     work that a thread does for waiting coroutines
    forks.py       connections that a forked process must not touch
    removable.py   checking whether runs may be removed
    totals.py      totals over trees of runs
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, cast, get_args

from treadle.config.plugins import load_plugin
from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.journal.tables.sealing import KEY, checked_keys, keys_in

Durability = Literal["process", "power"]
LEASE_S: Final = 15.0
INSTALL: Final = "pip install 'treadle[postgres]'"


def open_journal(
    url: str,
    *,
    durability: Durability = "process",
    lease_s: float = LEASE_S,
    keys: Sequence[bytes] | None = None,
) -> Journal:
    """Open the journal at a URL: `memory:`, `sqlite:///FILE` (relative; `sqlite:////FILE` from the
    root), `postgresql://USER:PASSWORD@HOST/DATABASE`, `postgresql+shards:///FILE` (a file that
    lists several databases), or `NAME:…` of a plug-in.

    `lease_s`: with PostgreSQL, seconds after its last renewal for which a process keeps its runs;
    afterwards another process can take them over. `keys`: keys of 32 bytes that encrypt its text;
    the first encrypts, all decrypt. None: those of the environment, `TREADLE_JOURNAL_KEY` and
    `TREADLE_JOURNAL_OLD_KEYS`; without a key, the text is not encrypted. Raises AgentError(invalid) if the journal cannot
    be opened; blocks while a server is queried.
    """
    if durability not in get_args(Durability):
        raise AgentError("invalid", f"durability is 'process' or 'power', not {durability!r}")
    if not isinstance(cast("object", url), str):
        raise AgentError(
            "invalid",
            (f"a journal needs a URL, not a {type(url).__name__}: pass f'sqlite:///{{path}}'"),
        )
    keys = keys_in(os.environ) if keys is None else checked_keys(keys)
    scheme, colon, rest = url.partition(":")
    if scheme == "memory" and colon and not rest:
        from treadle.journal.memory.journal import MemoryJournal  # noqa: PLC0415  each leaf is loaded when it is used

        return MemoryJournal()
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > len("///"):
        from treadle.journal.sqlite import SqliteJournal  # noqa: PLC0415  as above

        return SqliteJournal.open(Path(rest[3:]).expanduser(), durability=durability, keys=keys)
    if scheme == "postgresql+shards" and rest.startswith("///") and len(rest) > len("///"):
        return _sharded(Path(rest[3:]).expanduser(), lease_s, keys)
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        return _postgres(url, durability, lease_s, keys)
    if colon and (plugin := load_plugin("journals", scheme)) is not None:
        if keys:
            raise _does_not_encrypt(url)
        return cast("Journal", plugin.called(url, durability=durability, lease_s=lease_s))
    instead = (
        f"'sqlite:///{url}'"
        if not colon and rest == "" and url
        else "'memory:', 'sqlite:///FILE' or 'postgresql://USER@HOST/DATABASE'"
    )
    raise AgentError("invalid", f"{_without_password(url)!r} is not a journal URL: use {instead}")


def encrypt_journal(url: str, *, keys: Sequence[bytes] | None = None) -> int:
    """Encrypt everything in a journal with the first key, and return the number of values that were
    not: of a journal in plain text all, after a change of keys those under older ones. Blocks.

    `keys`: as in `open_journal`. Raises AgentError(invalid) for a missing or wrong key, and for a
    journal that does not encrypt; AgentError(busy) if a process uses the journal.
    """
    keys = keys_in(os.environ) if keys is None else checked_keys(keys)
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest.startswith("///"):
        from treadle.journal.sqlite.encrypting import encrypt as encrypt_file  # noqa: PLC0415  as above

        return encrypt_file(Path(rest[3:]).expanduser().resolve(), keys).values
    if scheme not in ("postgresql+shards", "postgresql", "postgres"):
        raise _does_not_encrypt(url)
    try:
        from treadle.journal.postgres.encrypting import encrypt  # noqa: PLC0415  as above
        from treadle.journal.shards.placement import read_list  # noqa: PLC0415  as above
    except ImportError as e:
        raise AgentError("invalid", f"a journal in PostgreSQL needs psycopg: {INSTALL}") from e
    urls = [url]
    if scheme == "postgresql+shards":
        urls = [*read_list(Path(rest.removeprefix("///")).expanduser()).urls.values()]
    return sum(encrypt(one, keys).values for one in urls)


def _does_not_encrypt(url: str) -> AgentError:
    return AgentError(
        "invalid",
        f"the journal {_without_password(url)!r} does not encrypt, and there is a key in {KEY}: "
        "use SQLite or PostgreSQL, or unset the variable",
    )


def _postgres(url: str, durability: Durability, lease_s: float, keys: Sequence[bytes]) -> Journal:
    try:
        from treadle.journal.postgres import PostgresJournal  # noqa: PLC0415  an extra, and 110 ms
    except ImportError as e:
        raise AgentError("invalid", f"a journal in PostgreSQL needs psycopg: {INSTALL}") from e
    return PostgresJournal.open(url, durability=durability, lease_s=lease_s, keys=keys)


def _sharded(path: Path, lease_s: float, keys: Sequence[bytes]) -> Journal:
    try:
        from treadle.journal.shards import ShardedJournal  # noqa: PLC0415  as above
    except ImportError as e:
        raise AgentError("invalid", f"a journal in PostgreSQL needs psycopg: {INSTALL}") from e
    return ShardedJournal.open(path, lease_s=lease_s, keys=keys)


def _without_password(url: str) -> str:
    """Mask the password in a URL, for error messages."""
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", re.sub(r":.*@", r":***@", url))
