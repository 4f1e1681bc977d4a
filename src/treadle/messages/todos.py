"""The to-do list of a conversation: the model writes it whole with `todo_write`, and the last one
that was taken stands.

It is kept nowhere but in the calls themselves, and in the summary of those that left the view, so
that it lives as long as the session, and a restart finds it. Entry: `Todo`, `standing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from treadle._internal.json_text import encode_json, met
from treadle.messages.message import Message
from treadle.types import Value

TOOL = "todo_write"
"""The tool that writes it."""

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class Todo(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    content: str
    """What is to be done: "Run the tests"."""
    active_form: str = ""
    """The same while it is being done: "Running the tests"."""
    status: TodoStatus

    @property
    def now(self) -> str:
        """As it is called while it is being done."""
        return self.active_form or self.content


def written(arguments: object) -> tuple[Todo, ...] | None:
    """The list in the arguments of a call, as events have them; None where they hold none."""
    if not isinstance(arguments, dict):
        return None
    try:
        return msgspec.convert(arguments, met(_Written)).todos
    except msgspec.ValidationError:
        return None


class _Written(Value, frozen=True, kw_only=True):
    todos: tuple[Todo, ...]


def standing(messages: Iterable[Message]) -> tuple[Todo, ...]:
    """The list that a conversation stands at; empty where none was written, or it is out of view."""  # noqa: E501
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
    """Word for word: the last line of a summary, where `standing` finds it."""
    return encode_json(_Written(todos=tuple(todos))).decode()


def _written_in(arguments_json: str) -> tuple[Todo, ...] | None:
    try:
        return msgspec.json.decode(arguments_json, type=met(_Written)).todos
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def progress(todos: Sequence[Todo]) -> str:
    """In one line: how many are done, and what is being done now."""
    if not todos:
        return "The list is empty."
    done = sum(todo.status == "completed" for todo in todos)
    if done == len(todos):
        return f"All {done} done."
    now = next(
        (f"now: {todo.now}" for todo in todos if todo.status == "in_progress"), "none in progress"
    )
    return f"{done} of {len(todos)} done, {now}."
