"""Under which names a model may try to say whose tasks it wants: refused in arguments (schemas.py),
left out of records (view.py). Entry: `names_user`.
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
    """In any spelling."""
    return (
        _SPEAKS_OF_USERS.fullmatch(re.sub(r"[\W_]", "", as_seen(name[:_NAME_CHARS]).casefold()))
        is not None
    )


def may_name_user(text: str) -> bool:
    """Of JSON text, at one look: whether one of its members may."""
    return "\\" in text or _MEMBER.search(text) is not None
