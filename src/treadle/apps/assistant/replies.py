"""Replies to a person, composed from tool results. docs/tasks.md lists the fixed sentences.

words.py filters the model's own words; view.py chooses between the two. All functions are pure.
Entry points: `compose`, `reply_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from treadle._internal.terminal_text import one_line
from treadle.apps.assistant.caller import ToolError, ToolResponse
from treadle.apps.assistant.reply_lists import (
    QUOTED_CHARS,
    REPLY_CHARS,
    TASK_ID,
    counted,
    joined,
    listed,
    not_found,
    quoted,
    task_of,
    title_of,
)

FAILURE = "I'm having a bit of trouble right now. Please try again."
UNCLEAR = "Could you provide more details about what you would like to do?"
NO_MORE = "That's as much as I can do in one message. Please send me the rest again."
OPTIONS_MOST = 8

_ELSE = " Anything else?"
_UNSUPPORTED: Mapping[tuple[str, ...], str] = {
    ("repetition",): " It's there once: I can't repeat tasks.",
    ("time",): " I can't keep times of day or send reminders: that time is just part of its title.",
    ("repetition", "time"): " It's there once: I can't repeat tasks or remind you at a time.",
}
_MISSING = {
    "add_task": "the task you would like to add",
    "list_tasks": "what you would like to see",
    "complete_task": "the task you have finished",
    "update_task": "what you would like to change",
    "delete_task": "the task you would like to delete",
}
_SAID_AS_IT_IS = ("no more can be added", "changes are already undone")
"""Refusals of the store for which no further details help."""
_CORRECTED = frozenset({"not_found", "ambiguous", "invalid", "failed"})
"""Error codes after which a model may retry a call."""


class ReplyCall(NamedTuple):
    """Executed call."""

    name: str
    arguments: Mapping[str, Any]
    response: ToolResponse
    turn: int
    """Number of the response that requested it, from 1."""


def response_of(result: str) -> ToolResponse:
    """Return a tool's result as a response. Anything but the response of a task tool is a
    failure.
    """
    try:
        return msgspec.json.decode(result, type=ToolResponse)
    except (msgspec.MsgspecError, UnicodeError):
        return ToolResponse(success=False, error=ToolError(code="failed", message=FAILURE))


def compose(calls: Sequence[ReplyCall], *, most: int = REPLY_CHARS) -> str:
    """Return one text for the results worth mentioning, in order; empty if there are none.

    `most`: approximate maximum length of a list, in characters.
    """
    said = dict.fromkeys(filter(None, (reply_of(call, most=most) for call in worth_saying(calls))))
    sentences = [*said]
    if sum(one.endswith(_ELSE) for one in sentences) > 1:
        last = max(i for i, one in enumerate(sentences) if one.endswith(_ELSE))
        sentences = [
            one if i == last else one.removesuffix(_ELSE) for i, one in enumerate(sentences)
        ]
    return "\n".join(sentences)


def worth_saying(calls: Sequence[ReplyCall]) -> list[ReplyCall]:
    """Return the calls without lookups for later calls, corrected mistakes, and questions that a
    later one repeats.
    """
    acts = [i for i, call in enumerate(calls) if call.name != "list_tasks"]
    asked = [i for i, call in enumerate(calls) if _code(call) == "confirm"]
    kept: list[ReplyCall] = []
    for i, call in enumerate(calls):
        looked_up = call.name == "list_tasks" and bool(acts) and i < acts[-1]
        mended = _code(call) in _CORRECTED and any(_mends(later, call) for later in calls[i + 1 :])
        if not (looked_up or mended or i in asked[:-1]):
            kept.append(call)
    questions = [call for call in kept if _code(call) == "confirm"]
    return [*(call for call in kept if _code(call) != "confirm"), *questions]


def _code(call: ReplyCall) -> str | None:
    return None if call.response.error is None else call.response.error.code


def _mends(later: ReplyCall, call: ReplyCall) -> bool:
    """Return True if a later call corrected this one after the model saw its mistake."""
    if later.name != call.name or later.turn <= call.turn or _code(later) in _CORRECTED:
        return False
    code, wanted, named = (
        _code(call),
        str(call.arguments.get("task", "")),
        str(later.arguments.get("task", "")),
    )
    if code == "invalid":
        return True
    if code == "failed":
        return later.arguments == call.arguments
    return TASK_ID.fullmatch(named) is not None or not _words(wanted).isdisjoint(_words(named))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text.casefold()))


def reply_of(call: ReplyCall, *, most: int = REPLY_CHARS) -> str:
    """Return the sentence for one call."""
    if (error := call.response.error) is not None:
        return _of_error(call, error)
    data = call.response.data or {}
    if call.name == "list_tasks":
        return listed(call.arguments, data, most=most)
    sentence = _SENTENCES.get(call.name)
    return FAILURE if sentence is None else sentence(data)


# ---------------------------------------------------------------- successes


def _created(data: Mapping[str, Any]) -> str:
    due = f" It's due {task_of(data).get('due')}." if task_of(data).get("due") else ""
    return f"Got it! Added {title_of(data)} to your list.{due}{_not_supported(data)}{_ELSE}"


def _not_supported(data: Mapping[str, Any]) -> str:
    return _UNSUPPORTED.get(tuple(data.get("unsupported") or ()), "")


def _completed(data: Mapping[str, Any]) -> str:
    return f"Great! I've marked {title_of(data)} as complete."


def _deleted(data: Mapping[str, Any]) -> str:
    return f"I've removed {title_of(data)} from your tasks."


def _updated(data: Mapping[str, Any]) -> str:
    changes: Mapping[str, Mapping[str, Any]] = data.get("changes") or {}
    title = changes["title"].get("from") if "title" in changes else task_of(data).get("title", "")
    if not changes:
        return f"{quoted(title)} is already like that."
    changed = joined([_changed(name, change.get("to")) for name, change in changes.items()])
    return f"Updated! {quoted(title)} now has {changed}.{_not_supported(data)}"


def _changed(name: str, to: Any) -> str:
    match name:
        case "title":
            return f"the title {quoted(to)}"
        case "priority":
            return f"the priority {to}"
        case "due":
            return f"the due date {to}" if to else "no due date"
        case "description":
            return "a new description" if to else "no description"
        case _:
            return f"the {name} {one_line(str(to), QUOTED_CHARS)}"


def _all_completed(data: Mapping[str, Any]) -> str:
    count = data.get("count", 0)
    return (
        f"Great! I've marked {counted(count)} as complete."
        if count
        else "There is nothing left to complete."
    )


def _completed_deleted(data: Mapping[str, Any]) -> str:
    count = data.get("count", 0)
    return (
        f"I've removed {counted(count, 'completed ')} from your list."
        if count
        else "There are no completed tasks to remove."
    )


def _undone(data: Mapping[str, Any]) -> str:
    undone: Mapping[str, Any] = data.get("undone") or {}
    titles: Sequence[str] = undone.get("tasks") or ()
    if not undone:
        return "There is nothing to undo."
    if not titles:
        return "I've undone that."
    shown = [quoted(title) for title in titles[:3]] + (
        [f"{len(titles) - 3} more"] if len(titles) > 3 else []
    )
    is_ = "is" if len(titles) == 1 else "are"
    return (
        f"I've undone that: {joined(shown)} {is_} {_NOW.get(str(undone.get('tool')), 'as before')}."
    )


_NOW = {
    "add_task": "off your list again",
    "complete_task": "open again",
    "complete_all": "open again",
    "delete_task": "back on your list",
    "delete_completed": "back on your list",
}
_SENTENCES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "add_task": _created,
    "complete_task": _completed,
    "update_task": _updated,
    "delete_task": _deleted,
    "complete_all": _all_completed,
    "delete_completed": _completed_deleted,
    "undo": _undone,
}


# ---------------------------------------------------------------- failures


def unclear(missing: str) -> str:
    return f"Could you provide more details about {missing}?"


def _of_error(call: ReplyCall, error: ToolError) -> str:
    query = call.arguments.get("task", "")
    match error.code:
        case "not_found":
            return (
                not_found(query)
                if query
                else "There is nothing to undo."
                if call.name == "undo"
                else one_line(error.message, REPLY_CHARS)
            )
        case "ambiguous":
            return _which(query, error.options)
        case "confirm":
            return one_line(error.message, REPLY_CHARS)
        case "invalid" if any(words in error.message for words in _SAID_AS_IT_IS):
            return one_line(f"{error.message[:1].upper()}{error.message[1:]}.", REPLY_CHARS)
        case "invalid":
            return unclear(_MISSING.get(call.name, "what you would like to do"))
        case _:
            return FAILURE


def _which(query: object, options: Sequence[str]) -> str:
    shown = [quoted(option) for option in options[:OPTIONS_MOST]]
    rest = [f"{len(options) - OPTIONS_MOST} more"] if len(options) > OPTIONS_MOST else []
    return (
        f"I found multiple tasks about {quoted(query)}. Which one: {joined([*shown, *rest], 'or')}?"
    )
