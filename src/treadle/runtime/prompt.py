"""The input of a run: its prompt, earlier messages, and the system prompt of its session.

Entry points: `prompt_of`, `earlier_of`, `run_id_of`, `as_begun`, `system_again`.
"""

from __future__ import annotations

import binascii
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.journal.entries import Fork, RunStarted
from treadle.journal.entry_codec import read_entry
from treadle.journal.journal import Journal
from treadle.journal.run_state import RunState
from treadle.journal.session_names import is_id
from treadle.messages.message import MediaPart, Message, Part, Prompt, TextPart
from treadle.messages.validate import check_history
from treadle.tools.offered import GoneTool
from treadle.types import SystemBlock, new_id, now

CHANGED = "changed"
"""Prefix of the id of a message that reports changes of the system prompt since the start of its
session.
"""
NEWS = "[This part of the system prompt has changed. From here on, it reads:]\n\n{text}"
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?", re.ASCII)


def prompt_of(text: Prompt) -> Message:
    """Return the prompt as a message. Reads the files that it names.

    Raises AgentError(invalid) if it contains nothing to ask, and for a file that cannot be sent.
    """
    given: object = text
    if not isinstance(given, str | list | tuple):
        raise AgentError(
            "invalid",
            f"a prompt must be a string, or a list of strings, paths and MediaParts, not "
            f"{_kind(given)}",
        )
    prompt = Message.user(text if isinstance(text, str) else [_part(one) for one in text])
    if strange := [part for part in prompt.parts if not isinstance(part, (TextPart, MediaPart))]:
        raise AgentError(
            "invalid",
            "a prompt consists of text, paths and media (str, Path, MediaPart), not "
            f"{_kind(strange[0])}",
        )
    for part in prompt.parts:
        if isinstance(part, MediaPart):
            _check_media(part)
    if not prompt.text.strip() and not any(isinstance(part, MediaPart) for part in prompt.parts):
        raise AgentError("invalid", "the prompt is empty: say what the agent should do")
    return prompt


def _part(one: str | os.PathLike[str] | Part) -> Part:
    if isinstance(one, str):
        return TextPart(text=one)
    if not isinstance(one, os.PathLike):
        return one
    from treadle.messages.attachments import attachment  # noqa: PLC0415  few prompts name files

    return attachment(Path(one))


def _check_media(part: MediaPart) -> None:
    kind, data = cast("object", part.media_type), cast("object", part.data)
    if not isinstance(kind, str) or not _MEDIA_TYPE.fullmatch(kind):
        raise AgentError(
            "invalid",
            f"media_type={kind!r} of a MediaPart is not a media type: write one like 'image/png'",
        )
    if isinstance(data, bytes | bytearray):
        raise AgentError(
            "invalid",
            (
                f"data= of a MediaPart ({kind}) is base64 text, not bytes: use "
                "MediaPart.from_bytes(data)"
            ),
        )
    try:
        binascii.a2b_base64(cast("str", data) or "", strict_mode=True)
    except (ValueError, TypeError) as e:
        raise AgentError("invalid", f"data= of a MediaPart ({kind}) is not base64: {e}") from e


def earlier_of(messages: Sequence[Message], session_id: str | None) -> Sequence[Message]:
    """Return the messages before the prompt of a run without a session.

    Raises AgentError(invalid) for an invalid history.
    """
    if messages and session_id is not None:
        raise AgentError(
            "invalid",
            (
                "messages= is for runs without a session, which stores its own messages: leave "
                "one of them out"
            ),
        )
    if strange := [one for one in messages if not isinstance(one, Message)]:  # pyright: ignore[reportUnnecessaryIsInstance]  it may be anything
        raise AgentError(
            "invalid",
            (
                f"messages= takes Messages, oldest first, not a {type(strange[0]).__name__}: make "
                "them with Message.user(text)"
            ),
        )
    if wrong := check_history(messages) if messages else []:
        raise AgentError(
            "invalid", f"messages= is not a valid history: {wrong[0]}; repair_history() repairs one"
        )
    return messages


