"""What a person, or a program in their place, is asked about one call, and what they say. Entry:

`ApprovalRequest`, `Approve`, `Deny`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from treadle.errors import AgentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that does not run before a person has approved it."""

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    """Of a run that another one started: its calls are asked about where the first run's are."""
    agent: str
    call_id: str
    name: str
    """The tool's."""
    arguments: dict[str, object] | str
    """Text where it is no object."""
    reason: str
    """Why it is asked about."""
    pattern: tuple[str, ...] | None = None
    """Rules that would allow this call and its like, to be shown word for word:

    `Runtime.allow` takes them. None: only this one call can be allowed.
    """
    is_edit: bool = False
    """True for a change of a file that mode accept-edits would make without asking."""
    number: int = 1
    """Place among the calls that wait for an answer together, from 1."""
    of: int = 1
    """How many calls wait for an answer together."""
    server: str | None = None
    """An MCP server that asks the person something in the middle of a call. Nothing is approved
    then: `Approve(arguments)` is the answer, and `arguments` here hold the server's words.
    """


@dataclass(frozen=True, slots=True)
class Offer:
    """Answers that go beyond one call."""

    pattern: tuple[str, ...] | None = None
    """`ApprovalRequest.pattern`."""
    is_edit: bool = False
    """`ApprovalRequest.is_edit`."""


@dataclass(frozen=True, slots=True)
class Approve:
    """It may run, this once."""

    arguments: Mapping[str, Any] | None = None
    """What it is to be called with instead, all of it; None: what the model said.

    It is validated and judged as any call.
    """

    def __post_init__(self) -> None:
        """Raises AgentError(invalid): they are an object of JSON, whose values are looked at where
        they are written.
        """
        given = cast("object", self.arguments)
        if given is None:
            return
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) for name in cast("Mapping[object, object]", given)
        ):
            raise AgentError(
                "invalid",
                (
                    f"Approve({given!r:.200}): give all arguments by their names, like "
                    "Approve({'path': 'a.txt'}), or nothing"
                ),
            )


@dataclass(frozen=True, slots=True)
class Deny:
    """Refusal of a call, with a reason for the model."""

    reason: str = ""

    def __post_init__(self) -> None:
        """Raises AgentError(invalid): the journal keeps it, and takes nothing else."""
        if not isinstance(cast("object", self.reason), str):
            raise AgentError(
                "invalid", f"Deny({self.reason!r}): give the reason as a text, or nothing"
            )


class Unanswered(Exception):
    """Raised by an approver that is not available now.

    The call waits, and its run is released once nothing else is to be done.
    """


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Approve | Deny]]
"""Asked about one call after the other.

What it raises leaves the call open, and the run waits (`approval_needed`).
"""


def check_texts(name: str, given: object) -> None:
    """Check texts about calls, by their ids.

    Raises AgentError(invalid) for values that no journal could keep.
    """
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for text in cast("Mapping[object, object]", given).values()
    ):
        raise AgentError(
            "invalid",
            (
                f"{name}= takes a text for each call, like {name}={{'call_1': '…'}}; write what is "
                "no text as JSON"
            ),
        )
