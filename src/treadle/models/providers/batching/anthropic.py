"""Anthropic's Message Batches API. Entry point: `AnthropicBatches`.

Source: platform.claude.com, "Batch processing" and the reference of Message Batches (create,
retrieve, list, results, cancel); read 2026-11-29. A batch keeps no name of ours, so that a lost one
is recognised by the custom ids of its results.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from treadle.errors import AgentError
from treadle.models.providers.batching.api import (
    LISTED_MOST,
    NOTHING,
    ApiCalls,
    BatchAnswer,
    BatchOutcome,
    BatchStatus,
    cancelled,
    expired,
    read_line,
    without_result,
)
from treadle.models.providers.connection import ONLY_ONCE
from treadle.models.providers.encoding import Fields, dumped

_PATH: Final = "/v1/messages/batches"
_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Status that the Messages API sends with an error; 500 with any other."""


class AnthropicBatches:
    """Batches of Messages requests."""

    requests_max = 100_000
    bytes_max = 256_000_000

    def __init__(self, calls: ApiCalls) -> None:
        self._calls = calls

    def encoded(self, custom_id: str, fields: Fields) -> bytes:
        return dumped({"custom_id": custom_id, "params": fields})

    async def create(self, key: str, requests: Sequence[bytes]) -> str:
        body = b'{"requests":[' + b",".join(requests) + b"]}"
        return (await self._calls.document(_PATH, _Batch, body, {ONLY_ONCE: key})).id

    async def look(self, batch_id: str) -> BatchStatus:
        return _status(await self._calls.document(f"{_PATH}/{batch_id}", _Batch))

    async def results(self, status: BatchStatus) -> AsyncGenerator[tuple[str, BatchOutcome], None]:
        async for line in self._calls.lines(f"{_PATH}/{status.id}/results"):
            item = read_line(line, _Item)
            yield item.custom_id, _outcome(item.result, status.id)

    async def recent(self) -> AsyncGenerator[BatchStatus, None]:
        after = ""
        for _ in range(LISTED_MOST):
            page = await self._calls.document(f"{_PATH}?limit=100{after}", _Page)
            for batch in page.data:
                yield _status(batch)
            if not page.has_more or page.last_id is None:
                return
            after = f"&after_id={page.last_id}"

    async def cancel(self, batch_id: str) -> None:
        await self._calls.document(f"{_PATH}/{batch_id}/cancel", _Batch, b"")


class _Counts(msgspec.Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _Batch(msgspec.Struct):
    id: str
    processing_status: str = ""
    request_counts: _Counts = msgspec.field(default_factory=_Counts)
    created_at: datetime | None = None
    results_url: str | None = None
    archived_at: str | None = None


class _Page(msgspec.Struct):
    data: list[_Batch] = []
    has_more: bool = False
    last_id: str | None = None


class _Result(msgspec.Struct):
    type: str
    message: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class _Item(msgspec.Struct):
    custom_id: str
    result: _Result


def _status(batch: _Batch) -> BatchStatus:
    problem = None
    if batch.archived_at is not None:
        problem = AgentError(
            "invalid",
            f"the provider has deleted the results of batch {batch.id}, which it keeps for 29 days",
            should_retry=False,
        )
    return BatchStatus(
        id=batch.id,
        is_over=batch.processing_status == "ended",
        total=sum(msgspec.structs.astuple(batch.request_counts)),
        at=batch.created_at,
        problem=problem,
    )


class _Named(msgspec.Struct):
    type: str = ""


class _Error(msgspec.Struct):
    error: _Named = msgspec.field(default_factory=_Named)


def _error_status(error: msgspec.Raw) -> int:
    return _STATUSES.get(read_line(bytes(error), _Error).error.type, 500)


def _outcome(result: _Result, batch_id: str) -> BatchOutcome:
    match result.type:
        case "succeeded" if result.message:
            return BatchAnswer(200, bytes(result.message))
        case "errored" if result.error:
            return BatchAnswer(_error_status(result.error), bytes(result.error))
        case "expired":
            return expired(batch_id)
        case "canceled":
            return cancelled(batch_id)
        case _:
            return without_result(batch_id)
