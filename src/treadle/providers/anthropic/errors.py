"""What a Messages API says when it does not answer, in our error family: by status, and by the type in the body.

Broken connections are told by the connection, retries are retry.py's. Entry: `refusal`, `reported`.
Source: SPEC B5; https://platform.claude.com/docs/en/api/errors (2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from treadle.errors import AgentError, ErrorKind
from treadle.providers.connection import retry_after_s

QUOTE_MAX = 1000
"""Characters of the provider's own words that go into a message."""

_OVERFLOW = re.compile(r"prompt is too long|input is too long|context (?:limit|window|length)", re.IGNORECASE)
_TAGS = re.compile(r"(?is)<(script|style)\b.*?</\1>|<[^>]*>")
_TITLE = re.compile(r"(?is)<title[^>]*>(.*?)</title>")

_KINDS = {
    "rate_limit_error": ErrorKind.RATE_LIMIT,
    "overloaded_error": ErrorKind.RATE_LIMIT,
    "throttlingException": ErrorKind.RATE_LIMIT,  # Bedrock's names for the same
    "authentication_error": ErrorKind.AUTH,
    "permission_error": ErrorKind.AUTH,
    "invalid_request_error": ErrorKind.INVALID,
    "not_found_error": ErrorKind.INVALID,
    "billing_error": ErrorKind.INVALID,
    "conflict_error": ErrorKind.INVALID,
    "validationException": ErrorKind.INVALID,
    "request_too_large": ErrorKind.CONTEXT_OVERFLOW,
}


class _Said(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Said = _Said()
    request_id: str | None = None


_error_body = msgspec.json.Decoder(_ErrorBody, strict=False)


def refusal(status: int, header: Callable[[str], str | None], body: bytes, credential: str) -> AgentError:
    """For any answer but 200. `credential` says where the key came from, for the message of an auth error."""
    request_id = header("request-id")
    if 300 <= status < 400:
        target = _printable(header("location") or "nowhere")
        text = (
            f"the server answered {status} and points to {target!r}; no redirect is followed, since the key would go there too: set base_url to the right place"
        )
        return AgentError("invalid", text, status=status, request_id=request_id)
    said, request_id_said = _read(body)
    kind = _kind_of_status(status, said)
    words = _printable(said.message) or _page_words(body) or _phrase(status)
    text = f"the provider refused the request ({' '.join(filter(None, (str(status), said.type)))}): {words}{_next_step(kind, status, words, credential)}"
    return AgentError(kind, text, status=status, request_id=request_id or request_id_said, retry_after_s=retry_after_s(header))


def reported(event: bytes, credential: str) -> AgentError:
    """For an `error` event inside an answer that had begun well: its type is all there is to go by."""
    said, request_id = _read(event)
    kind = _KINDS.get(said.type, ErrorKind.NETWORK)
    if kind is ErrorKind.INVALID and _OVERFLOW.search(said.message):
        kind = ErrorKind.CONTEXT_OVERFLOW
    words = _printable(said.message) or "it gave no reason"
    text = f"the provider broke its answer off ({said.type or 'error'}): {words}{_next_step(kind, 200, words, credential)}"
    return AgentError(kind, text, status=200, request_id=request_id)


def _read(body: bytes) -> tuple[_Said, str | None]:
    try:
        read = _error_body.decode(body)
    except (ValueError, RecursionError):
        return _Said(), None
    return read.error, read.request_id


def _kind_of_status(status: int, said: _Said) -> ErrorKind:
    if _KINDS.get(said.type) is ErrorKind.RATE_LIMIT or status in (429, 529):
        return ErrorKind.RATE_LIMIT
    if status in (401, 403):
        return ErrorKind.AUTH
    if status == 413 or (status < 500 and _OVERFLOW.search(said.message)):
        return ErrorKind.CONTEXT_OVERFLOW
    return ErrorKind.NETWORK if status >= 500 else ErrorKind.INVALID


def _next_step(kind: ErrorKind, status: int, words: str, credential: str) -> str:
    if kind is ErrorKind.AUTH:
        return f". Check {credential}"
    if status == 404:
        return ". Check the model's name, and base_url where one is set"
    return ""


def _page_words(body: bytes) -> str:
    """The gist of a body that is no API error, such as the page of a proxy."""
    page = body.decode("utf-8", "replace")
    if title := _TITLE.search(page):
        page = title[1]
    words = _printable(" ".join(_TAGS.sub(" ", page).split()), 200)
    return f"not an API error, but a page that says {words!r}" if words else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "it gave no reason"


def _printable(text: str, length_max: int = QUOTE_MAX) -> str:
    """A server's words may end on somebody's terminal."""
    return "".join(c if c.isprintable() else " " for c in text[:length_max]).strip()
