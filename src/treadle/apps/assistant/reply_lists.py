"""Lists of tasks in words, and the phrases that all replies share. Entry points: `listed`, `quoted`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from treadle._internal.terminal_text import one_line

REPLY_CHARS = 500
"""Approximate maximum length of a reply; lists are shortened to it."""
QUOTED_CHARS = 80
"""Maximum length of a title or query."""


TASK_ID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


def listed(
    arguments: Mapping[str, Any], data: Mapping[str, Any], *, most: int = REPLY_CHARS
) -> str:
    """Return a numbered list of the tasks that fit, with the number of the others; for an empty
    list, a sentence.
    """
    tasks: Sequence[Mapping[str, Any]] = data.get("tasks") or ()
    if not tasks:
        return _nothing(arguments)
    total = max(int(data.get("total") or 0), len(tasks))
    lines: list[str] = []
    left = most
    for number, task in enumerate(tasks, 1):
        line = f"{number}. {'✓' if task.get('completed') else '☐'} {_line(task)}"
        if lines and len(line) + 1 > left:
            break
        lines.append(line)
        left -= len(line) + 1
    if total > len(lines):
        lines.append(f"…and {total - len(lines)} more.")
    return "\n".join(lines)


def _line(task: Mapping[str, Any]) -> str:
    priority, due = task.get("priority"), task.get("due")
    details = ", ".join(
        [
            *([str(priority)] if priority not in (None, "Medium") else []),
            *([f"due {due}"] if due else []),
        ]
    )
    return one_line(str(task.get("title", "")), QUOTED_CHARS) + (f" ({details})" if details else "")


def _nothing(arguments: Mapping[str, Any]) -> str:
    search, status, priority = (
        str(arguments.get(name) or "") for name in ("search", "status", "priority")
    )
    match search:
        case "overdue":
            return "Nothing is overdue."
        case "due:none":
            return "There are no tasks without a due date."
        case _ if search.startswith("due:"):
            return f"Nothing is due {_period(search.removeprefix('due:'))}."
        case _ if search:
            return not_found(search)
        case _ if priority:
            return f"There are no tasks of priority {priority}."
        case _ if status in ("open", "completed"):
            return (
                "There is nothing left to do." if status == "open" else "Nothing is completed yet."
            )
        case _:
            return "Your list is empty. Tell me what to add."


def _period(span: str) -> str:
    first, _, last = span.partition("..")
    if not last:
        return f"on {first}"
    if last.startswith("9999"):
        return f"from {first} on"
    return f"up to {last}" if first <= "2000-01-01" else f"from {first} to {last}"


def quoted(text: object) -> str:
    """Quote a person's text on one line, shortened, without bidirectional and invisible
    characters.
    """
    return f"'{one_line(str(text), QUOTED_CHARS)}'"


def task_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return data.get("task") or {}


def title_of(data: Mapping[str, Any]) -> str:
    return quoted(task_of(data).get("title", ""))


def counted(count: int, kind: str = "") -> str:
    return f"1 {kind}task" if count == 1 else f"{count} {kind}tasks"


def joined(pieces: Sequence[str], last: str = "and") -> str:
    return (
        pieces[0]
        if len(pieces) == 1
        else f"{', '.join(pieces[:-1])} {last} {pieces[-1]}"
        if pieces
        else ""
    )


def not_found(query: object) -> str:
    return (
        "I couldn't find that task in your list."
        if TASK_ID.fullmatch(str(query))
        else f"I couldn't find a task about {quoted(query)} in your list."
    )
