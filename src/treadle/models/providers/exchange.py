"""A single request to a provider: bytes are sent, and the decoded response is returned as deltas.

Wires encode the bytes, and the connection handles keep-alive and TLS. Nothing is retried here.
Entry point: `exchanged`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import msgspec

from treadle.errors import AgentError
from treadle.messages.response_details import NO_DETAILS, tier_of
from treadle.models.model import Delta, ResponseEnd
from treadle.models.providers.connection import (
    BODY_BYTES_MAX,
    Connection,
    HttpReply,
    read_beginning,
    read_whole,
)
from treadle.models.providers.decoding import Decoder
from treadle.models.providers.rate_limits import rate_limits
from treadle.models.providers.refusals import Refusals

GOOD = frozenset({200, 201, 203})
"""Statuses of a successful response. 201 and 203 come from gateways that rebuild responses."""

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""Maximum size of a streamed response, in bytes. It exceeds the longest responses with images, and
bounds the memory that a server can use.
"""
BLANKS_MAX = 64 * 1024
"""Maximum number of blank bytes before a response."""
GEMINI_TIER = "x-gemini-service-tier"
_EVENT_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_BLANK = b" \t\r\n\xef\xbb\xbf"


async def exchanged(
    connection: Connection,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    decoder: Decoder,
    refusals: Refusals,
) -> AsyncGenerator[Delta, None]:
    """Yield deltas, then the end of the response. Raises AgentError. Closing the generator closes
    the exchange.
    """
    async with connection.post(path, body, headers) as reply:
        if is_refused(reply):
            raise await refused(reply, refusals)
        try:
            chunk = await _beginning(reply)
            document = _is_document(chunk, reply, refusals)
            left = RESPONSE_BYTES_MAX - len(chunk)
            while decoder.end is None:
                if document:
                    deltas = decoder.take_body(
                        chunk + await read_whole(reply, BODY_BYTES_MAX - len(chunk))
                    )
                elif chunk:
                    deltas = decoder.feed(chunk)
                    if decoder.heard:
                        reply.heard()
                else:
                    deltas = decoder.finish()
                for delta in deltas:
                    yield delta
                if decoder.failure is not None:
                    raise decoder.failure
                if decoder.end is None:
                    chunk = await reply.read()
                    if (left := left - len(chunk)) < 0:
                        raise _endless()
        except AgentError as error:
            # the provider has processed the request, so its id can be quoted to the provider's
            # support
            error.status = reply.status
            error.request_id = error.request_id or reply.headers.get(refusals.request_id)
            raise
        end = _with_headers(decoder.end, reply, refusals.request_id)
    yield end


def _with_headers(end: ResponseEnd, reply: HttpReply, request_id: str) -> ResponseEnd:
    """Add the details that only the headers contain."""
    header = reply.headers.get
    found, limits, tier = header(request_id), rate_limits(header), tier_of(header(GEMINI_TIER))
    if found is None and not limits and tier is None:
        return end
    told = end.details or NO_DETAILS
    details = msgspec.structs.replace(
        told, request_id=found, rate_limits=limits, service_tier=told.service_tier or tier
    )
    return msgspec.structs.replace(end, details=details)


def is_refused(reply: HttpReply) -> bool:
    """Return True if status or content type show that this is not a model response."""
    return reply.status not in GOOD or "html" in (reply.headers.get("content-type") or "")


async def _beginning(reply: HttpReply) -> bytes:
    """Return the first bytes that contain more than whitespace, or b"" if there are none."""
    begun = b""
    while chunk := await reply.read():
        begun += chunk
        if begun.strip(_BLANK):
            break
        if len(begun) > BLANKS_MAX:
            raise _endless()
    return begun


def _endless() -> AgentError:
    return AgentError(
        "network",
        f"the response has more than {RESPONSE_BYTES_MAX >> 20} MiB, or begins with too many "
        "blanks: check the server at base_url",
        should_retry=False,
    )


def _is_document(begun: bytes, reply: HttpReply, refusals: Refusals) -> bool:
    """Return True if the response begins like a JSON document; the content type is not reliable.

    Raises AgentError(invalid) for an HTML page.
    """
    content_type = reply.headers.get("content-type") or ""
    start = begun.strip(_BLANK)
    if start.startswith(b"<"):
        raise refusals.of_page(content_type)
    return start.startswith((b"{", b"[")) or (
        "json" in content_type and not start.startswith(_EVENT_STARTS)
    )


async def refused(reply: HttpReply, refusals: Refusals) -> AgentError:
    """Return the error for a failed response."""
    if reply.status not in GOOD:
        return refusals.of_answer(reply.status, reply.headers.get, await read_beginning(reply))
    return refusals.of_page(reply.headers.get("content-type") or "")
