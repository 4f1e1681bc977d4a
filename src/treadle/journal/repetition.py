"""Detection of runs that loop: the same call with the same result, repeated without any change.

Entry point: `Repetition`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from treadle.messages.message import ToolCall, ToolResult

DEFAULT_REPEATS = 10
PACED_MS = 5_000.0
"""Duration in milliseconds from which a call counts as waiting, as polls do."""
_ERROR_WEIGHT = 2


class FinishedCall(msgspec.Struct, frozen=True):
    """A call with its result."""

    call: ToolCall
    result: ToolResult
    changed: bool
    """True if the call may have changed something."""
    waited: bool
    """True if the call polls something in progress or took a long time."""


class Repeated(NamedTuple):
    """A call that returned the same result `times` times.

    `ends`: the model was warned before and continued.
    """

    name: str
    times: int
    ends: bool


class Repetition:
    """Recent calls of a run, up to the last that changed something."""

    def __init__(self) -> None:
        self._recent: deque[int] = deque()
        self._warned: set[int] = set()

    def reset(self) -> None:
        self._recent.clear()
        self._warned.clear()

    def found(self, calls: Iterable[FinishedCall], limit: int) -> Repeated | None:
        """Record the calls of a response. Return a call to warn the model about, at half of
        `limit`, or to end the run.

        Considers the last 2 * `limit` calls. Equal calls of one response count once, and waiting
        calls do not count. Errors count double. A call that may have changed something clears the
        record of all others.
        """
        found, here = None, set[int]()
        for one in calls:
            call, result = one.call, one.result
            key = hash((call.name, call.arguments_json, result.content, result.is_error))
            if one.changed:
                self._keep_only(key)
            if one.waited or key in here:
                continue
            here.add(key)
            self._recent.append(key)
            while len(self._recent) > 2 * limit:
                self._recent.popleft()
            found = self._judged(call.name, key, result.is_error, limit) or found
        return found

    def _keep_only(self, key: int) -> None:
        self._recent = deque(one for one in self._recent if one == key)
        self._warned &= {key}

    def _judged(self, name: str, key: int, is_error: bool, limit: int) -> Repeated | None:
        count = self._recent.count(key)
        weight = count * (_ERROR_WEIGHT if is_error else 1)
        if key in self._warned:
            return Repeated(name, count, ends=True) if weight >= limit else None
        if 2 * weight < limit or count < 2:
            return None
        self._warned.add(key)
        return Repeated(name, count, ends=False)
