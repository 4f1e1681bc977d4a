"""One question to a provider: bytes go out, and what a wire's decoder makes of the answer comes back as deltas.

The bytes are the wire's, keep-alive and TLS the connection's; nothing is asked twice here. Entry: `exchanged`, `asked_once`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TypeVar

import msgspec

from treadle.errors import AgentError
from treadle.json_text import met
from treadle.model import Delta
from treadle.providers.connection import Connection, Reply, read_beginning, read_whole
from treadle.providers.decoding import Decoder
from treadle.providers.refusals import Refusals

T = TypeVar("T")


async def exchanged(
    connection: Connection, path: str, body: bytes, headers: Mapping[str, str], *, decoder: Decoder, refusals: Refusals
) -> AsyncGenerator[Delta, None]:
    """Deltas, then the answer's end. Raises AgentError; closing the generator closes the exchange."""
    async with connection.post(path, body, headers) as reply:
        content_type = reply.header("content-type") or ""
        if reply.status != 200 or "html" in content_type:
            raise await refused(reply, refusals)
        try:
            while decoder.end is None:
                if "json" in content_type:
                    deltas = decoder.take_body(await read_whole(reply))
                elif chunk := await reply.read():
                    deltas = decoder.feed(chunk)
                    if decoder.heard:
                        reply.heard()
                else:
                    deltas = decoder.finish()
                for delta in deltas:
                    yield delta
                if decoder.failure is not None:
                    raise decoder.failure
        except AgentError as error:  # the provider has worked by now, and can be asked about it by its id
            error.status = reply.status
            error.request_id = error.request_id or reply.header(refusals.request_id)
            raise
    yield decoder.end


async def refused(reply: Reply, refusals: Refusals) -> AgentError:
    """Why this reply is none."""
    if reply.status != 200:
        return refusals.of_answer(reply.status, reply.header, await read_beginning(reply))
    return refusals.of_page(reply.header("content-type") or "")


async def asked_once(connection: Connection, path: str, body: bytes | None, *, headers: Mapping[str, str], refusals: Refusals, kind: type[T]) -> T:
    """An answer in one JSON document, read as `kind`; a GET where there is no `body`. Raises AgentError."""
    async with connection.get(path, headers) if body is None else connection.post(path, body, headers) as reply:
        if reply.status != 200 or "html" in (reply.header("content-type") or ""):
            raise await refused(reply, refusals)
        answer = await read_whole(reply)
    try:
        return msgspec.json.decode(answer, type=met(kind), strict=False)
    except (ValueError, RecursionError) as e:
        raise AgentError("network", f"the provider's answer cannot be read: {e}", status=200) from e
