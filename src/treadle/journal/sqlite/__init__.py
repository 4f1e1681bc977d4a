"""The journal in a SQLite file: runs that outlive their process, put together in journal.py; what
its tables are stands in journals/tables/.

The file, its versions, and where it may lie: schema.py, database.py, places.py. The connection that
writes, those that read, and what is said when the disk fails: writer.py, readers.py, failures.py.
Who drives a run, by locks that die with their process: driving.py, workers.py. The lock that
outlives the loss of SQLite's own: guard.py. What others change in the file: journal.py. Full-text
search: database.py. Entry: `SqliteJournal`.
"""

from treadle.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
