"""Approval questions to the person at the client, and their answers.

Supports both eras of the protocol. Until 2025-11-25 the server asks while the request is open;
since 2026-07-28 the request ends with the questions, and the client sends it again with the
answers. Entry points: `Way`, `way_of`, `questions_of`, `Verdicts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from mcp import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from treadle._internal.terminal_text import revealed_line
from treadle.apps.mcp_server.server import Context
from treadle.journal.entries import ApprovalAsked
from treadle.journal.run_state import RunState

Way: TypeAlias = Literal["now", "again"]
"""Way to ask: `now`, while the request is open, or `again`, by having it sent again."""

MAX_ARGUMENTS_CHARS: Final = 20_000
"""Maximum length of arguments that are asked about, because a person approves only what is
shown.
"""
SAID_NO: Final = "the person at the MCP client declined"
FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "May it run?",
            "enum": ["allow", "deny"],
        },
        "reason": {
            "type": "string",
            "title": "Why not",
            "description": "If you deny, the agent's model reads this.",
        },
    },
    "required": ["decision"],
}


@dataclass(frozen=True, slots=True)
class ClientQuestion:
    call_id: str
    form: ElicitRequestFormParams


@dataclass(slots=True)
class Verdicts:
    """Decisions of a person by call id, as `Runtime.resume` takes them."""

    approve: list[str] = field(default_factory=list[str])
    deny: dict[str, str] = field(default_factory=dict[str, str])

    def __bool__(self) -> bool:
        return bool(self.approve or self.deny)

    def add(self, call_id: str, answer: object) -> None:
        """Add an answer. Anything but an explicit yes is a denial."""
        content = (
            (answer.content or {})
            if isinstance(answer, ElicitResult) and answer.action == "accept"
            else {}
        )
        if content.get("decision") == "allow":
            self.approve.append(call_id)
        else:
            reason = content.get("reason")
            self.deny[call_id] = (
                f"{SAID_NO}: {reason}" if isinstance(reason, str) and reason.strip() else SAID_NO
            )


def way_of(context: Context) -> Way | None:
    """Return the way to ask, or None if the client cannot ask a person."""
    offered = context.session.client_capabilities
    if (
        offered is None
        or offered.elicitation is None
        or (offered.elicitation.form is None and offered.elicitation.url is not None)
    ):
        return None
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return "again"
    return "now" if context.session.can_send_request else None


def questions_of(state: RunState, redact: Callable[[str], str]) -> list[ClientQuestion]:
    """Return the questions of a waiting run: none if it is finished. A call whose arguments are too
    long to show is not asked about and keeps waiting.
    """
    if state.finished is not None or state.started is None:
        return []
    texts = {
        call_id: _text(state.started.agent, asked, begun=call_id in state.current.starts)
        for call_id, asked in state.approvals.asked.items()
        if len(asked.arguments_json) <= MAX_ARGUMENTS_CHARS
    }
    return [
        ClientQuestion(
            call_id, ElicitRequestFormParams(message=redact(text), requested_schema=FORM)
        )
        for call_id, text in texts.items()
    ]


def _text(agent: str, asked: ApprovalAsked, *, begun: bool) -> str:
    arguments, name = revealed_line(asked.arguments_json), revealed_line(asked.name)
    if begun:
        return (
            f"The agent {agent} began {name} {arguments}, and it is unknown whether it took "
            "effect. May it run again?"
        )
    return (
        f"The agent {agent} wants to run {name} {arguments}. Reason for asking: "
        f"{revealed_line(asked.reason)}"
    )


async def ask_now(context: Context, questions: Sequence[ClientQuestion]) -> Verdicts:
    """Ask one question after the other. A client that fails to ask counts as a denial."""
    said = Verdicts()
    for question in questions:
        try:
            answer: object = await context.session.elicit_form(
                question.form.message,
                question.form.requested_schema,
                related_request_id=context.request_id,
            )
        except (MCPError, ValueError):
            answer = None
        said.add(question.call_id, answer)
    return said


def asked_again(questions: Sequence[ClientQuestion], run_id: str) -> InputRequiredResult:
    """End the request with the questions. The client sends it again with the answers and the run's
    id.
    """
    return InputRequiredResult(
        input_requests={q.call_id: ElicitRequest(params=q.form) for q in questions},
        request_state=run_id,
    )


def answers_in(
    responses: Mapping[str, object] | None, questions: Sequence[ClientQuestion]
) -> Verdicts:
    """Return the answers to open questions; others are ignored."""
    said = Verdicts()
    for question in questions:
        if question.call_id in (responses or {}):
            said.add(question.call_id, (responses or {})[question.call_id])
    return said
