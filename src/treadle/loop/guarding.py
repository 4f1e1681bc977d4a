"""Checks of input and output by hooks, and the removal of what they block.

Entry points: `beside`, `rewritten`, `withdrawn_by`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import anyio
import msgspec

from treadle._internal.json_text import encode_json
from treadle.events.hooks import RunBlocked
from treadle.journal.entries import Compaction
from treadle.journal.receipts import Withdrawn
from treadle.journal.run_state import RunState
from treadle.loop.plan import Plan
from treadle.messages.message import Message, TextPart
from treadle.types import new_id, now

T = TypeVar("T")

Check: TypeAlias = Callable[[Any, bool], Awaitable[None]]
"""Check of an output, and of whether a tool ended the run with it. Raises ToolFailed to reject it,
or RunBlocked.
"""
BLOCKED = "[A message was blocked here, and removed from the conversation.]"


async def beside(check: Callable[[], Awaitable[None]], respond: Callable[[], Awaitable[T]]) -> T:
    """Return the response once the check has passed. Both run in parallel.

    An error of the check cancels the response. After an error of the response, the check still
    decides whether the run is blocked; otherwise, that error is raised.
    """
    failed: list[Exception] = []
    found: list[T] = []
    async with anyio.create_task_group() as group:

        async def run() -> None:
            try:
                await check()
            except Exception as e:  # noqa: BLE001  raised below, without an ExceptionGroup
                failed.append(e)
                failed.sort(key=lambda error: not isinstance(error, RunBlocked))
                group.cancel_scope.cancel()

        group.start_soon(run)
        try:
            found.append(await respond())
        except Exception as e:  # noqa: BLE001
            failed.append(e)
    if failed:
        raise failed[0]
    return found[0]


async def rewritten(plan: Plan) -> Plan:
    """Return the plan of a new run with its prompt as hooks changed it, before it is recorded.

    Raises AgentError(agent) if a hook fails.
    """
    is_new = plan.resumption is None and plan.switching is None
    asks = plan.fork is None or plan.fork.asks
    if not (is_new and asks):
        return plan
    return msgspec.structs.replace(plan, prompt=await plan.hooks.before_input(plan.prompt))


def withdrawn_by(blocked: RunBlocked, state: RunState) -> list[Compaction]:
    """Return the receipt that removes the blocked message, and those after it, from the
    conversation.
    """
    messages = state.context.history
    at = next((i for i, one in enumerate(messages) if one.id == blocked.since), None)
    if at is None:
        return []
    note = Message(
        id=new_id("blocked"), role="user", parts=(TextPart(text=BLOCKED),), created_at=now()
    )
    receipt = Withdrawn(since=blocked.since, dropped=len(messages) - at, message=note)
    return [Compaction(at=now(), receipt=encode_json(receipt).decode())]
