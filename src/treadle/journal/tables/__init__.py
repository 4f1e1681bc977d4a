"""A journal in SQL tables, shared by SQLite and PostgreSQL: entries as rows, long texts once,
sessions as a view of runs.

Interfaces that a database implements: database.py, liveness.py. All reads, and shared writes:
journal.py. Queued runs and workers: queue.py, queue_place.py, claiming.py, roster.py. Entries as
rows, long texts once, and lists: rows.py, bodies.py, upcasting.py, listing.py. The beginning,
driving and stopping of a run, and locks: beginning.py, driving.py, stopping.py, holding.py.
Sessions as a view of runs, and search: sessions.py, conversations.py, view.py, search.py. Removing
runs: pruning.py, removal.py. Encryption: sealing.py, encrypting.py. Entry point: `journal.TableJournal`.
"""
