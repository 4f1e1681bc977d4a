"""The one who sits at the terminal: whoever may start this process may read its database. Entry:

`terminal_user`.
"""

from __future__ import annotations

from typing import Final

from treadle.service.database.scope import Identity

LOCAL: Final = "local"
"""One for each database. No account has it: theirs are UUIDs."""


def terminal_user() -> Identity:
    return Identity(LOCAL, "terminal")
