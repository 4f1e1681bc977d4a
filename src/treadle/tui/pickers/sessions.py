"""Picker for conversations, searchable by title and content. Entry points: `pick_session`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from treadle._internal.terminal_text import one_line
from treadle._internal.units import ago, count
from treadle.errors import AgentError
from treadle.journal.sessions import SessionInfo
from treadle.messages.message import Message
from treadle.tui.picker import Picker, PickerRow
from treadle.types import now

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

FOUND_MAX: Final = 50
LAST_MESSAGES: Final = 6
MESSAGE_LINES: Final = 6
RUNS_READ: Final = 5_000
"""Number of newest runs read to find each conversation's directory."""


async def pick_session(desk: Desk) -> str | None:
    """Return the id of the chosen session, or None to stay in the open one.

    Raises AgentError if the store cannot be read.
    """
    runtime = desk.conversation.runtime
    infos = await to_thread.run_sync(runtime.sessions.list)
    places: dict[str, str] = {}
    for run in await runtime.journal.runs(limit=RUNS_READ):
        if run.session_id is not None and run.parent_run_id is None:
            places.setdefault(run.session_id, run.cwd)
    by_id = {info.id: info for info in infos}

    def row(info: SessionInfo, said: str = "") -> PickerRow[str]:
        return PickerRow(
            runtime.redact(info.title), info.id, runtime.redact(said) or _detail(desk, info, places)
        )

    async def last_words(session_id: str) -> str:
        messages = await to_thread.run_sync(runtime.sessions.get_messages, session_id)
        return runtime.redact(_last(messages, desk.theme.glyphs.prompt))

    async def search(words: str) -> Sequence[PickerRow[str]]:
        try:
            found = await to_thread.run_sync(
                partial(runtime.sessions.search, words, limit=FOUND_MAX)
            )
        except AgentError:  # an encrypted journal: titles are still matched
            return []
        first = {hit.session_id: hit for hit in reversed(found)}
        return [
            row(by_id[hit.session_id], hit.excerpt)
            for hit in first.values()
            if hit.session_id in by_id
        ]

    rows = [row(info) for info in infos]
    return await desk.screen.ask(
        Picker(
            desk.screen,
            "Conversations",
            rows,
            preview=last_words,
            search=search,
            empty="There is no other conversation yet.",
        )
    )


def _detail(desk: Desk, info: SessionInfo, places: Mapping[str, str]) -> str:
    """Return the age, the length and, if different, the directory."""
    parts = [f"{ago(info.updated_at, now())} ago", count(info.message_count, "message")]
    place = places.get(info.id)
    if place is not None and os.path.realpath(place) != os.path.realpath(desk.cwd):
        parts.append(f"in {place}")
    if info.id == desk.conversation.session_id:
        parts.append("open now")
    return f" {desk.theme.glyphs.dot} ".join(parts)


def _last(messages: Sequence[Message], mark: str) -> str:
    said = [
        message
        for message in messages
        if message.text.strip() and message.role in ("user", "assistant")
    ]
    return (
        "\n\n".join(_excerpt(message, mark) for message in said[-LAST_MESSAGES:])
        or "It has no messages."
    )


def _excerpt(message: Message, mark: str) -> str:
    lines = [line for line in message.text.splitlines() if line.strip()]
    shown = [one_line(line, 400) for line in lines[:MESSAGE_LINES]]
    more = ["…"] if len(lines) > len(shown) else []
    return "\n".join(
        [f"{mark} {shown[0]}" if message.role == "user" else shown[0], *shown[1:], *more]
    )
