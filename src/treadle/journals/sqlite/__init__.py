"""The journal in a SQLite file: runs that outlive their process. Each file here owns one noun of it. Entry: `SqliteJournal`."""

from treadle.journals.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
