"""The journal in PostgreSQL, shared by many processes on many machines. journal/tables has the
tables.

Server, tables and errors: connections.py, schema.py, failures.py. Writes and lost connections:
writer.py, appending.py. Reads: readers.py. Drivers of runs, by leases: driving.py, driven.py,
workers.py. Notifications: notifier.py. The interface of the tables over psycopg, and full-text
search: database.py, words.py, indexing.py. Entry point: `PostgresJournal` in journal.py.

    channels.py          encoding of notifications
    checkup.py           checks for `treadle doctor`
    encrypting.py        keys of the journal, and its encryption
    lane.py              a thread's connection and its work
    notification_connection.py  a connection that sends and receives notifications
    pending_work.py      appends and transactions, with their known state
    silence.py           detection of servers that do not respond
"""

from treadle.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]
