"""Foreign key from a message to a conversation of the same user, over both columns."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

NAME = "message_in_own_conversation"
OWN = ["user_id", "conversation_id"]
KEY = ["user_id", "id"]
_UNNAMED = {"fk": "%(table_name)s_%(column_0_name)s_fkey"}
"""Name that PostgreSQL gave the foreign key. SQLite gave it none."""


def upgrade() -> None:
    # An index, because SQLite adds a constraint by copying the table, and dropping the original
    # would delete all messages.
    op.create_index("conversation_of_one_user", "conversation", KEY, unique=True)
    with op.batch_alter_table("chatmessage", naming_convention=_UNNAMED) as table:
        table.drop_constraint("chatmessage_conversation_id_fkey", type_="foreignkey")
        table.create_foreign_key(NAME, "conversation", OWN, KEY, ondelete="CASCADE")
