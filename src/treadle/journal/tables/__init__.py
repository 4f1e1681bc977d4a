"""A journal in SQL tables, as SQLite and PostgreSQL have it alike: entries as rows, long texts
once, sessions as a view of runs.

What it needs of a database: database.py, liveness.py. All that reads, and what both write alike:
journal.py. Runs that wait for a worker, and who works: queue.py, roster.py. Entries as rows, long
texts once, and what a list shows: rows.py, bodies.py, upcasting.py, listing.py. How a run begins,
is driven and asked to stop, what is held meanwhile, what it says: beginning.py, driving.py,
stopping.py, holding.py, driving.py. Sessions as a view of runs, and finding what was said:
sessions.py, conversations.py, view.py, search.py. What goes with runs that are taken away:
pruning.py, removal.py. Entry: `journal.TableJournal`.
"""
