"""Approval of a run's held calls. Entry point: `ask_people`.

The policy decides which calls need approval. recovery.py applies the answers, as it does those that
arrive after a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from treadle._internal.json_text import JsonText, encode_json
from treadle.events.feed import Feed
from treadle.journal.entries import ApprovalAsked
from treadle.journal.projection import shown_arguments
from treadle.journal.run_state import RunState
from treadle.loop.answers import Answers
from treadle.loop.plan import Plan
from treadle.loop.tool_code import has_commands
from treadle.loop.toolbox import Toolbox
from treadle.messages.events import Warned
from treadle.policy.approvals import for_session
from treadle.policy.policy import decide
from treadle.tools.approval import ApprovalRequest, Approve, Approver, Deny, Offer, Unanswered

logger = logging.getLogger("treadle")


async def ask_people(plan: Plan, state: RunState, feed: Feed, toolbox: Toolbox) -> Answers | None:
    """Ask about each held call, in order. Returns None without an approver or without any answer.

    Skips deferred calls, whose results come from outside.
    """
    if plan.approver is None:
        return None
    approve, deny, arguments = set[str](), dict[str, str](), dict[str, str]()
    waiting = [asked for asked in state.approvals.asked.values() if not asked.deferred]
    for number, asked in enumerate(waiting, 1):
        match await _answer(
            plan.approver,
            _request(plan, asked, offered(toolbox, asked), number, len(waiting)),
            feed,
        ):
            case Deny(reason=reason):
                deny[asked.call_id] = reason
            case Approve(arguments=changed):
                approve.add(asked.call_id)
                if changed is not None:
                    arguments[asked.call_id] = _json(changed)
            case None:
                continue
    return (
        Answers(approve=frozenset(approve), deny=deny, arguments=arguments)
        if approve or deny
        else None
    )


def offered(toolbox: Toolbox, asked: ApprovalAsked) -> Offer:
    """Return the grants to offer with a request for approval. A rule is included only if it
    would allow the call.
    """
    tool = toolbox.registry.get(asked.name)
    try:
        arguments = None if tool is None else tool.parse(asked.arguments_json)
    except Exception:  # noqa: BLE001  user code; an unreadable call gets no wider grant
        return Offer()
    if tool is None:
        return Offer()
    as_edit = partial(decide, "accept-edits", tool, arguments, toolbox.cwd, toolbox.permissions)
    is_edit = not has_commands(tool) and as_edit().verdict == "allow"
    pattern = toolbox.judge(tool, arguments, toolbox.permissions).pattern
    if pattern is not None:
        granted = for_session(toolbox.permissions, pattern)
        if toolbox.judge(tool, arguments, granted).verdict == "ask":
            pattern = None
    return Offer(pattern, is_edit)


def _json(arguments: Mapping[str, Any]) -> JsonText:
    return encode_json(dict(arguments)).decode()


def _request(
    plan: Plan, asked: ApprovalAsked, offer: Offer, number: int, of: int
) -> ApprovalRequest:
    return ApprovalRequest(
        run_id=plan.run_id,
        session_id=plan.session_id,
        parent_run_id=plan.parent_run_id,
        agent=plan.agent,
        call_id=asked.call_id,
        name=asked.name,
        arguments=shown_arguments(asked.arguments_json),
        reason=asked.reason,
        pattern=offer.pattern,
        is_edit=offer.is_edit,
        number=number,
        of=of,
    )


async def _answer(
    approver: Approver, request: ApprovalRequest, feed: Feed
) -> Approve | Deny | None:
    """Return the approver's answer; None if there is none or the approver fails."""
    try:
        answer = cast("object", await approver(request))
        if not isinstance(answer, Approve | Deny):
            raise TypeError(
                f"the answer is a {type(answer).__name__}: pass Approve() or Deny(reason)"
            )
        if isinstance(answer, Approve) and answer.arguments is not None:
            _json(answer.arguments)
        return answer
    except Unanswered:
        return None
    except Exception as e:  # user code failed; the call stays open
        logger.exception("asking about %s (call %s) failed", request.name, request.call_id)
        feed.say(
            Warned,
            {
                "text": f"asking about {request.name} failed: {type(e).__name__}: {e}",
                "call_id": request.call_id,
            },
        )
        return None
