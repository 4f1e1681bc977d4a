"""One batch at the provider: gathers its requests, submits it, polls it and hands out its results.

It has no task of its own: one of the runs that wait for it works for all of them, and another takes
over if that run is cancelled. Entry point: `VendorBatch`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import anyio

from treadle._internal.clock import Clock
from treadle.errors import AgentError
from treadle.models.providers.batching.api import (
    BatchApi,
    BatchOutcome,
    BatchStatus,
    without_result,
)
from treadle.models.providers.batching.policy import BatchPolicy
from treadle.models.retry import LONGEST_WAIT_S
from treadle.types import now

T = TypeVar("T")

SETTLED_S: Final = 60.0
"""Seconds after which a batch that a submission has created is in the provider's list."""
SKEW_S: Final = 300.0
"""Maximum difference between the provider's clock and ours."""
GROWTH: Final = 1.5
FAILURES_MOST: Final = 200
"""Questions in a row that the provider may leave without an answer: with the default policy, in
more than 16 hours.
"""


class BusyRuns:
    """Runs that may still add a request to a batch, and the times of their batches."""

    def __init__(self, policy: BatchPolicy, clock: Clock) -> None:
        self.policy, self.clock = policy, clock
        self.busy: set[str] = set()
        """Ids of runs that may make a request soon."""
        self.changed = anyio.Event()
        """Set when `busy`, or the requests of a batch that gathers, have changed."""

    def change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class VendorBatch:
    """A batch at the provider, or one that gathers requests."""

    def __init__(
        self, batch: BusyRuns, api: BatchApi, key: str, *, since: datetime | None = None
    ) -> None:
        """Create a batch. `key`: our id of it, with which its custom ids begin. `since`: time at
        which an earlier process was about to submit it; None for a new one.
        """
        self._batch, self._api, self.key, self._since = batch, api, key, since
        self.id = ""
        """The provider's id, once it is known."""
        self._is_open = since is None
        self._count = self._size_bytes = 0
        self._reserved: set[str] = set()
        self._waiting: set[str] = set()
        """Custom ids of the requests that runs wait for."""
        self._given_up: set[str] = set()
        self._requests: dict[str, bytes] = {}
        """Requests that have not been submitted."""
        self._submitted: frozenset[str] | None = None
        """Custom ids of the requests in the batch; None before its submission, and if an earlier
        process submitted it.
        """
        self._total: int | None = None
        """Number of requests in the batch, once it is known."""
        self._is_missing = False
        self._failure: AgentError | None = None
        """Error of the submission."""
        self._outcomes: dict[str, BatchOutcome] | None = None
        # one run at a time submits; all others find the id, or the failure
        self._submitting = anyio.Lock()
        # one run at a time polls; all others find the outcomes
        self._polling = anyio.Lock()

    @property
    def is_done(self) -> bool:
        """True if no run waits for the batch, and its results have been read."""
        return self._outcomes is not None and not self._waiting

    # ------------------------------------------------------------ gathering

    def takes(self, size_bytes: int) -> bool:
        """Return True if another request of this size can join."""
        return self._is_open and (
            self._count < self._api.requests_max
            and self._size_bytes + size_bytes <= self._api.bytes_max
        )

    def reserve(self, size_bytes: int) -> str:
        """Return the custom id of a request that will join."""
        self._count += 1
        self._size_bytes += size_bytes + 100  # with its custom id and separators
        custom_id = f"{self.key}-{self._count}"
        self._reserved.add(custom_id)
        return custom_id

    def join(self, custom_id: str, request: bytes) -> None:
        self._requests[custom_id] = request

    def release(self, custom_id: str) -> None:
        """Note that a reserved request has joined, or never will."""
        self._reserved.discard(custom_id)
        self._batch.change()

    async def _gathered(self) -> None:
        """Wait until no run can add a request soon."""
        batch = self._batch
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._timer, scope)
                while batch.busy and self.takes(0):
                    await batch.changed.wait()
                scope.cancel()
        while self._reserved:
            await batch.changed.wait()
        self._is_open = False

    async def _timer(self, scope: anyio.CancelScope) -> None:
        await self._batch.clock.sleep(self._batch.policy.gather_s)
        scope.cancel()

    # ------------------------------------------------------------ submission

    async def accepted(self, custom_id: str) -> bool:
        """Wait until the provider has the request. False if it certainly was never submitted.

        Raises AgentError.
        """
        if self._since is None and custom_id not in self._requests:
            return False  # left before it joined, and is now resumed
        self._waiting.add(custom_id)
        try:
            async with self._submitting:
                if not (self.id or self._failure or self._is_missing):
                    await self._submit()
        finally:
            if not self.id:
                self._waiting.discard(custom_id)
                self._requests.pop(custom_id, None)
        if self._failure is not None:
            raise copied(self._failure)
        is_in = self._submitted is None or custom_id in self._submitted
        return is_in and not self._is_missing

    async def _submit(self) -> None:
        failure: AgentError | None = None
        if self._since is None:
            await self._gathered()
            self._since = now()
            # before the submission, since a run that is cancelled during it leaves its request
            requests, self._requests = self._requests, {}
            self._submitted, self._total = frozenset(requests), len(requests)
            try:
                # a request that was cancelled could have been accepted
                with anyio.CancelScope(shield=True):
                    self.id = await self._api.create(self.key, [*requests.values()])
            except AgentError as error:
                failure = error
            if failure is not None and not _is_ambiguous(failure):
                self._failure = failure
        if self.id or self._failure is not None:
            return
        try:
            self.id = await self._found() or ""
        except AgentError as error:
            self._failure = AgentError(
                error.kind,
                f"it is unknown whether the provider accepted batch {self.key}, because its "
                f"batches cannot be listed ({error.message}): look for it in the provider's "
                "console before sending the prompts again",
                should_retry=False,
            )
        else:
            self._is_missing = not self.id and failure is None
            self._failure = None if self.id else failure

    async def _found(self) -> str | None:
        """Look for the batch, whose acceptance is unknown. None if there certainly is none."""
        assert self._since is not None, "the time of the submission"
        others, clock = set[str](), self._batch.clock
        wait_s = self._batch.policy.poll_s
        settled_at = clock.monotonic() + SETTLED_S - (now() - self._since).total_seconds()
        while True:
            is_settled = clock.monotonic() >= settled_at
            found, is_decided = await self._patiently(partial(self._look_for, others))
            if found is not None or (is_settled and is_decided):
                return found
            await clock.sleep(wait_s if is_settled else settled_at - clock.monotonic())
            wait_s = self._longer(wait_s)

    async def _look_for(self, others: set[str]) -> tuple[str | None, bool]:
        """Return the id of the batch, if it is in the provider's list, and whether a batch without
        a key could still be this one. Adds the batches that are not to `others`.
        """
        assert self._since is not None, "the time of the submission"
        is_decided = True
        async with aclosing(self._api.recent()) as batches:
            async for status in batches:
                if status.at is not None and status.at < self._since - timedelta(seconds=SKEW_S):
                    break
                if status.key == self.key:
                    return status.id, True
                if status.key is not None or status.id in others:
                    continue
                if not status.is_over:
                    is_decided = False  # its custom ids are in its results only
                elif await self._is_ours(status):
                    return status.id, True
                else:
                    others.add(status.id)
        return None, is_decided

    async def _is_ours(self, status: BatchStatus) -> bool:
        async with aclosing(self._api.results(status)) as results:
            async for custom_id, _ in results:
                return custom_id.startswith(f"{self.key}-")
        return False

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the provider answers. Nothing is sent a second time by that."""
        wait_s, failures = self._batch.policy.poll_s, 0
        while True:
            try:
                return await ask()
            except AgentError as error:
                failures += 1
                if not error.retryable or failures > FAILURES_MOST:
                    raise
                least_s = min(error.retry_after_s or 0.0, LONGEST_WAIT_S)
            await self._batch.clock.sleep(max(wait_s, least_s))
            wait_s = self._longer(wait_s)

    def _longer(self, wait_s: float) -> float:
        return min(wait_s * GROWTH, max(self._batch.policy.most_poll_s, wait_s))

    # ------------------------------------------------------------ results

    async def outcome(self, custom_id: str) -> BatchOutcome:
        """Wait for the outcome of a request. Raises AgentError if the provider cannot be asked."""
        async with self._polling:
            outcomes = self._outcomes
            if outcomes is None:
                outcomes = self._outcomes = await self._polled()
        self._waiting.discard(custom_id)
        found = outcomes.get(custom_id) or without_result(self.id)
        return copied(found) if isinstance(found, AgentError) else found

    async def _polled(self) -> dict[str, BatchOutcome]:
        wait_s = self._batch.policy.poll_s
        if self._submitted is not None:
            await self._batch.clock.sleep(wait_s)
        while not (status := await self._patiently(partial(self._api.look, self.id))).is_over:
            self._total = self._total or status.total
            wait_s = self._longer(wait_s)
            await self._batch.clock.sleep(wait_s)
        return await self._patiently(partial(self._read, status))

    async def _read(self, status: BatchStatus) -> dict[str, BatchOutcome]:
        outcomes: dict[str, BatchOutcome] = {}
        if (problem := status.problem) is not None:
            outcomes = {custom_id: problem for custom_id in self._waiting}
        async with aclosing(self._api.results(status)) as results:
            async for custom_id, outcome in results:
                outcomes[custom_id] = outcome
        return outcomes

    # ------------------------------------------------------------ cancellation

    async def give_up(self, custom_id: str) -> None:
        """Note that no run will use the result. Cancels the batch at the provider if that holds for
        all of its requests.
        """
        self._given_up.add(custom_id)
        self._waiting.discard(custom_id)
        if self.id and self._outcomes is None and len(self._given_up) == self._total:
            try:
                await self._api.cancel(self.id)
            except AgentError:
                return  # it ends by itself, at the latest after a day


def _is_ambiguous(error: AgentError) -> bool:
    """Return True if the provider may have accepted the batch in spite of the error."""
    return error.sent and (error.status is None or error.status >= 500)


def copied(error: AgentError) -> AgentError:
    """Return an equal error, because each run raises its own."""
    return AgentError(
        error.kind,
        error.message,
        status=error.status,
        request_id=error.request_id,
        retry_after_s=error.retry_after_s,
        sent=error.sent,
        should_retry=error.should_retry,
    )
