"""What a server's tool is called here: NAME_TOOL, where models can say that, and else something
near with a mark.

Entry: `tool_name`.
"""

from __future__ import annotations

import hashlib
import re

LONGEST = 64
"""What all providers take."""
_MARK_CHARS = 8
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(server: str, tool: str) -> str:
    """The same whatever else the server has, so that a call of an old run can never mean another
    tool.

    Where a character had to be replaced or the name was too long, it ends with 8 hexadecimal digits
    of a hash.
    """
    whole = f"{server}_{tool}"
    name = _OTHER.sub("_", whole)
    if name == whole and len(name) <= LONGEST and tool:
        return name
    mark = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARS]
    return f"{name[: LONGEST - _MARK_CHARS - 1]}_{mark}"
