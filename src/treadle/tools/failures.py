"""Outcomes that a tool reports for a call: failure, deferral, or the finding of its probe. Entry
points: `ToolFailed`, `ToolDeferred`, `ToolDone`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from msgspec import UNSET, UnsetType

LateStatus: TypeAlias = Literal["ok", "error"] | None


class ToolFailed(Exception):
    """Raised by a tool whose call failed. The message is for the model: what went wrong, and how to
    correct the call. It becomes an error result.

    `happened` states the effect of a `once` call. False: it did not take place. True: it did, and
    only its result is lost. None: the outcome is unknown, and the result is `unknown`. By default,
    a failure counts as False. A failure raised while another exception is handled, as in `except
    TimeoutError as e: raise ToolFailed("…") from e`, counts as None, or as the `happened` of that
    exception if it is a ToolFailed.

    `ends_run=True` ends the run after this turn, with the outcome `error` of kind `tool`, if asking
    the model again would not help.

    Attributes:
        message: Text that the model reads.
        stated: Value of `happened` that the tool passed; unset if none.
        ends_run: True if the run ends with this error.
    """

    def __init__(
        self, message: str, *, happened: bool | UnsetType | None = UNSET, ends_run: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.stated = happened
        self.ends_run = ends_run

    @property
    def happened(self) -> bool | None:
        """False if the effect certainly did not take place."""
        return self.has_happened()

    def has_happened(self, *, outside: BaseException | None = None) -> bool | None:
        """Return whether the call happened, by the rules above; None: unknown.

        `outside`: the exception that was being handled when the tool was called, because Python
        chains it to exceptions of the tool.
        """
        if self.stated is not UNSET:
            return self.stated
        cause = self.__cause__ or self.__context__
        if cause is None or cause is outside:
            return False
        return cause.has_happened(outside=outside) if isinstance(cause, ToolFailed) else None


class ToolDeferred(Exception):
    """Raised by a tool whose result is supplied later, from outside. The run waits, also across
    restarts, until `resume(results=…)` supplies it.

    `reason` is shown to the user while the run waits. A once-tool is not called again. Any other
    tool is called again when the run is resumed without a result, and may then return it or raise
    this again.

    Attributes:
        reason: Reason shown to the user while the run waits.
    """

    def __init__(self, reason: str = "its result comes from outside") -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidArguments(ToolFailed):
    """Raised if the arguments do not match the schema. Nothing was executed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, happened=False)


class Late(Protocol):
    """Receiver of the late result of a call that was reported as `unknown`, with the status that
    the result would have had in time. None: the outcome is still unknown.
    """

    def __call__(self, text: str, status: LateStatus = None, /) -> None: ...


def words_of(error: BaseException) -> str:
    """Return the class and the text of an exception, for the model."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  __str__ is arbitrary code
        return type(error).__name__


@dataclass(frozen=True, slots=True)
class ToolDone:
    """Returned by a tool to end the run with its value: `return ToolDone(invoice)`. The other calls
    of the turn still run, and the model is not asked again.

    A value that does not fit the agent's `output` ends the run with the outcome `error` (of kind
    `tool`).

    Attributes:
        value: Output of the run: a value of the agent's output type, or plain data that fits it;
            for an agent whose output is text, a string, or anything that JSON can describe.
    """

    value: object


@dataclass(frozen=True, slots=True)
class Happened:
    """Result of a probe: the call took effect, with this result.

    Attributes:
        result: Result of the call, for the model.
    """

    result: str


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """Result of a probe: the call did not take effect."""
