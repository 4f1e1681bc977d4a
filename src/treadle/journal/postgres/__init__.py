"""The journal in PostgreSQL: runs that many processes of many machines drive. journal/tables has
the tables.

Server, tables and errors: connections.py, schema.py, failures.py. Writes and lost connections:
writer.py, appending.py, and reads: readers.py. Drivers of runs, by leases: driving.py, driven.py, workers.py.
Notifications: notifier.py. The interface of the tables over psycopg, and full-text search:
database.py, words.py, indexing.py. Entry point: `PostgresJournal` in journal.py.

    channels.py          encoding of notifications
    checkup.py           checks for `treadle doctor`
    lane.py              a thread's connection and its work
    notification_connection.py  a connection that sends and receives notifications
    pending_work.py      appends and transactions, with what is known of their fate
    silence.py           detection of servers that do not answer
"""

from treadle.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]
