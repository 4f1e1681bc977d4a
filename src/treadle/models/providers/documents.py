"""Requests to a provider that are answered with one JSON document. Entry point: `asked_once`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from treadle._internal.json_text import met
from treadle.errors import AgentError
from treadle.models.providers.connection import Connection, read_whole
from treadle.models.providers.exchange import is_refused, refused
from treadle.models.providers.refusals import Refusals

T = TypeVar("T")


async def asked_once(
    connection: Connection,
    path: str,
    body: bytes | None,
    *,
    headers: Mapping[str, str],
    refusals: Refusals,
    kind: type[T],
) -> T:
    """Send a request for a single JSON document and decode it as `kind`. Without a `body`, it is a
    GET.

    Raises AgentError.
    """
    async with (
        connection.get(path, headers)
        if body is None
        else connection.post(path, body, headers) as reply
    ):
        if is_refused(reply):
            raise await refused(reply, refusals)
        answer = await read_whole(reply)
    try:
        return msgspec.json.decode(answer, type=met(kind), strict=False)
    except (ValueError, RecursionError) as e:
        raise AgentError("network", f"the provider's answer cannot be read: {e}", status=200) from e
