"""The one place that retries: asks a model until it answers whole, or the error says that asking
again is no use.

What is retried is said by `AgentError.retryable`; the run's deadline and its cancellation are
scopes around the caller. Entry: `ask`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from anyio.lowlevel import checkpoint_if_cancelled

from treadle._internal.clock import Clock
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Part
from treadle.models.model import Delta, Fold, Model, ModelRequest, ModelResponse, Restart, Switch
from treadle.types import Settings

Failed: TypeAlias = Callable[[AgentError, float, Switch | None], Awaitable[None]]

LONGEST_WAIT_S = 600.0
"""A Retry-After above this is cut to it; where the run has a deadline, that comes first."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Full-jitter exponential backoff: a random part of base * 2^n, at most `cap_s`; Retry-After
    goes before it.
    """

    retries: int = 3
    """0: none, whatever fails."""
    base_s: float = 0.5
    cap_s: float = 20.0
    overload_retries: int = 0
    """For overloads and rate limits, where that is more: both pass with time."""
    overload_cap_s: float = 60.0

    def most(self, error: AgentError) -> int:
        """Retries in all, where the last failure was `error`."""
        return (
            max(self.retries, self.overload_retries)
            if self.retries and error.kind is ErrorKind.RATE_LIMIT
            else self.retries
        )

    def wait_s(self, retry: int, error: AgentError, jitter: float) -> float:
        """Seconds to wait before retry number `retry` (from 1); `jitter` in [0, 1)."""
        if error.retry_after_s is not None and error.retry_after_s >= 0:
            return min(error.retry_after_s, LONGEST_WAIT_S)
        cap_s = (
            max(self.cap_s, self.overload_cap_s)
            if self.overload_retries and error.kind is ErrorKind.RATE_LIMIT
            else self.cap_s
        )
        return jitter * min(cap_s, self.base_s * 2 ** min(retry, 60))


PATIENT: Final = RetryPolicy(overload_retries=9)
"""For runs that nobody waits for: an overload is waited out for about two minutes, in up to ten
attempts.
"""

_NAMED: Mapping[str, tuple[re.Pattern[str], object]] = {
    "show_thinking": (re.compile(r"\b(thinking\W+display|reasoning\W+summary)\b"), False),
    "strict_tools": (
        re.compile(
            (
                r"\bstrict\b|\bInvalid schema for function\b|\bschema is too complex\b|\bgrammar "
                r"is "
                r"too large\b"
            ),
            re.IGNORECASE,
        ),
        False,
    ),
    "hosted_tools": (
        re.compile(
            r"\b(web_search|web_fetch|code_execution|code_interpreter)|google_?search|url_?context",
            re.IGNORECASE,
        ),
        None,
    ),
    "effort": (re.compile(r"effort\b|\bthinking[\W_]*level", re.IGNORECASE), None),
    "thinking": (
        re.compile(
            r"\bthinking[\W_]*(type|budget|config)"
            r"|\b(thinking|reasoning)\b(?![.]effort|\W+(block|item|level|summary))[^.]*\b(support|permitted|allowed|recogni|unknown|enabled|turned|disabled)",
            re.IGNORECASE,
        ),
        None,
    ),
    "temperature": (re.compile(r"\btemperature\b"), None),
    "tool_choice": (re.compile(r"\btool_choice\b|\btoolConfig\b"), None),
    "service_tier": (re.compile(r"\bservice_?[tT]ier\b|['\"`]speed['\"`]|\bspeed:"), None),
    "cache": (re.compile(r"\bcache_control\b|\bprompt_cache_\w+|\bdiagnostics\b"), False),
    "stop": (re.compile(r"\bstop_?[sS]equences\b|['\"`]stop['\"`]"), None),
}
"""Settings that a request can do without, how a provider names each, and what stands in its place.
"""
_WORKS_UNSET = ("show_thinking", "strict_tools", "cache")
"""Requests may ask for these where the setting is open."""


def offending(error: AgentError, settings: Settings) -> str:
    """The setting that a provider names first as it refuses a request; "" if it names none of those
    that are set and can be left out.
    """
    if error.kind is not ErrorKind.INVALID or error.status not in (400, 422):
        return ""
    found = {
        name: match.start()
        for name, (pattern, _) in _NAMED.items()
        if (match := pattern.search(error.message))
    }
    if settings.effort is None and "effort" in found:
        found.setdefault("thinking", found["effort"])  # which a level of effort may also stand for
    given = settings.given.union(_WORKS_UNSET)
    left = {
        name: at
        for name, at in found.items()
        if name in given and getattr(settings, name) is not _NAMED[name][1]
    }
    return min(left, key=left.__getitem__, default="")


def names_image(error: AgentError) -> bool:
    """True if a provider refused a request because of an image, or because it takes none."""
    return (
        error.kind is ErrorKind.INVALID
        and error.status in (400, 415, 422)
        and "image" in error.message.lower()
    )


def without(settings: Settings, names: Collection[str]) -> Settings:
    """The settings to ask with once a provider has refused these by name."""
    return (
        msgspec.structs.replace(
            settings, **{name: _NAMED[name][1] for name in names if name in _NAMED}
        )
        if names
        else settings
    )


class ModelAttempt:
    """The attempt that is under way: its number, from 1, and what has come of it so far."""

    __slots__ = ("_taken", "fold", "model", "number", "reached", "retries")

    def __init__(self, taken: frozenset[str] | set[str], *, number: int = 1) -> None:
        """`taken`: the ids of the run's earlier tool calls.

        `number`: higher where one was lost with its process.
        """
        self._taken = taken
        self.number = number
        self.retries = 0
        """Fewer than `number - 1` where the provider itself began anew, or another took over."""
        self.fold = Fold(taken)
        self.reached = 0
        """Attempts so far that reached the provider."""
        self.model: str | None = None
        """The one that took over; None: the one that was asked for."""

    def next(self) -> None:
        self.number += 1
        self.retries += 1
        self.fold = Fold(self._taken)

    def switch(self, switch: Switch) -> None:
        """Another model takes over; that is no retry."""
        self.number += 1
        self.model = switch.model
        self.reached += switch.status is not None
        self.fold = Fold(self._taken)

    def partial(self) -> tuple[Part, ...]:
        """What can be kept of it where it was cut; nothing where its deltas make no sense."""
        try:
            return self.fold.partial()
        except Exception:  # noqa: BLE001  a model may be anybody's code, and the run has to end all the same
            return ()


def at_first(
    attempt: ModelAttempt, told: Callable[[], None], listen: Callable[[Delta], None] | None
) -> Callable[[Delta], None]:
    """`listen`, with `told` called before the first delta of each attempt."""
    heard = 0

    def hear(delta: Delta) -> None:
        nonlocal heard
        if heard != attempt.number:
            heard = attempt.number
            told()
        if listen is not None:
            listen(delta)

    return hear


async def ask(
    model: Model,
    request: ModelRequest,
    attempt: ModelAttempt,
    *,
    listen: Callable[[Delta], None] | None,
    failed: Failed,
    policy: RetryPolicy,
    clock: Clock,
) -> ModelResponse:
    """The first whole response. `listen`, if any, hears every delta at once; `failed(error, wait_s,
    switch)` is awaited before each wait, and where another model takes over (`switch`), while
    `attempt` is still the one that failed.

    Raises the last AgentError where it is not retryable or the retries are used up. Cancellation
    closes the stream, and leaves in `attempt` what there was.
    """
    while True:
        try:
            return await _whole(model, request, attempt, listen, failed)
        except AgentError as error:
            if not error.retryable or attempt.retries >= policy.most(error):
                raise
            # what breaks while the run is being stopped is not tried again
            await checkpoint_if_cancelled()
            wait_s = policy.wait_s(attempt.retries + 1, error, clock.jitter())
            await failed(error, wait_s, None)
            attempt.next()
            if attempt.model is not None:
                request = msgspec.structs.replace(request, model=attempt.model)
            await clock.sleep(wait_s)


async def _whole(
    model: Model,
    request: ModelRequest,
    attempt: ModelAttempt,
    listen: Callable[[Delta], None] | None,
    failed: Failed,
) -> ModelResponse:
    reached = False
    try:
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                if type(delta) is Switch:
                    error = AgentError(
                        "network", delta.why, status=delta.status, request_id=delta.request_id
                    )
                    await failed(error, 0.0, delta)
                    attempt.switch(delta)
                    reached = False
                    continue
                reached = True
                attempt.fold.add(delta)
                if listen is not None:
                    listen(delta)
                if type(delta) is Restart:
                    attempt.number += 1
        return attempt.fold.response()
    except AgentError as error:
        reached |= error.status is not None
        raise
    finally:
        attempt.reached += reached
