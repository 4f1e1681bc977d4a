"""Validation of task fields, and a task as JSON data. Storage is in store.py. Entry points:
`title_of`, `as_data`.

Each reader returns the value as stored, or raises AgentError(invalid) with the valid form.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import date
from typing import Any, Final, Literal, TypeAlias, TypedDict, get_args

from treadle._internal.terminal_text import plain
from treadle.apps.assistant.tables import Task
from treadle.errors import AgentError

Priority: TypeAlias = Literal["Low", "Medium", "High"]
PRIORITIES: Final[tuple[str, ...]] = get_args(Priority)
TITLE_CHARS: Final = 200
DESCRIPTION_CHARS: Final = 2000
WORDS_CHARS: Final = 200
"""Maximum length of a task reference or a search."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_NO_TEXT: Final = frozenset({"Cc", "Cs"})
_LINE_ENDS: Final = frozenset({"Zl", "Zp"})


def title_of(text: str) -> str:
    title = text.strip()
    if not title or not plain(title).strip():
        raise AgentError("invalid", "a task needs a title")
    if len(title) > TITLE_CHARS:
        raise AgentError(
            "invalid",
            (
                f"a title has at most {TITLE_CHARS} characters, and this one has {len(title)}: "
                "put the rest into the description"
            ),
        )
    if any(unicodedata.category(c) in _NO_TEXT | _LINE_ENDS for c in title):
        raise AgentError(
            "invalid", "a title is one line, without control characters or lone surrogates"
        )
    return title


def description_of(text: str | None) -> str | None:
    """Return a normalized description; None for an empty one."""
    description = (text or "").replace("\r\n", "\n").strip()
    if len(description) > DESCRIPTION_CHARS:
        raise AgentError(
            "invalid",
            (
                f"a description has at most {DESCRIPTION_CHARS} characters, and this one has "
                f"{len(description)}"
            ),
        )
    if any(unicodedata.category(c) in _NO_TEXT and c not in "\n\t" for c in description):
        raise AgentError(
            "invalid", "a description cannot contain control characters or lone surrogates"
        )
    return description or None


def priority_of(text: str) -> str:
    if text not in PRIORITIES:
        raise AgentError("invalid", f"a priority is one of {', '.join(PRIORITIES)}")
    return text


def due_of(text: str | date | None) -> date | None:
    if text is None or isinstance(text, date):
        return text
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise AgentError(
        "invalid",
        "a due date is a valid date in the form YYYY-MM-DD, like 2026-12-01",
    )


def as_data(task: Task) -> dict[str, Any]:
    """Return the task as a new dict of plain JSON values, as every tool and route returns it."""
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "completed": task.completed,
        "priority": task.priority,
        "due": None if task.due is None else task.due.isoformat(),
        "created_at": task.created_at.isoformat(),
        "updated_at": task.updated_at.isoformat(),
    }


class TaskFields(TypedDict, total=False):
    """New values of a task's fields.

    Omitted fields stay; None clears a description and a due date.
    """

    title: str
    description: str | None
    priority: str
    due: str | date | None
    completed: bool


def checked(wanted: TaskFields) -> dict[str, Any]:
    """Return the values as they are stored. Raises AgentError(invalid)."""
    readers: dict[str, Callable[[Any], Any]] = {
        "title": title_of,
        "description": description_of,
        "priority": priority_of,
        "due": due_of,
        "completed": bool,
    }
    return {name: readers[name](value) for name, value in wanted.items()}
