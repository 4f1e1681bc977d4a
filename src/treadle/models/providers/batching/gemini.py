"""The Batch API of Gemini, with requests inside the batch. Entry point: `GeminiBatches`.

Source: ai.google.dev, "Batch API" and the reference of `models.batchGenerateContent` and
`batches`; read 2026-11-29. Files of requests, for batches of more than 20 MB, are not used: such
requests go out in several batches.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

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

STREAM: Final = ":streamGenerateContent?alt=sse"
"""Ending of the path of a request that a batch takes."""
_STATUSES: Final = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 14: 503, 16: 401}
"""HTTP status by code of google.rpc.Status; 500 for any other."""


class GeminiBatches:
    """Batches of requests to one model."""

    requests_max = 50_000
    bytes_max = 19_000_000

    def __init__(self, calls: ApiCalls, path: str) -> None:
        self._calls, self._model = calls, path.removesuffix(STREAM)

    def encoded(self, custom_id: str, fields: Fields) -> bytes:
        """Return the request. Raises AgentError(invalid) for the continuation of a long answer,
        which a resumed run could not tell from its beginning.
        """
        if "continuationToken" in fields:
            raise AgentError(
                "invalid",
                "the answer is longer than one response of a batch: set max_tokens to at most "
                "65536, or use Runtime.run",
            )
        return dumped({"request": fields, "metadata": {"key": custom_id}})

    async def create(self, key: str, requests: Sequence[bytes]) -> str:
        body = b'{"batch":{"displayName":"%b","inputConfig":{"requests":{"requests":[%b]}}}}' % (
            key.encode(),
            b",".join(requests),
        )
        path = f"{self._model}:batchGenerateContent"
        return (await self._calls.document(path, _Operation, body, {ONLY_ONCE: key})).name

    async def look(self, batch_id: str) -> BatchStatus:
        return _status(await self._calls.document(f"/{batch_id}", _Operation))

    async def results(self, status: BatchStatus) -> AsyncGenerator[tuple[str, BatchOutcome], None]:
        for place in status.places:
            assert isinstance(place, bytes), "the results themselves"
            for item in read_line(place, list[_Item]):
                if (key := item.metadata.key or item.key) is not None:
                    yield key, _outcome(item, status.id)

    async def recent(self) -> AsyncGenerator[BatchStatus, None]:
        after = ""
        for _ in range(LISTED_MOST):
            page = await self._calls.document(f"/batches?pageSize=100{after}", _Page)
            for operation in page.operations:
                yield _status(operation)
            if not page.next_page_token:
                return
            after = f"&pageToken={quote(page.next_page_token, safe='')}"

    async def cancel(self, batch_id: str) -> None:
        await self._calls.document(f"/{batch_id}:cancel", dict[str, object], b"{}")


class _Named(msgspec.Struct):
    key: str | None = None


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""
    status: str = ""


class _Item(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)
    key: str | None = None
    response: msgspec.Raw = NOTHING
    error: _Error | None = None


class _Inlined(msgspec.Struct, rename="camel"):
    inlined_responses: msgspec.Raw = msgspec.Raw(b"[]")


class _Response(msgspec.Struct, rename="camel"):
    inlined_responses: _Inlined | None = None


class _Stats(msgspec.Struct, rename="camel"):
    request_count: int = 0


class _Metadata(msgspec.Struct, rename="camel"):
    display_name: str = ""
    create_time: datetime | None = None
    state: str = ""
    batch_stats: _Stats | None = None


class _Operation(msgspec.Struct):
    name: str
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    done: bool = False
    response: _Response | None = None
    error: _Error | None = None


class _Page(msgspec.Struct, rename="camel"):
    operations: list[_Operation] = []
    next_page_token: str | None = None


def _status(operation: _Operation) -> BatchStatus:
    metadata, name = operation.metadata, operation.name
    state = metadata.state.rpartition("_STATE_")[2]
    problem = None
    if state == "EXPIRED":
        problem = expired(name)
    elif state == "CANCELLED":
        problem = cancelled(name)
    elif state == "FAILED" or operation.error is not None:
        said = operation.error.message if operation.error is not None else ""
        problem = AgentError(
            "invalid",
            f"the provider rejected batch {name}: {said or 'no reason given'}",
            status=200,
            should_retry=False,
        )
    response = operation.response
    inlined = None if response is None else response.inlined_responses
    return BatchStatus(
        id=name,
        is_over=operation.done or state in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"),
        total=(metadata.batch_stats.request_count or None) if metadata.batch_stats else None,
        key=metadata.display_name,
        at=metadata.create_time,
        problem=problem,
        places=() if inlined is None else (bytes(inlined.inlined_responses),),
    )


def _outcome(item: _Item, batch_id: str) -> BatchOutcome:
    if item.response:
        return BatchAnswer(200, bytes(item.response))
    if item.error is not None:
        body = msgspec.json.encode({"error": item.error})
        return BatchAnswer(_STATUSES.get(item.error.code, 500), body)
    return without_result(batch_id)
