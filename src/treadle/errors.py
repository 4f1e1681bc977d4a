"""The one error family a caller meets, and nothing else: limits and refusals are outcomes, a tool's
failure is a result.

Entry: `AgentError`; decide by `.kind` alone.

    AgentError(kind)
      agent            the model, or a used-up script, went wrong on its own side
      tool             a tool could not even be set up
      timeout          connecting, or waiting for the next byte, took too long; 408   retried
      rate_limit       429, 529, an overload told inside a 200                        retried
      network          another 5xx, 409, 425, no connection, a lost one, a cut stream retried
      invalid          another 4xx, or wrong use of this library
      auth             401, 403, no key
      cancelled        somebody asked to stop
      limit            a limit cannot be honoured at all
      context_overflow the request is larger than the model's window
      busy             another run holds this session or this run
"""

from __future__ import annotations

from enum import StrEnum


class ErrorKind(StrEnum):
    AGENT = "agent"
    TOOL = "tool"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    NETWORK = "network"
    INVALID = "invalid"
    AUTH = "auth"
    CANCELLED = "cancelled"
    LIMIT = "limit"
    CONTEXT_OVERFLOW = "context_overflow"
    BUSY = "busy"


RETRYABLE = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.NETWORK, ErrorKind.TIMEOUT})


class AgentError(Exception):
    """What went wrong, to what, and what to do next; never a secret in the text.

    `status`, `request_id` and `retry_after_s` are the provider's own words where it said them, else
    None. `should_retry` is its word on another attempt, None where it said none. `sent` is False
    where the provider surely never had the request, so that it costs nothing.
    """

    def __init__(
        self,
        kind: ErrorKind | str,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        sent: bool = True,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(kind, message)
        self.kind = ErrorKind(kind)
        self.message = message
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.sent = sent
        self.should_retry = should_retry

    @property
    def retryable(self) -> bool:
        """True where asking again may help: rate_limit, network, timeout, unless the provider says
        otherwise.
        """
        return self.kind in RETRYABLE if self.should_retry is None else self.should_retry

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"AgentError({self.kind.value!r}, {self.message!r})"
