"""Ids and titles of sessions. Entry points: `title_of`, `check_session_id`."""

from __future__ import annotations

import re
from typing import cast

from treadle.errors import AgentError

NEW_SESSION = "New Session"


TITLE_CHARS = 60


JOINER = "\u200d"
"""Joins emoji; not displayable alone."""


_FILES = re.compile(r"\A(?:\s*<file path=.*?\n</file>\s*)+", re.DOTALL)
"""Files attached to a prompt (attachments.py)."""


def excerpt_of(text: str, word: str) -> str:
    """Return one line of at most 120 characters around the first occurrence of the word."""
    place = max(text.casefold().find(word), 0)
    start = max(place - 40, 0)
    line = _shown(text[start : start + 120])
    return ("…" if start else "") + line + ("…" if start + 120 < len(text) else "")


def title_of(text: str) -> str:
    """Return the first non-empty line, without unprintable characters, at most 60 characters long.
    The user's text takes precedence over attached files.
    """
    text = _FILES.sub("", text) or text
    line = next((shown for line in text.splitlines() if (shown := _shown(line))), NEW_SESSION)
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def fork_title(title: str) -> str:
    """Return the title of a session that begins with a fork of another session's run."""
    return f"{title} (fork)"


def _shown(line: str) -> str:
    words = " ".join(line[: 20 * TITLE_CHARS].split())
    if words.isprintable():
        return words
    return " ".join("".join(c for c in words if c.isprintable() or c == JOINER).split())


def is_id(text: str) -> bool:
    """Return True for a valid id of a session or a run: never a path or a terminal control
    sequence.
    """
    return (
        isinstance(cast("object", text), str)
        and 0 < len(text) <= 128
        and text.isprintable()
        and text not in (".", "..")
        and not any(c in "/\\" for c in text)
    )


def check_session_id(session_id: str) -> None:
    """Raise AgentError(invalid) if the id is not valid."""
    if not is_id(session_id):
        raise AgentError(
            "invalid",
            f"{session_id!r} is not a valid session ID: use up to 128 printable characters without slashes",
        )
