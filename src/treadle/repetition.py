"""Tells when a run goes in circles: the same call with the same result again and again. Entry: `Repetition`."""

from __future__ import annotations

from collections import deque

from treadle.message import ToolCall, ToolResult

WINDOW = 10
SAME_RESULT_MAX = 5
SAME_ERROR_MAX = 2


class Repetition:
    """The last ten calls of a run."""

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=WINDOW)

    def found(self, call: ToolCall, result: ToolResult) -> bool:
        """Notes a call; True where it came, with this result, more than 5 times in the last 10, or with this error 3 times."""
        key = hash((call.name, call.arguments_json, result.content, result.is_error))
        self._recent.append(key)
        return self._recent.count(key) > (SAME_ERROR_MAX if result.is_error else SAME_RESULT_MAX)
