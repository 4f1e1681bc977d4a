"""OpenAI's Batch API, and Groq's, which is the same. Entry point: `OpenAIBatches`.

Source: platform.openai.com, guide "Batch API" and the reference of batches and files;
console.groq.com, "Batch Processing"; read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from treadle.errors import AgentError
from treadle.models.providers.batching.api import (
    LISTED_MOST,
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

PATHS: Final = ("/responses", "/chat/completions")
"""Paths of requests that a batch takes. The base URL ends with `/v1`."""
_KEY: Final = "treadle"
"""Name of our key among the metadata of a batch."""
_FORM: Final = (
    '--{key}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    '--{key}\r\ncontent-disposition: form-data; name="file"; filename="{key}.jsonl"\r\n'
    "content-type: application/jsonl\r\n\r\n"
)


class OpenAIBatches:
    """Batches of Responses or Chat Completions requests."""

    requests_max = 50_000
    bytes_max = 200_000_000

    def __init__(self, calls: ApiCalls, path: str) -> None:
        self._calls, self._url = calls, f"/v1{path}"

    def encoded(self, custom_id: str, fields: Fields) -> bytes:
        request = {"custom_id": custom_id, "method": "POST", "url": self._url, "body": fields}
        return dumped(request)

    async def create(self, key: str, requests: Sequence[bytes]) -> str:
        form = b"".join(
            [_FORM.format(key=key).encode(), b"\n".join(requests), f"\r\n--{key}--\r\n".encode()]
        )
        headers = {"content-type": f"multipart/form-data; boundary={key}"}
        file = await self._calls.document("/files", _File, form, headers)
        body = {
            "input_file_id": file.id,
            "endpoint": self._url,
            "completion_window": "24h",
            "metadata": {_KEY: key},
        }
        once = {ONLY_ONCE: key}
        return (await self._calls.document("/batches", _Batch, dumped(body), once)).id

    async def look(self, batch_id: str) -> BatchStatus:
        return _status(await self._calls.document(f"/batches/{batch_id}", _Batch))

    async def results(self, status: BatchStatus) -> AsyncGenerator[tuple[str, BatchOutcome], None]:
        for file_id in status.places:
            async for line in self._calls.lines(f"/files/{file_id}/content"):
                item = read_line(line, _Item)
                yield item.custom_id, _outcome(item, status.id)

    async def recent(self) -> AsyncGenerator[BatchStatus, None]:
        after = ""
        for _ in range(LISTED_MOST):
            page = await self._calls.document(f"/batches?limit=100{after}", _Page)
            for batch in page.data:
                yield _status(batch)
            if not page.has_more or not page.data:
                return
            after = f"&after={page.data[-1].id}"

    async def cancel(self, batch_id: str) -> None:
        await self._calls.document(f"/batches/{batch_id}/cancel", _Batch, b"")


class _File(msgspec.Struct):
    id: str


class _Counts(msgspec.Struct):
    total: int = 0


class _Problem(msgspec.Struct):
    message: str | None = None
    code: str | None = None


class _Problems(msgspec.Struct):
    data: list[_Problem] = []


class _Batch(msgspec.Struct):
    id: str
    status: str = ""
    created_at: int | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: _Counts | None = None
    metadata: dict[str, str] | None = None
    errors: _Problems | None = None


class _Page(msgspec.Struct):
    data: list[_Batch] = []
    has_more: bool = False


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Item(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: _Problem | None = None


def _status(batch: _Batch) -> BatchStatus:
    problem = None
    if batch.status == "failed":
        said = batch.errors.data[0].message if batch.errors and batch.errors.data else None
        problem = AgentError(
            "invalid",
            f"the provider rejected batch {batch.id}: {said or 'no reason given'}",
            status=200,
            should_retry=False,
        )
    elif batch.status == "expired":
        problem = expired(batch.id)
    elif batch.status == "cancelled":
        problem = cancelled(batch.id)
    return BatchStatus(
        id=batch.id,
        is_over=batch.status in ("completed", "failed", "expired", "cancelled"),
        # it is 0 while the file is being validated
        total=(batch.request_counts.total or None) if batch.request_counts else None,
        key=(batch.metadata or {}).get(_KEY, ""),
        at=None if batch.created_at is None else datetime.fromtimestamp(batch.created_at, UTC),
        problem=problem,
        places=tuple(file for file in (batch.output_file_id, batch.error_file_id) if file),
    )


def _outcome(item: _Item, batch_id: str) -> BatchOutcome:
    if item.response is not None:
        return BatchAnswer(item.response.status_code, bytes(item.response.body))
    code, said = "", ""
    if item.error is not None:
        code, said = item.error.code or "", item.error.message or ""
    if code == "batch_expired":
        return expired(batch_id)
    if code in ("batch_cancelled", "batch_canceled"):
        return cancelled(batch_id)
    if not said:
        return without_result(batch_id)
    text = f"the provider did not process the request of batch {batch_id} ({code}): {said}"
    return AgentError("network", text, status=200)
