"""The journal in a SQLite file: runs that survive their process. journal/tables has the tables.

The file, its versions, and its location: schema.py, database.py, places.py. The writing connection,
its log, readers, and errors of the disk: writer.py, writes.py, log.py, readers.py, failures.py. Its keys: encrypting.py.
Drivers of runs, by locks that die with their process: driving.py, workers.py. Locks that remain if
SQLite's own are lost: guard.py, file_locks.py, write_turn.py. Changes by other processes:
journal.py. Full-text search: database.py. Entry point: `SqliteJournal` in journal.py.
"""

from treadle.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
