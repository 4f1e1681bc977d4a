"""The to-do list of a conversation, which the model replaces as a whole with `todo_write`.

The list is stored only in the messages: in the calls, and in summaries of removed messages. It
therefore lasts as long as the session. Entry points: `Todo`, `standing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from treadle._internal.json_text import encode_json, met
from treadle.messages.message import Message
from treadle.types import Value

TOOL = "todo_write"
"""Name of the tool that writes the list."""

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class Todo(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    content: str
    """The task, like "Run the tests"."""
    active_form: str = ""
    """The task while it is in progress, like "Running the tests"."""
    status: TodoStatus

    @property
    def now(self) -> str:
        """Form of the task to show while it is in progress: `active_form`, or `content` if that is
        empty.
        """
        return self.active_form or self.content


def written(arguments: object) -> tuple[Todo, ...] | None:
    """Return the list in the decoded arguments of a call; None if they contain no valid list."""
    if not isinstance(arguments, dict):
        return None
    try:
        return msgspec.convert(arguments, met(_Written)).todos
    except msgspec.ValidationError:
        return None


class _Written(Value, frozen=True, kw_only=True):
    todos: tuple[Todo, ...]


def standing(messages: Iterable[Message]) -> tuple[Todo, ...]:
    """Return the current list of a conversation; empty if these messages contain none."""
    asked: dict[str, tuple[Todo, ...]] = {}
    last: tuple[Todo, ...] = ()
    for message in messages:
        if message.is_summary:
            last = _written_in(message.text.rpartition("\n")[2]) or last
        for call in message.tool_calls:
            if call.name == TOOL and (todos := _written_in(call.arguments_json)) is not None:
                asked[call.id] = todos
        for result in message.tool_results:
            if result.name == TOOL and not result.is_error:
                last = asked.get(result.call_id, last)
    return last


def in_one_line(todos: Sequence[Todo]) -> str:
    """Encode the list as the last line of a summary, where `standing` finds it."""
    return encode_json(_Written(todos=tuple(todos))).decode()


def _written_in(arguments_json: str) -> tuple[Todo, ...] | None:
    try:
        return msgspec.json.decode(arguments_json, type=met(_Written)).todos
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def progress(todos: Sequence[Todo]) -> str:
    """Return the progress in one line: the number of completed items, and the current one."""
    if not todos:
        return "The list is empty."
    done = sum(todo.status == "completed" for todo in todos)
    if done == len(todos):
        return f"All {done} done."
    now = next(
        (f"now: {todo.now}" for todo in todos if todo.status == "in_progress"), "none in progress"
    )
    return f"{done} of {len(todos)} done, {now}."
