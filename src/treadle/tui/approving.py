"""Approval of tool calls: asks the user and remembers rules granted for the session.

The prompt is drawn by approval.py. Entry points: `Approving`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from treadle._internal.terminal_text import cut, revealed, revealed_line
from treadle.tools.approval import ApprovalRequest, Approve, Deny
from treadle.tui.confirm import QUOTE, confirm, quoted

if TYPE_CHECKING:
    from treadle.tui.chat import Chat
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from treadle.config import home
from treadle.config.places import CONFIG_NAME
from treadle.errors import AgentError
from treadle.policy.approvals import for_always
from treadle.tui.approval import Approval, Around
from treadle.tui.blocks import ProposedCallBlock
from treadle.tui.preview import preview_of

FIELDS_MOST: Final = 20
"""Maximum number of a form's fields that the question names."""
FIELD_COLUMNS: Final = 60


async def answered(chat: Chat, request: ApprovalRequest, server: str) -> Approve | Deny:
    """Return the user's answer to a server's question. A form is shown and declined, because it
    cannot be filled in here.
    """
    arguments = request.arguments
    said = cast("Mapping[str, object]", arguments if isinstance(arguments, dict) else {})
    name = revealed_line(server)
    message = revealed(chat.runtime.redact(str(said.get("message", ""))))
    words = quoted(message, chat.screen.columns - 3)
    if fields := _fields(said.get("schema")):
        more = f" and {len(fields) - FIELDS_MOST:,} more" if len(fields) > FIELDS_MOST else ""
        named = [cut(revealed_line(field), FIELD_COLUMNS) for field in fields[:FIELDS_MOST]]
        head = f"MCP server {name!r} wants these fields filled in: {', '.join(named)}{more}."
        end = "Forms cannot be filled in here, so it was declined."
        chat.tell("\n".join([head, *words, end]), "warning")
        return Deny()
    page = said.get("url")
    about = "asks you to open a page" if page else "asks you a question"
    lines = [
        f"MCP server {name!r} {about}. Treadle has not checked this text:",
        *words,
        *([QUOTE + revealed_line(str(page))] if page else []),
        "Your answer goes to the server. It approves no call and no command.",
    ]
    yes, no = ("I have opened it", "Decline") if page else ("Accept", "Decline")
    question = "\n".join(lines)
    agrees = await confirm(chat.screen, question, yes=yes, no=no, danger=True, complete=True)
    return Approve() if agrees else Deny()


def _fields(schema: object) -> list[str]:
    """Return the names of a form's required fields, or of all fields if none is required."""
    if not isinstance(schema, Mapping):
        return []
    form = cast("Mapping[str, object]", schema)
    names = form.get("required") or form.get("properties")
    return (
        [str(name) for name in cast("list[object]", [*names])]
        if isinstance(names, list | Mapping)
        else []
    )


class Approving:
    """Approver of a chat's runs, passed as `on_approval`."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._granted: set[str] = set()
        """Rules granted in this conversation."""
        self._one = anyio.Semaphore(1)
        """Lock that lets one approval request run at a time, because its answer may also cover the
        next one.
        """

    def forget(self) -> None:
        """Drop the granted rules when another conversation opens."""
        self._granted.clear()

    async def __call__(self, request: ApprovalRequest) -> Approve | Deny:
        async with self._one:
            if request.server is not None:
                return await answered(self._chat, request, request.server)
            if request.pattern and self._granted.issuperset(request.pattern):
                return Approve()
            # The request may have waited while the mode changed.
            if request.is_edit and self._chat.conversation.setting.mode == "accept-edits":
                return Approve()
            return await self._asked(request)

    async def _asked(self, request: ApprovalRequest) -> Approve | Deny:
        chat = self._chat
        preview = await to_thread.run_sync(
            partial(
                preview_of, request.name, request.arguments, chat.cwd, redact=chat.runtime.redact
            )
        )
        show = partial(
            chat.soon,
            chat.view,
            f"{request.name}: {request.reason}",
            [ProposedCallBlock(preview)],
            at_end=False,
        )
        around = Around(
            view=show,
            typed=chat.line.paste,
            columns=lambda: chat.screen.columns,
            cycle_mode=chat.acting.cycle_mode,
        )
        slot = Approval(request, preview, chat.theme, around)
        chat.transcript.asks_about(request)
        said = await chat.screen.ask(slot)
        if said.scope == "no":
            return Deny(said.reason)
        if said.scope == "edits":
            chat.use_mode("accept-edits")
        elif said.scope != "once" and request.pattern:
            await self._grant(request.pattern, always=said.scope == "always")
        return Approve()

    async def _grant(self, pattern: Sequence[str], *, always: bool) -> None:
        chat = self._chat
        try:
            if chat.conversation.session_id is not None:
                chat.runtime.allow(chat.conversation.session_id, pattern)
            self._granted.update(pattern)
            if always:
                await to_thread.run_sync(
                    for_always, Path(chat.config.home or home(os.environ)) / CONFIG_NAME, pattern
                )
        except AgentError as e:
            chat.tell(f"Allowed this once only: {e.message}", "warning")
