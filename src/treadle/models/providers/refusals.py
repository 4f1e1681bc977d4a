"""Error responses of servers as `AgentError`s, classified by status and by the error in the body.

Providers, gateways and local servers mix each other's formats, so a single reader handles all.
Connections report network errors; retry.py retries. Entry points: `Refusals`. Source: the error
pages of the providers' documentation, and responses of vLLM, llama.cpp, Ollama and OpenRouter
(2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

from treadle.errors import AgentError, ErrorKind
from treadle.models.providers.connection import retry_after_s
from treadle.models.providers.error_bodies import ErrorBody, read_error

QUOTE_MAX = 1000
"""Maximum characters of a provider's text quoted in a message."""

_OVERFLOW = re.compile(
    r"(?:prompt|input|request) (?:is )?too (?:long|large)|context "
    r"(?:limit|window|length|size)|context_length_exceeded"
    r"|input token count .{0,40}exceeds|maximum number of tokens allowed|too many (?:input )?tokens"
    r"|maximum prompt length|model token limit|reduce the length of the "
    r"(?:messages|prompt|input)|tokens \+ .max_new_tokens. must be",
    re.IGNORECASE,
)
_ASKED_TOO_MUCH = (
    re.compile(r"too large: (?P<asked>\d+)\b.{0,60}maximum context length is (?P<most>\d+)"),
    re.compile(
        r"maximum context length is (?P<most>\d+)\b.{0,120}\b(?P<asked>\d+) in the completion"
    ),
)
"""vLLM errors that the requested output alone causes, so that a shorter prompt does not help."""
_OVERLOAD = re.compile(r"overloaded|over capacity", re.IGNORECASE)
_TAGS = re.compile(r"(?is)<(script|style)\b.*?</\1>|<[^>]*>")
_TITLE = re.compile(r"(?is)<title[^>]*>(.*?)</title>")

_KINDS = {
    **dict.fromkeys(
        (
            "rate_limit_error",
            "overloaded_error",
            "throttlingException",  # Bedrock
            "rate_limit_exceeded",
            "rate_limit_reached",
            "insufficient_quota",
            "slow_down",
            "engine_overloaded",
            "server_is_overloaded",
            "RESOURCE_EXHAUSTED",
        ),
        ErrorKind.RATE_LIMIT,
    ),
    **dict.fromkeys(
        (
            "authentication_error",
            "permission_error",
            "invalid_api_key",
            "UNAUTHENTICATED",
            "PERMISSION_DENIED",
            "API_KEY_INVALID",
        ),
        ErrorKind.AUTH,
    ),
    **dict.fromkeys(
        (
            "billing_error",
            "conflict_error",
            "invalid_request_error",
            "model_not_found",
            "not_found_error",
            "validationException",  # Bedrock
            "invalid_prompt",
            "data_residency_mismatch",
            *(
                "invalid_image",
                "invalid_image_format",
                "invalid_image_mode",
                "invalid_image_url",
                "invalid_base64_image",
                "unsupported_image_media_type",
            ),
            *(
                "image_too_large",
                "image_too_small",
                "image_file_too_large",
                "empty_image_file",
                "image_parse_error",
            ),
            *("failed_to_download_image", "image_file_not_found"),
            "invalid_value",
            "FAILED_PRECONDITION",
            "INVALID_ARGUMENT",
            "NOT_FOUND",
        ),
        ErrorKind.INVALID,
    ),
    # Groq: the model produced a malformed call, and a retry may succeed
    "tool_use_failed": ErrorKind.NETWORK,
    **dict.fromkeys(
        ("request_too_large", "context_length_exceeded", "exceed_context_size_error"),
        ErrorKind.CONTEXT_OVERFLOW,
    ),
}


