"""Asks the person about calls, and keeps what they said for more than one.

How the question looks is approval.py's. Entry: `Approving`.
"""

from __future__ import annotations

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
from treadle.tools.approval import ApprovalRequest, Approve, Deny
from treadle.tui.approval import Approval, Around
from treadle.tui.blocks import ProposedCallBlock
from treadle.tui.preview import preview_of
from treadle.tui.server_question import answered

if TYPE_CHECKING:
    from treadle.tui.chat import Chat


class Approving:
    """Called as an `on_approval=`."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._granted: set[str] = set()
        """Rules that the person has said yes to in this conversation."""
        self._one = anyio.Semaphore(1)
        """Of calls that ask at once, the second is asked about once the answer to the first is
        known: it may hold for both.
        """

    def forget(self) -> None:
        """Another conversation begins."""
        self._granted.clear()

    async def __call__(self, request: ApprovalRequest) -> Approve | Deny:
        async with self._one:
            if request.server is not None:
                return await answered(self._chat, request, request.server)
            if request.pattern and self._granted.issuperset(request.pattern):
                return Approve()
            # it was held before the mode changed
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