def run_id_of(given: str | None) -> str:
    """Validate a run id. Raises AgentError(invalid)."""
    if given is not None and not is_id(given):
        raise AgentError(
            "invalid",
            (
                f"run_id={given!r} is not a valid run id: use up to 128 printable characters "
                "without slashes"
            ),
        )
    return given or new_id("run")


def with_passing(system: tuple[SystemBlock, ...], texts: Sequence[str]) -> tuple[SystemBlock, ...]:
    """Return the system prompt with other texts in its temporary blocks; unchanged if the number of
    blocks differs.
    """
    if len(texts) != sum(block.passing for block in system):
        return system
    each = iter(texts)
    return tuple(
        msgspec.structs.replace(block, text=next(each)) if block.passing else block
        for block in system
    )


def system_again(
    agent: Agent[Any, Any], started: RunStarted, state: RunState
) -> tuple[tuple[SystemBlock, ...], tuple[str, ...]]:
    """Return the system prompt of a resumed run, and warnings about changes of its agent."""
    values = agent.values_again(msgspec.json.decode(started.inputs, type=dict[str, Any]))
    system = agent.system(values)
    gone = [
        f"agent {agent.name!r} no longer has the tool {tool.name!r}, which this run offers: calls "
        "to it are refused"
        for tool in agent.own_tools
        if isinstance(tool, GoneTool)
    ]
    if agent.fingerprint == state.agent_hash:
        return with_passing(system, state.agent.passing), tuple(gone)
    changed = (
        f"agent {agent.name!r} has changed since this run was last driven: it continues "
        "with the new definition"
    )
    return system, (changed, *gone)


async def as_begun(
    journal: Journal,
    agent: Agent[Any, Any],
    system: tuple[SystemBlock, ...],
    state: RunState,
    origin: Fork | str | None,
) -> tuple[tuple[SystemBlock, ...], tuple[Message, ...]]:
    """Return the system prompt with the temporary blocks that were sent before, and a message with
    the new ones if the model does not know them yet.

    The system prompt thus stays the same over a session, which caches and preserved thinking
    require. `origin`: the fork, or the id of the session.
    """
    texts = tuple([block.text for block in system if block.passing])
    begun = (
        await _begun_with(journal, agent, origin)
        if texts and state.context.past and origin is not None
        else ()
    )
    if len(begun) != len(texts) or not texts:
        return system, ()
    news = NEWS.format(text="\n\n".join(texts))
    told = next(
        (
            message.text
            for message in reversed(state.context.history)
            if message.id.startswith(f"{CHANGED}_")
        ),
        None,
    )
    if news == told or (told is None and texts == begun):
        return with_passing(system, begun), ()
    return with_passing(system, begun), (
        Message(id=new_id(CHANGED), role="system", parts=(TextPart(text=news),), created_at=now()),
    )


async def _begun_with(
    journal: Journal, agent: Agent[Any, Any], origin: Fork | str
) -> tuple[str, ...]:
    """Return the temporary blocks of the run that this one was forked from, otherwise of the
    session's last run. Empty if that had another agent or definition.
    """
    if isinstance(origin, Fork):
        run_id = origin.run_id
    elif runs := await journal.runs(limit=1, session_id=origin):
        run_id = runs[0].run_id
    else:
        return ()
    started = read_entry((await journal.read_bytes(run_id))[0])
    if not isinstance(started, RunStarted) or (started.agent, started.agent_hash) != (
        agent.name,
        agent.fingerprint,
    ):
        return ()
    return started.passing


def _kind(value: object) -> str:
    match value:
        case None:
            return "None"
        case bytes() | bytearray():
            return "bytes: use .decode(), or MediaPart.from_bytes(data)"
        case Message():
            return "a Message: earlier messages belong in a session, or in messages="
        case Agent():
            return "an agent: the agent comes first, then the prompt"
        case _:
            return type(value).__name__
