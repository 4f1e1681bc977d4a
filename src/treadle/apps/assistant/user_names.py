"""Argument names by which a model may try to name a user. They are refused in arguments
(schemas.py) and omitted from records (view.py). Entry point: `names_user`.
"""

from __future__ import annotations

import re
from typing import Final

from treadle.apps.assistant.lookalikes import as_seen

_SPEAKS_OF_USERS: Final = re.compile(
    r"(?:current|acting|target|the|my|as|on|for|by|run|login)*(?:user|users|owner|account|tenant|person|principal|identity|uid|behalfof)"
    r"(?:ids?|identifier|name|names|key|uuid|guid|email|number)?"
)
_NAME_CHARS: Final = 100
_MEMBER: Final = re.compile(
    r"(?i)(?:user|owner|account|tenant|person|principal|identity|u_?id|behalf)[^\"\\]{0,100}\":|[^\x00-\x7f][^\"\\]{0,100}\":"
)


def names_user(name: str) -> bool:
    """Return True if the argument name denotes a user, in any spelling."""
    return (
        _SPEAKS_OF_USERS.fullmatch(re.sub(r"[\W_]", "", as_seen(name[:_NAME_CHARS]).casefold()))
        is not None
    )


def may_name_user(text: str) -> bool:
    """Return True if a member of the JSON text may name a user. A quick check."""
    return "\\" in text or _MEMBER.search(text) is not None
