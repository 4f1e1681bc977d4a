"""The only exception class for callers. Limits and refusals are outcomes, and a tool's failure is a
result.

Entry: `AgentError`; branch on `.kind`.

    AgentError(kind)
      agent            any other failure: of the journal, a hook, a script
      tool             a tool could not be set up
      timeout          while connecting or waiting for the next byte; 408            retried
      rate_limit       429, 529, an overload reported in a 200                       retried
      network          another 5xx, 409, 425, no connection, an interrupted stream   retried
      invalid          to correct first: an argument, a setting, a request (another 4xx)
      auth             401, 403, no key
      cancelled        cancelled by the caller
      limit            a limit cannot be enforced
      context_overflow the request is larger than the model's window
      busy             another run holds this session or this run
"""

from __future__ import annotations

from enum import StrEnum
from typing import Never


class ErrorKind(StrEnum):
    """Category of an error: what failed, and whether another attempt can help.

    Attributes:
        AGENT: Any other failure, usually of the environment or of your own code: the journal cannot
            be used, a hook failed, a script has no further entries.
        TOOL: A tool failed in a way that ends the run.
        TIMEOUT: A time limit was reached.
        RATE_LIMIT: The provider wants fewer requests.
        NETWORK: The provider could not be reached, or it failed.
        INVALID: An argument, a setting or a request that you have to correct before you try again.
        AUTH: The provider rejected the key, or there is none.
        CANCELLED: The run was cancelled.
        LIMIT: A limit of the run was reached.
        CONTEXT_OVERFLOW: The conversation is too long for the model.
        BUSY: The session or the run is in use. Try again when that has ended.
    """

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

    @classmethod
    def _missing_(cls, value: object) -> Never:
        raise ValueError(f"{value!r} is not a kind of error: use one of {', '.join(cls)}")


RETRYABLE = frozenset({ErrorKind.RATE_LIMIT, ErrorKind.NETWORK, ErrorKind.TIMEOUT})


class AgentError(Exception):
    """An error that a user can act on. Its text never contains a secret.

    Attributes:
        kind: Category of the error, which decides about retries and exit codes.
        status: HTTP status of the provider's response, or None.
        request_id: The provider's id of the request, or None.
        retry_after_s: Seconds to wait before another attempt, as the provider requests, or None.
        sent: False if the provider certainly never received the request, so that it costs nothing.
        should_retry: The provider's own advice on another attempt, or None.
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
        self._message = message
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.sent = sent
        self.should_retry = should_retry

    @property
    def message(self) -> str:
        """Description for the user: what happened, to what, and what to do next."""
        return self._message

    @message.setter
    def message(self, message: str) -> None:
        self._message = message

    @property
    def retryable(self) -> bool:
        """True if another attempt may succeed: rate_limit, network, timeout, unless the provider
        states otherwise.
        """
        return self.kind in RETRYABLE if self.should_retry is None else self.should_retry

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"AgentError({self.kind.value!r}, {self.message!r})"


def out_of_memory(done: str) -> AgentError:
    """Return the error for a process without memory. `done`: the known state of the failed
    operation.
    """
    return AgentError(
        "agent",
        f"the process is out of memory: {done}. Free some, or raise its limit (`ulimit -v`, the "
        "container's memory), then resume",
    )
