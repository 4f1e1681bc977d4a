"""User of the terminal, verified by access to the database: starting this process requires it.
Entry point: `terminal_user`.
"""

from __future__ import annotations

from typing import Final

from treadle.service.database.scope import Identity

LOCAL: Final = "local"
"""Reserved user id in each database. Accounts cannot have it, because their ids are UUIDs."""


def terminal_user() -> Identity:
    return Identity(LOCAL, "terminal")
