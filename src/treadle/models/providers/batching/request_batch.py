"""The runs of a batch, and the requests that they make.

vendor_batch.py holds the requests that go to the provider together. Entry points: `RequestBatch`,
`BatchMember`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Protocol, TypeAlias

import anyio

from treadle._internal.clock import Clock
from treadle.models.providers.batching.api import BatchAnswer, BatchApi
from treadle.models.providers.batching.policy import BatchPolicy
from treadle.models.providers.batching.vendor_batch import BusyRuns, VendorBatch
from treadle.models.providers.encoding import Fields
from treadle.types import new_id

GroupKey: TypeAlias = tuple[object, ...]
"""What the requests of one batch at the provider have in common."""
RecordPlace: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Stores the custom id of a run's request, and the id of the provider's batch or "" before it has
one.
"""
CANCEL_WITHIN_S: Final = 10.0


class BatchPlace(Protocol):
    """Place of a request that an earlier driver of the run has submitted, or was about to."""

    @property
    def custom_id(self) -> str: ...

    @property
    def batch_id(self) -> str:
        """Id of the provider's batch; empty if it is unknown whether the provider accepted one."""
        ...

    @property
    def at(self) -> datetime: ...


class RequestBatch(BusyRuns):
    """Runs whose requests go to the provider together. Lives in one process; the journals of the
    runs say where each request is.
    """

    def __init__(
        self, name: str, policy: BatchPolicy, clock: Clock, *, is_ordinary: bool = False
    ) -> None:
        """Create a batch of runs. `is_ordinary`: send ordinary requests to a provider without a
        batch API, instead of raising an error.
        """
        super().__init__(policy, clock)
        self.name, self.is_ordinary = name, is_ordinary
        self._gathering: dict[GroupKey, VendorBatch] = {}
        self._sent: dict[str, VendorBatch] = {}
        """Batches at the provider, and those that gather, by key."""

    def rest(self, run_id: str) -> None:
        """Note that a run waits for the provider, or has ended."""
        self.busy.discard(run_id)
        self.change()

    def gathering(self, group: GroupKey, api: BatchApi, size_bytes: int) -> VendorBatch:
        """Return the batch that the next request of a group belongs to."""
        vendor = self._gathering.get(group)
        if vendor is None or not vendor.takes(size_bytes):
            self._forget_done()
            key = new_id("batch")
            vendor = VendorBatch(self, api, key)
            self._gathering[group] = self._sent[key] = vendor
        return vendor

    def sent(self, place: BatchPlace, api: BatchApi) -> VendorBatch:
        """Return the batch of a request that an earlier driver has sent."""
        key = place.custom_id.rpartition("-")[0]
        vendor = self._sent.get(key)
        if vendor is None:
            vendor = self._sent[key] = VendorBatch(self, api, key, since=place.at)
        vendor.id = vendor.id or place.batch_id
        return vendor

    def _forget_done(self) -> None:
        self._sent = {key: vendor for key, vendor in self._sent.items() if not vendor.is_done}


class BatchMember:
    """A run of a batch."""

    def __init__(self, batch: RequestBatch, run_id: str) -> None:
        self.batch = batch
        self._run_id = run_id
        self._record: RecordPlace
        """Set by `begin`."""
        self._place: BatchPlace | None = None
        self._left: tuple[VendorBatch, str] | None = None
        """Request that the run no longer waits for, though it has no result."""

    def enter(self) -> None:
        self.batch.busy.add(self._run_id)

    def begin(self, record: RecordPlace, place: BatchPlace | None) -> None:
        """Take part with the function that stores the places of the run's requests. `place`: that
        of the request which an earlier driver waited for.
        """
        self._record, self._place = record, place

    async def ask(self, group: GroupKey, api: BatchApi, fields: Fields) -> BatchAnswer:
        """Return the response to a request. Raises the AgentError of a request that has none."""
        place, self._place = self._place, None
        try:
            if place is not None:
                vendor = self.batch.sent(place, api)
                answer = await self._answer(vendor, place.custom_id, place.batch_id)
                if answer is not None:
                    return answer
            size_bytes = len(api.encoded("", fields))
            answer = None
            while answer is None:
                vendor = self.batch.gathering(group, api, size_bytes)
                custom_id = vendor.reserve(size_bytes)
                try:
                    await self._record(custom_id, "")
                    vendor.join(custom_id, api.encoded(custom_id, fields))
                finally:
                    vendor.release(custom_id)
                answer = await self._answer(vendor, custom_id, "")
            return answer
        finally:
            self.enter()

    async def _answer(
        self, vendor: VendorBatch, custom_id: str, batch_id: str
    ) -> BatchAnswer | None:
        """Wait for a result. None if the provider has never accepted the request."""
        self._left = vendor, custom_id
        self.batch.rest(self._run_id)
        if not await vendor.accepted(custom_id):
            self._left = None
            return None
        if not batch_id:
            await self._record(custom_id, vendor.id)
        outcome = await vendor.outcome(custom_id)
        self._left = None
        if isinstance(outcome, BatchAnswer):
            return outcome
        raise outcome

    async def leave(self, *, cancels: bool) -> None:
        """Note the end of the run. `cancels`: it will not be resumed. Then its request is given up;
        the provider's batch is cancelled with the last of its requests.
        """
        self.batch.rest(self._run_id)
        left, self._left = self._left, None
        if left is not None and cancels:
            with anyio.move_on_after(CANCEL_WITHIN_S, shield=True):
                await left[0].give_up(left[1])
