"""Display of a conversation that is opened: its messages and the state of its last run. Entry
points: `Reopening`.

An interrupted run can be resumed; a run of another process can only be watched until it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio

from treadle._internal.terminal_text import one_line
from treadle._internal.units import ago, count, local
from treadle.errors import AgentError
from treadle.journal.run_info import RunInfo
from treadle.messages.message import Message
from treadle.messages.todos import standing
from treadle.tui.blocks import NoticeBlock
from treadle.tui.confirm import confirm
from treadle.types import now

if TYPE_CHECKING:
    from treadle.tui.chat import Chat

SHOWN_MESSAGES: Final = 40
"""Number of messages shown; the viewer and `treadle sessions show` show all."""
POLL_S: Final = 1.0


class Reopening:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._open = ""
        """Id of an unfinished run that the user declined to resume."""
        self._looking = anyio.CancelScope()

    def leave(self) -> None:
        """Reset when a conversation is opened."""
        self._open = self._chat.read_only = ""
        self._looking.cancel()

    async def show(self) -> None:
        """Show the conversation, if it has any messages. Errors are displayed, not raised."""
        chat = self._chat
        info = chat.conversation.info()
        if info is None:
            return
        try:
            messages = await chat.conversation.messages()
            left = await chat.conversation.unfinished()
            if left is not None:
                messages = [*messages, *await self._of(left)]
        except AgentError as e:
            chat.tell(e.message, "error")
            return
        self._draw(
            messages,
            (
                f"{one_line(chat.runtime.redact(info.title))}, changed "
                f"{ago(info.updated_at, now())} ago"
            ),
        )
        if left is not None:
            await self._left(left)

    async def _of(self, run: RunInfo) -> Sequence[Message]:
        """Return the messages of an unfinished run."""
        state = await self._chat.runtime.journal.load(run.run_id)
        return state.context.history[state.context.prompt_at :]

    def _draw(self, messages: Sequence[Message], title: str) -> None:
        chat = self._chat
        shown = messages[-SHOWN_MESSAGES:]
        if len(messages) > len(shown):
            chat.print(
                NoticeBlock(
                    f"{count(len(messages) - len(shown), 'earlier message')}: `treadle sessions "
                    f"show {chat.conversation.session_id}`"
                )
            )
        for message in shown:
            chat.print(*chat.transcript.replay(message))
        chat.transcript.live.todos = standing(messages)
        chat.print(NoticeBlock(title))

    async def _left(self, run: RunInfo) -> None:
        if run.status == "running":
            await self._look_on(run)
        elif run.agent != self._chat.conversation.setting.agent.name:
            self._open = run.run_id
            self._chat.tell(
                f"The last run is unfinished, and its agent is {one_line(run.agent)!r}. `treadle "
                f"runs resume {run.run_id}` resumes it; your next message ends it first."
            )
        elif run.status == "waiting":
            await self._offer(run, "The last run waits for your answer. Resume it?")
        elif run.status == "queued":
            await self._offer(run, "The last run waits for a worker. Resume it here?")
        else:
            await self._offer(
                run,
                (
                    "The last run was interrupted. Resume it? Calls that must not run twice are "
                    "not repeated without approval."
                ),
            )

    async def _offer(self, run: RunInfo, question: str) -> None:
        chat = self._chat
        if await confirm(chat.screen, question, yes="Resume", no="Not now"):
            chat.go_on(run.run_id)
            return
        self._open = run.run_id
        chat.tell("It stays unfinished. /resume asks again; your next message ends it first.")

    async def end_what_is_open(self) -> None:
        """End a run that the user declined to resume as cancelled, before a new message is sent.
        Raises AgentError on failure.
        """
        run_id, self._open = self._open, ""
        if run_id:
            await self._chat.runtime.kill(run_id)

    async def _look_on(self, run: RunInfo) -> None:
        chat = self._chat
        holder = await chat.runtime.journal.holder(run.session_id or "")
        who = (
            "another process"
            if holder is None or holder.pid is None
            else f"process {holder.pid}{f' on {holder.host}' if holder.host else ''}"
        )
        since = "" if holder is None else f" since {local(holder.since)}"
        chat.read_only = (
            f"This conversation is in use by {who}{since}: you can watch it here, or start a /new "
            "one."
        )
        chat.tell(chat.read_only, "warning")
        chat.soon(self._until_over, run)

    async def _until_over(self, run: RunInfo) -> None:
        """Show the messages that the other process adds."""
        chat = self._chat
        with anyio.CancelScope() as self._looking:
            try:
                ended = await self._watched(run)
            except AgentError as e:
                chat.tell(
                    (
                        f"The other process can no longer be followed: {e.message}. /resume tries "
                        "again."
                    ),
                    "error",
                )
            else:
                chat.tell(
                    "The other process has finished: you can continue here."
                    if ended
                    else "The other process stopped: /resume continues its run."
                )
            chat.read_only = ""
            chat.wake()

    async def _watched(self, run: RunInfo) -> bool:
        """Show new messages until the run stops. Return True if it finished. Raises AgentError if
        the journal cannot be read.
        """
        chat = self._chat
        seen = {message.id for message in await self._of(run)}
        while True:
            await anyio.sleep(POLL_S)
            info = await chat.runtime.journal.info(run.run_id)
            for message in await self._of(run):
                if message.id not in seen:
                    seen.add(message.id)
                    chat.print(*chat.transcript.replay(message))
            if info.status != "running":
                return info.status == "finished"
