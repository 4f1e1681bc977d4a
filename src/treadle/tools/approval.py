"""A request for approval of one call, and the answers to it. Entry points: `ApprovalRequest`,
`Approve`, `Deny`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from treadle.errors import AgentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that requires approval before it runs.

    Attributes:
        run_id: Id of the run that wants to make the call.
        session_id: Session of the run, or None.
        parent_run_id: Run that started this one, or None. The request goes to that run's approver.
        agent: Name of the agent.
        call_id: Id of the call, which an answer refers to.
        name: Name of the tool.
        arguments: Arguments of the call; the model's text if it is not a JSON object.
        reason: Reason why the call needs approval.
        pattern: Rules that would allow this call and similar ones, to be shown verbatim. Pass them
            to `Runtime.allow`. None: only this one call can be allowed.
        is_edit: True for a change of a file that the mode accept-edits would allow.
        number: Position among the calls that wait together, from 1.
        of: Number of calls that wait together.
        server: MCP server that asks the user a question during a call, or None. If set, nothing is
            approved: `arguments` hold the question, and `Approve(arguments)` is the answer.
    """

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    agent: str
    call_id: str
    name: str
    arguments: dict[str, object] | str
    reason: str
    pattern: tuple[str, ...] | None = None
    is_edit: bool = False
    number: int = 1
    of: int = 1
    server: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """Answers offered in addition to approving or denying this one call."""

    pattern: tuple[str, ...] | None = None
    """`ApprovalRequest.pattern`."""
    is_edit: bool = False
    """`ApprovalRequest.is_edit`."""


@dataclass(frozen=True, slots=True)
class Approve:
    """Approval of this one call.

    Attributes:
        arguments: New arguments that replace the model's completely. They are validated, and the
            policy checks them, as for any call. None: unchanged.
    """

    arguments: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Validate the arguments. Raises AgentError(invalid) unless they are a JSON object."""
        given = cast("object", self.arguments)
        if given is None:
            return
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) for name in cast("Mapping[object, object]", given)
        ):
            raise AgentError(
                "invalid",
                (
                    f"Approve({given!r:.200}): pass all arguments by their names, like "
                    "Approve({'path': 'a.txt'}), or nothing"
                ),
            )


@dataclass(frozen=True, slots=True)
class Deny:
    """Refusal of a call, with a reason for the model.

    Attributes:
        reason: Reason that the model reads.
    """

    reason: str = ""

    def __post_init__(self) -> None:
        """Validate the reason. Raises AgentError(invalid) for text that the journal cannot
        store.
        """
        if not isinstance(cast("object", self.reason), str):
            raise AgentError(
                "invalid", f"Deny({self.reason!r}): pass the reason as a string, or omit it"
            )


class Unanswered(Exception):
    """Raised by an approver that is currently unavailable.

    The call stays open, and its run is released once it has no other work.
    """


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Approve | Deny]]
"""Callback that answers approval requests, one call at a time.

If it raises, the call stays open and the run waits (`approval_needed`).
"""


def check_texts(name: str, given: object) -> None:
    """Check texts about calls, by call id.

    Raises AgentError(invalid) for values that a journal cannot store.
    """
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for text in cast("Mapping[object, object]", given).values()
    ):
        raise AgentError(
            "invalid",
            (
                f"{name}= takes a string for each call, like {name}={{'call_1': '…'}}; encode "
                "other values as JSON"
            ),
        )
