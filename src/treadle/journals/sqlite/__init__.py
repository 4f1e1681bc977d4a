"""The journal in a SQLite file: runs that outlive their process, put together in journal.py.

The file, its tables and versions, and where it may lie: schema.py, database.py, places.py, upcasting.py. The connection that writes,
those that read, and what is said when the disk fails: writer.py, readers.py, failures.py. Who drives a run, by locks that die with
their process, and what a forked child leaves alone: driving.py, workers.py, forks.py. Entries as rows, long texts once, and
what a list shows: rows.py, bodies.py, listing.py. Sessions as a view of runs, and finding what was said: sessions.py, conversations.py,
view.py, search.py. What goes with runs that are taken away: pruning.py, removal.py. Entry: `SqliteJournal`.
"""

from treadle.journals.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
