"""Foreign key from a run to a conversation of the same user, or to none, over both columns."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

NAME = "run_in_own_conversation"
OWN = ["user_id", "conversation_id"]
KEY = ["user_id", "id"]


def upgrade() -> None:
    _delete_strays()
    with op.batch_alter_table("servedrun") as table:
        table.create_foreign_key(NAME, "conversation", OWN, KEY, ondelete="CASCADE")


def _delete_strays() -> None:
    """Delete runs whose conversation is missing or belongs to another user: only SQL outside the
    application can have created them.
    """
    postgres = op.get_bind().dialect.name == "postgresql"
    tables = ("servedrun", "conversation") if postgres else ()
    for table in tables:  # otherwise the policies hide all rows from the owner
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(
        "DELETE FROM servedrun WHERE conversation_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM conversation WHERE conversation.id = servedrun.conversation_id "
        "AND conversation.user_id = servedrun.user_id)"
    )
    for table in tables:
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
