"""Second access check, on PostgreSQL: row-level security by the transaction's user. The migrations
create the policies.

A superuser, or a role with BYPASSRLS, would bypass it. Such a login therefore assumes the role
`treadle_rows` for each transaction, which cannot log in and owns nothing. Entry points: `lock` for
a transaction, `takes_role` when a database is opened.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

from treadle.errors import AgentError
from treadle.service.database.scope import Scope
from treadle.service.database.statements import owned_names
from treadle.service.database.tables import METADATA

ROLE = "treadle_rows"
_WRITERS = 0x7452
"""Namespace of our advisory locks."""
_SCHEMA = 0x74726561646C65
"""Key of the lock that serializes processes that start at the same time."""
_MAKE_ROLE = f"""
DO $$ BEGIN
  CREATE ROLE {ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS;
EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
END $$
"""
_GRANT = """
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role};
    IF current_schema() <> 'public' THEN
      EXECUTE format('GRANT USAGE ON SCHEMA %I TO {role}', current_schema());
    END IF;
  END IF;
END $$
"""
_GRANTED = text(
    "SELECT count(*) FROM pg_roles AS r, unnest(CAST(:names AS text[])) AS granted(name)"
    " WHERE r.rolname = :role AND has_table_privilege(r.oid, granted.name, 'INSERT')"
)
_BYPASSES = text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
_POWERS = text(
    "SELECT rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR EXISTS (SELECT FROM "
    "pg_auth_members AS m JOIN pg_roles AS o ON o.oid = m.member WHERE o.oid = r.oid OR m.roleid = "
    "r.oid AND NOT (o.rolsuper OR o.rolbypassrls)) FROM pg_roles AS r WHERE r.rolname = :role"
)
"""Query that is true if the role has more than rights on our tables, or if a role may assume it
that does not see all rows anyway, so that Treadle did not create it.
"""
_OWN_ROWS = "user_id=current_setting'treadle.user_id',true"
"""Expression of the policies, as PostgreSQL prints it, without casts, parentheses and blanks."""
_UNLOCKED = text(
    "SELECT count(*) FROM unnest(CAST(:names AS text[])) AS owned(name) LEFT JOIN pg_class AS c "
    "ON c.oid = to_regclass(owned.name)"
    " WHERE NOT coalesce(c.relrowsecurity AND c.relforcerowsecurity AND (SELECT bool_and(ARRAY["
    "CAST(:own AS text)] = ALL (SELECT ARRAY[regexp_replace(pg_get_expr(e, polrelid), "
    "'::text|[()[:space:]]', '', 'g')] FROM (VALUES (polqual), (polwithcheck)) AS v(e))) "
    "FROM pg_policy AS p WHERE p.polrelid = c.oid), false)"
)
"""Query that counts the tables without a policy, or with one that allows other rows. Policies add
up: a row is visible if one of them allows it.
"""


def lock(connection: Connection, scope: Scope | None, *, role: bool, alone: bool) -> None:
    """Set the user of this transaction, in one round trip.

    `alone`: serialize one user's changes, as SQLite does.
    """
    user_id = scope.user_id if scope is not None else ""
    calls = [func.set_config("treadle.user_id", user_id, True)]
    if alone and scope is not None:
        calls.append(func.pg_advisory_xact_lock(_WRITERS, func.hashtext(user_id)))
    if role:
        calls.append(func.set_config("role", ROLE, True))
    connection.execute(select(*calls)).close()


def takes_role(connection: Connection) -> bool:
    """Return True if transactions must assume the role. Creates it if missing.

    Raises AgentError(invalid) if row-level security would not be effective.
    """
    if not look(connection):
        return False
    try:
        if connection.execute(
            _GRANTED, {"names": [*METADATA.tables], "role": ROLE}
        ).scalar_one() < len(METADATA.tables):
            make_role(connection)  # the owner of the tables could not create roles
        if connection.execute(_POWERS, {"role": ROLE}).scalar_one_or_none():
            raise AgentError(
                "invalid",
                f"the role {ROLE} of the database can log in, bypass row-level security or create "
                "roles, is a member of another role, or has members, so it would not isolate "
                f"users' rows: run ALTER ROLE {ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE, "
                "and revoke its memberships and members",
            )
        lock(connection, None, role=True, alone=False)
    except DBAPIError as e:
        raise AgentError(
            "invalid",
            (
                "the database role bypasses row-level security: connect as a role that is not a "
                "superuser and lacks BYPASSRLS"
            ),
        ) from e
    return True


def make_role(connection: Connection) -> None:
    """Create the role and grant its rights, if the login may. A plain owner of the tables may not,
    and needs no role: the policies are forced on it.
    """
    first_come(connection)
    connection.execute(text(_MAKE_ROLE))
    connection.execute(text(_GRANT.format(role=ROLE, tables=", ".join(METADATA.tables))))


def first_come(connection: Connection) -> None:
    """Take the lock on schema changes until the transaction ends."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _SCHEMA})


def look(connection: Connection) -> bool:
    """Return True if the login bypasses the policies. Raises AgentError(invalid) if there are no
    policies, or others than Treadle's.
    """
    if connection.execute(_UNLOCKED, {"names": owned_names(), "own": _OWN_ROWS}).scalar_one():
        raise AgentError(
            "invalid",
            (
                "row-level security is off in the database, or has other policies than Treadle's: "
                "restore its policies, or start with an empty database"
            ),
        )
    return bool(connection.execute(_BYPASSES).scalar_one())
