"""The one place that retries: asks a model until it answers whole, or the error says that asking again is no use.

What is retried is said by `AgentError.retryable`; the run's deadline and its cancellation are scopes around the caller. Entry: `ask`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
from anyio.lowlevel import checkpoint_if_cancelled

from treadle.clock import Clock
from treadle.errors import AgentError
from treadle.message import Part
from treadle.model import Delta, Fold, Model, ModelRequest, ModelResponse, Restart, Switch

Failed: TypeAlias = Callable[[AgentError, float, Switch | None], Awaitable[None]]

LONGEST_WAIT_S = 600.0
"""A Retry-After above this is cut to it; where the run has a deadline, that comes first."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Full-jitter exponential backoff: a random part of base * 2^n, at most `cap_s`; Retry-After goes before it."""

    retries: int = 3
    base_s: float = 0.5
    cap_s: float = 20.0

    def wait_s(self, retry: int, error: AgentError, jitter: float) -> float:
        """Seconds to wait before retry number `retry` (from 1); `jitter` in [0, 1)."""
        if error.retry_after_s is not None and error.retry_after_s >= 0:
            return min(error.retry_after_s, LONGEST_WAIT_S)
        return jitter * min(self.cap_s, self.base_s * 2 ** min(retry, 60))


class Attempt:
    """The attempt that is under way: its number, from 1, and what has come of it so far."""

    __slots__ = ("_taken", "fold", "model", "number", "reached", "retries")

    def __init__(self, taken: frozenset[str] | set[str], *, number: int = 1) -> None:
        """`taken`: the ids of the run's earlier tool calls. `number`: higher where one was lost with its process."""
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


def at_first(attempt: Attempt, told: Callable[[], None], listen: Callable[[Delta], None] | None) -> Callable[[Delta], None]:
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
    attempt: Attempt,
    *,
    listen: Callable[[Delta], None] | None,
    failed: Failed,
    policy: RetryPolicy,
    clock: Clock,
) -> ModelResponse:
    """The first whole response. `listen`, if any, hears every delta at once; `failed(error, wait_s, switch)` is awaited
    before each wait, and where another model takes over (`switch`), while `attempt` is still the one that failed.

    Raises the last AgentError where it is not retryable or the retries are used up. Cancellation closes the stream, and
    leaves in `attempt` what there was.
    """
    while True:
        try:
            return await _whole(model, request, attempt, listen, failed)
        except AgentError as error:
            if not error.retryable or attempt.retries >= policy.retries:
                raise
            await checkpoint_if_cancelled()  # what breaks while the run is being stopped is not tried again
            wait_s = policy.wait_s(attempt.retries + 1, error, clock.jitter())
            await failed(error, wait_s, None)
            attempt.next()
            if attempt.model is not None:
                request = msgspec.structs.replace(request, model=attempt.model)
            await clock.sleep(wait_s)


async def _whole(model: Model, request: ModelRequest, attempt: Attempt, listen: Callable[[Delta], None] | None, failed: Failed) -> ModelResponse:
    reached = False
    try:
        async with aclosing(model.stream(request)) as deltas:
            async for delta in deltas:
                if type(delta) is Switch:
                    error = AgentError("network", delta.why, status=delta.status, request_id=delta.request_id)
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
