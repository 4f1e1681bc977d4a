"""Rows of users: tables, access control and transactions.

apps/ and service/ define their content. The modules below import SQLModel, this one does not. Entry
points: `Database.open`, `Identity`, `Scope`.

    scope.py                        verified identities, and the scope of their rows
    tables.py                       the tables
    database.py                     transactions, each in a thread
    guard.py                        first access check: a session sees only its scope's rows
    statements.py                   tables that a statement touches, and rejected statements
    row_security.py                 second access check, on PostgreSQL
    engines.py                      database URLs and connections
    failures.py                     translation of database errors, and which ones to retry
    migrating.py                    upgrade to the newest schema, under a lock
    migrations/env.py               Alembic's environment
    migrations/versions/0001_rows.py  the first tables, and their policies
    migrations/versions/0002_totals.py  totals used by all users together
    migrations/versions/0003_registered_from.py  network that registered an account
    migrations/versions/0004_own_messages.py  a message is in a conversation of its user
    migrations/versions/0005_refreshed_at.py  time of a login's last refresh
"""
