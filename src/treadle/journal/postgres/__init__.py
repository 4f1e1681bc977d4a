"""The journal in PostgreSQL: runs that many processes of many machines drive, put together in
journal.py; what its tables are stands in journals/tables/.

The server, its tables and versions, and what is said when it fails: connections.py, schema.py,
failures.py. What is written, and what becomes of a lost connection: writer.py, appending.py. Who
drives a run, by leases: driving.py, driven.py, workers.py. What processes tell each other:
notifier.py. psycopg as the tables use it, and full-text search: database.py, words.py, indexing.py.
Entry: `PostgresJournal`.

    channels.py          what processes tell each other over PostgreSQL, as its notifications carry
    checkup.py           what `treadle doctor` tells of a journal's server
    lane.py              one thread's connection, and what it does
    silence.py           connections whose answer is long in coming, and whether the server behind
"""

from treadle.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]
