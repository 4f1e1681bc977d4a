"""Rows of users: which tables there are, who may see which rows, and one transaction at a time.

Nothing here knows what a task or a conversation is for: tasks/ and service/ do. SQLModel is
imported by the modules below, never by this one. Entry: `Database.open`, `Identity`, `Scope`.

    scope.py                        who somebody is, verified, and what of the database is theirs
    tables.py                       the tables
    database.py                     one transaction at a time, in a thread
    guard.py                        the first lock: a session sees its scope's rows
    statements.py                   which tables a statement touches, and what is refused
    row_security.py                 the second lock, on PostgreSQL
    engines.py                      which database an address names, and the connections to it
    failures.py                     what a database's errors mean, and which are worth another try
    migrating.py                    the newest schema, under a lock
    migrations/env.py               what Alembic runs
    migrations/versions/0001_rows.py  the first tables, and their policies
    migrations/versions/0002_totals.py  what all users together have used
"""
