"""Cache breakpoints of a request to the Messages API, and its question about cache misses.

Entry points: `marked`, `mark_last`, `compared_with`.
"""

from __future__ import annotations

from treadle.models.providers.anthropic.content import Block
from treadle.models.providers.anthropic.messages import MessageEncoder
from treadle.models.providers.encoding import dumped
from treadle.types import Settings, SystemBlock

BREAKPOINTS_MAX = 4
"""Maximum number of cache breakpoints that the API accepts."""
_MARK: Block = {"cache_control": {"type": "ephemeral"}}
_LONG_MARK: Block = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
_OWN_ID = "msg_"


def marked(encoder: MessageEncoder, marks_left: int) -> list[int]:
    """Return the positions of breakpoints in the messages: at the end, and at the end of the
    previous request.

    The API searches its cache about 20 blocks back from a breakpoint, and one turn of parallel
    calls can be longer.
    """
    ends = [end for end in (encoder.asked, encoder.end) if end]
    return ends[-marks_left:] if marks_left > 0 else []


def marked_blocks(system: list[SystemBlock], most: int) -> frozenset[int]:
    """Return the indexes of the marked blocks: the last one and those that the caller marked, the
    latest if there are too many.
    """
    last = len(system) - 1
    return frozenset([i for i, block in enumerate(system) if block.cache or i == last][-most:])


def mark_of(settings: Settings) -> Block:
    return _LONG_MARK if settings.cache == "1h" else _MARK


def compared_with(response_id: str) -> bytes:
    """Encode the id of the response whose request the API compares with this one; null before there
    is one.
    """
    return b'"diagnostics":' + dumped(
        {"previous_message_id": response_id if response_id.startswith(_OWN_ID) else None}
    )


def mark_last(tools: list[Block], mark: Block) -> bool:
    """Mark the last tool that is not deferred, and return whether there is one.

    Deferred tools come after the cached prefix, so the API rejects a breakpoint on them.
    """
    for i in reversed(range(len(tools))):
        if not tools[i].get("defer_loading"):
            tools[i] = {**tools[i], **mark}
            return True
    return False
