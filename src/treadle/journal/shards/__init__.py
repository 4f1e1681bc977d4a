"""A journal of several PostgreSQL databases, over which runs are spread.

A run is in one shard, with its children, its forks and its session. docs/decisions/054 has the
reasons. Entry point: `ShardedJournal` in journal.py.

    placement.py    the file that lists the shards, and the shard of an id
    membership.py   opening the databases of a list, and checking that they belong together
    tables.py       tables that only shards have
    part.py         the journal in one shard, with the reads that merging needs
    shard.py        a shard: its journal while its server answers
    directory.py    finding the shard of a run or session, and notifications
    journal.py      the contract of a journal over all shards
    queue.py        the queue over all shards
    sessions.py     the sessions over all shards
"""

from treadle.journal.shards.journal import ShardedJournal

__all__ = ["ShardedJournal"]
