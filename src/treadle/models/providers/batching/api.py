"""Contract of a provider's batch API, and what all of them share.

vendor_batch.py decides when to call it. Entry points: `BatchApi`, `ApiCalls`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from treadle.errors import AgentError
from treadle.models.providers.connection import BODY_BYTES_MAX, Connection
from treadle.models.providers.documents import asked_once
from treadle.models.providers.encoding import Fields
from treadle.models.providers.exchange import is_refused, refused
from treadle.models.providers.refusals import Refusals

T = TypeVar("T")

LISTED_MOST: Final = 10
"""Pages of a list of batches that are read, of 100 batches each."""


NOTHING: Final = msgspec.Raw()
"""A missing part of a document."""


class BatchAnswer(NamedTuple):
    """Response to one request of a batch."""

    status: int
    body: bytes


BatchOutcome: TypeAlias = BatchAnswer | AgentError
"""Outcome of one request: a response, or the error of a request that has none."""


class BatchStatus(NamedTuple):
    """State of a batch at the provider."""

    id: str
    is_over: bool
    """True if no further result will come."""
    total: int | None = None
    """Number of its requests; None if unknown."""
    key: str | None = None
    """Our key; empty for a batch that is not ours, None if the provider keeps no key."""
    at: datetime | None = None
    """Time of its creation."""
    problem: AgentError | None = None
    """Error of the requests without a result."""
    places: tuple[str | bytes, ...] = ()
    """Where the results are, for the API's own `results`."""


class BatchApi(Protocol):
    """A provider's batch API for requests of one kind. Raises AgentError; retries nothing."""

    @property
    def requests_max(self) -> int: ...

    @property
    def bytes_max(self) -> int: ...

    def encoded(self, custom_id: str, fields: Fields) -> bytes:
        """Return a request as a part of a batch."""
        ...

    async def create(self, key: str, requests: Sequence[bytes]) -> str:
        """Submit a batch and return its id. `key`: our key, the beginning of all its custom ids."""
        ...

    async def look(self, batch_id: str) -> BatchStatus: ...

    def results(self, status: BatchStatus) -> AsyncGenerator[tuple[str, BatchOutcome], None]:
        """Yield the results of a batch that is over, by custom id."""
        ...

    def recent(self) -> AsyncGenerator[BatchStatus, None]:
        """Yield the batches of the account, the newest first."""
        ...

    async def cancel(self, batch_id: str) -> None: ...


class ApiCalls:
    """Requests to a batch API, with the headers of the model requests that it contains."""

    def __init__(
        self, connection: Connection, refusals: Refusals, headers: Mapping[str, str]
    ) -> None:
        self._connection, self._refusals, self._headers = connection, refusals, headers

    async def document(
        self,
        path: str,
        kind: type[T],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request whose response is one JSON document. Without a `body`, it is a GET."""
        return await asked_once(
            self._connection,
            path,
            body,
            headers={**self._headers, **(headers or {})},
            refusals=self._refusals,
            kind=kind,
        )

    async def lines(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a file as they arrive."""
        async with self._connection.get(path, self._headers) as reply:
            if is_refused(reply):
                raise await refused(reply, self._refusals)
            rest = b""
            while chunk := await reply.read():
                reply.heard()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield line
                if len(rest) > BODY_BYTES_MAX:
                    raise AgentError("network", "a result of the batch is too large")
            if rest.strip():
                yield rest


def read_line(line: bytes, kind: type[T]) -> T:
    """Decode a line of a result file. Raises AgentError(network)."""
    try:
        return msgspec.json.decode(line, type=kind)
    except (ValueError, RecursionError) as e:
        raise AgentError(
            "network", f"a result of the batch cannot be read: {e}", should_retry=False
        ) from e


def expired(batch_id: str) -> AgentError:
    return AgentError(
        "timeout",
        f"batch {batch_id} of the provider expired before this request was processed, so it cost "
        "nothing: send its prompt again with Runtime.run, or in a batch with another batch_id",
        status=200,
        should_retry=False,
    )


def cancelled(batch_id: str) -> AgentError:
    return AgentError(
        "cancelled",
        f"batch {batch_id} was cancelled at the provider before this request was processed, so it "
        "cost nothing: send its prompt again with Runtime.run, or in a batch with another batch_id",
        status=200,
        should_retry=False,
    )


def without_result(batch_id: str) -> AgentError:
    return AgentError(
        "network",
        f"batch {batch_id} of the provider is over and has no result for this request: look it up "
        "in the provider's console before sending its prompt again",
        should_retry=False,
    )
