"""Delta debugging: a shorter line that still does harm. Entry: `shrunk`."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKENS = re.compile(r"\s+|[\w./-]+|.", re.DOTALL)
MOST_TRIALS = 80


def shrunk(line: str, is_harmful: Callable[[str], bool], most: int = MOST_TRIALS) -> str:
    """Remove ever smaller runs of tokens, then single characters, as long as `is_harmful`; at most
    `most` calls.
    """
    left = most

    def tried(pieces: list[str]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and is_harmful("".join(pieces))

    for split in (_TOKENS.findall, list):
        pieces: list[str] = split(line)
        size = max(len(pieces) // 2, 1)
        while size >= 1 and left > 0:
            i = 0
            while i < len(pieces) and left > 0:
                if len(pieces) > size and tried(shorter := pieces[:i] + pieces[i + size :]):
                    pieces = shorter
                else:
                    i += size
            size //= 2
        line = "".join(pieces)
    return line
