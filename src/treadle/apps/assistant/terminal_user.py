"""User of the terminal: starting this process requires access to its database. Entry point:
`terminal_user`.
"""

from __future__ import annotations

from typing import Final

from treadle.service.database.scope import Identity

LOCAL: Final = "local"
"""Reserved user id of each database. Accounts cannot have it: their ids are UUIDs."""


def terminal_user() -> Identity:
    return Identity(LOCAL, "terminal")
