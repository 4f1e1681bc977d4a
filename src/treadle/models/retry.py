"""Retries: repeats a request until the response is complete or the error is final.

No other module retries model requests. `AgentError.retryable` decides which errors to retry; the
caller's scopes handle deadlines and cancellation. Entry points: `ask`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec
from anyio.lowlevel import checkpoint_if_cancelled

from treadle._internal.clock import Clock
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Part
from treadle.models.model import Delta, Fold, Model, ModelRequest, ModelResponse, Restart, Switch

Failed: TypeAlias = Callable[[AgentError, float, Switch | None], Awaitable[None]]

LONGEST_WAIT_S = 600.0
"""Upper bound for Retry-After, in seconds. The run's deadline may end the wait earlier."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter: a random fraction of base_s * 2^n, at most `cap_s`.

    Retry-After takes precedence.
    """

    retries: int = 3
    """Maximum number of retries; 0 disables them."""
    base_s: float = 0.5
    cap_s: float = 20.0
    overload_retries: int = 0
    """Maximum number of retries after an overload or a rate limit, if more than `retries`."""
    overload_cap_s: float = 60.0

    def most(self, error: AgentError) -> int:
        """Return the maximum number of retries after `error`."""
        return (
            max(self.retries, self.overload_retries)
            if self.retries and error.kind is ErrorKind.RATE_LIMIT
            else self.retries
        )

    def wait_s(self, retry: int, error: AgentError, jitter: float) -> float:
        """Return the seconds before retry number `retry` (from 1). `jitter`: in [0, 1)."""
        if error.retry_after_s is not None and error.retry_after_s >= 0:
            return min(error.retry_after_s, LONGEST_WAIT_S)
        cap_s = (
            max(self.cap_s, self.overload_cap_s)
            if self.overload_retries and error.kind is ErrorKind.RATE_LIMIT
            else self.cap_s
        )
        return jitter * min(cap_s, self.base_s * 2 ** min(retry, 60))


PATIENT: Final = RetryPolicy(overload_retries=9)
"""Policy of unattended runs: up to ten attempts, which outlast an overload of about two minutes."""


class Retries(NamedTuple):
    """Retries of a run's requests: how many and when, and the clock that waits."""

    policy: RetryPolicy
    clock: Clock


class ModelAttempt:
    """The current attempt: its number, from 1, and the response received so far."""

    __slots__ = ("_taken", "fold", "model", "number", "reached", "retries")

    def __init__(self, taken: frozenset[str] | set[str], *, number: int = 1) -> None:
        """Create a model attempt. `taken`: ids of the run's earlier tool calls. `number`: greater
        than 1 if earlier attempts were lost with their process.
        """
        self._taken = taken
        self.number = number
        self.retries = 0
        """Number of retries. `number` also counts restarts by the provider and switches of model.
        """
        self.fold = Fold(taken)
        self.reached = 0
        """Number of attempts that reached the provider."""
        self.model: str | None = None
        """Name of the fallback model that took over; None for the requested model."""

    def next(self) -> None:
        self.number += 1
        self.retries += 1
        self.fold = Fold(self._taken)

    def switch(self, switch: Switch) -> None:
        """Continue with another model, which does not count as a retry."""
        self.number += 1
        self.model = switch.model
        self.reached += switch.status is not None
        self.fold = Fold(self._taken)

    def partial(self) -> tuple[Part, ...]:
        """Return the usable content of an interrupted attempt; empty if its deltas are invalid."""
        try:
            return self.fold.partial()
        except Exception:  # noqa: BLE001  custom models may fail in any way, and the run must still end
            return ()


async def ask(
    model: Model,
    request: ModelRequest,
    attempt: ModelAttempt,
    *,
    listen: Callable[[Delta], None] | None,
    failed: Failed,
    retries: Retries,
) -> ModelResponse:
    """Return the first complete response.

    `listen`, if given, receives each delta as it arrives. `failed(error, wait_s, switch)` is
    awaited before each wait, and before another model takes over (`switch`); `attempt` is then
    still the failed one. Raises the last AgentError if it is not retryable or no retries are left.
    Cancellation closes the stream and keeps the partial response in `attempt`.
    """
    while True:
        try:
            return await _whole(model, request, attempt, listen, failed)
        except AgentError as error:
            if not error.retryable or attempt.retries >= retries.policy.most(error):
                raise
            # do not retry a failure that cancellation caused
            await checkpoint_if_cancelled()
            wait_s = retries.policy.wait_s(attempt.retries + 1, error, retries.clock.jitter())
            await failed(error, wait_s, None)
            attempt.next()
            if attempt.model is not None:
                request = msgspec.structs.replace(request, model=attempt.model)
            await retries.clock.sleep(wait_s)


async def _whole(
    model: Model,
    request: ModelRequest,
    attempt: ModelAttempt,
    listen: Callable[[Delta], None] | None,
    failed: Failed,
) -> ModelResponse:
    reached = False
    deltas = model.stream(request)
    try:
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
        await deltas.aclose()