class Refusals:
    """Factory of errors for one provider."""

    def __init__(self, credential: str, *, request_id: str = "x-request-id") -> None:
        """Create a classifier of refusals. `credential`: origin of the key, for auth errors.
        `request_id`: name of the header with the request id.
        """
        self._credential = credential
        self.request_id = request_id

    def of_answer(
        self, status: int, header: Callable[[str], str | None], body: bytes
    ) -> AgentError:
        """Return the error for an unsuccessful status."""
        request_id = header(self.request_id)
        if 300 <= status < 400:
            target = _printable(header("location") or "nowhere")
            text = (
                f"the server answered {status} and points to {target!r}; redirects are not "
                "followed, since the key would be sent there too: set base_url to the right address"
            )
            return AgentError("invalid", text, status=status, request_id=request_id)
        said = read_error(body)
        kind = _kind(status, said)
        page = "" if said.message else _page_words(body)
        words = _printable(said.message) or page or _phrase(status)
        name = _printable(said.words[0]) if said.words else ""
        text = (
            f"the provider refused the request ({' '.join(filter(None, (str(status), name)))}): "
            f"{words}{self._next_step(kind, status, is_page=bool(page))}"
        )
        wait_s = retry_after_s(header)
        wait_s = said.retry_after_s if wait_s is None else wait_s
        again = _YES_OR_NO.get(header("x-should-retry") or "")
        return AgentError(
            kind,
            text,
            status=status,
            request_id=request_id or said.request_id,
            retry_after_s=wait_s,
            should_retry=again,
        )

    def of_page(self, content_type: str) -> AgentError:
        """Return the error for a successful status with a page instead of an API response."""
        return AgentError(
            "invalid",
            (
                f"the server answered with a page ({content_type!r}) instead of a response: check "
                "base_url"
            ),
            status=200,
        )

    def in_stream(self, event: bytes) -> AgentError:
        """Return the error for an error event within a response. Only its text is available."""
        said = read_error(event)
        kind = _kind(said.status or 200, said)
        words = _printable(said.message) or "no reason given"
        name = _printable(said.words[0]) if said.words else "error"
        text = f"the provider aborted its response ({name}): {words}{self._next_step(kind, 200)}"
        return AgentError(
            kind, text, status=200, request_id=said.request_id, retry_after_s=said.retry_after_s
        )

    def _next_step(self, kind: ErrorKind, status: int, *, is_page: bool = False) -> str:
        if status == 407:
            return (
                ". A proxy answered: set HTTP_PROXY to http://USER:PASSWORD@HOST:PORT, or add the "
                "host to NO_PROXY"
            )
        if kind is ErrorKind.AUTH:
            proxy = ", and HTTP_PROXY if one is set: a proxy may have answered"
            return f". Check {self._credential}{proxy if is_page else ''}"
        if status == 404:
            return ". Check the model's name, and base_url where one is set"
        if status == 405:
            return ". Check base_url: the server there does not accept such requests"
        return ""


_YES_OR_NO = {"true": True, "false": False}
"""Values of `x-should-retry`, which takes precedence over every other rule, as in the SDKs
anthropic 2.12 and openai 3.54.
"""
_PASSING = {408: ErrorKind.TIMEOUT, 409: ErrorKind.NETWORK, 425: ErrorKind.NETWORK}
"""Statuses below 500 that another attempt may avoid: a request timeout, a lock at the provider, a
request sent too early (the same SDKs; RFC 8470).
"""


def _kind(status: int, said: ErrorBody) -> ErrorKind:
    named = next((kind for word in said.words if (kind := _KINDS.get(word))), None)
    overflow = _OVERFLOW.search(said.message) is not None and not _asks_too_much(said.message)
    if named is ErrorKind.RATE_LIMIT or status in (429, 529):
        return ErrorKind.RATE_LIMIT
    if status in (401, 403) or named is ErrorKind.AUTH:
        return ErrorKind.AUTH
    if (
        status == 413
        or named is ErrorKind.CONTEXT_OVERFLOW
        or (overflow and status < 500 and (status != 200 or named is ErrorKind.INVALID))
    ):
        return ErrorKind.CONTEXT_OVERFLOW
    if status >= 500 or (status == 200 and named in (None, ErrorKind.NETWORK)):
        return ErrorKind.RATE_LIMIT if _OVERLOAD.search(said.message) else ErrorKind.NETWORK
    return _PASSING.get(status, ErrorKind.INVALID)


def _asks_too_much(message: str) -> bool:
    return any(
        int(found["asked"]) >= int(found["most"])
        for pattern in _ASKED_TOO_MUCH
        if (found := pattern.search(message))
    )


def _page_words(body: bytes) -> str:
    """Summarize a body that is not an API error, such as a proxy's error page."""
    page = body.decode("utf-8", "replace")
    if title := _TITLE.search(page):
        page = title[1]
    words = _printable(" ".join(_TAGS.sub(" ", page).split()), 200)
    return f"not an API error, but a page that says {words!r}" if words else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def _printable(text: str, length_max: int = QUOTE_MAX) -> str:
    """Replace unprintable characters, because the text may be shown in a terminal."""
    return "".join(c if c.isprintable() else " " for c in text[:length_max]).strip()
