"""The `todo_write` tool: replaces the model's to-do list as a whole.

Nothing is stored here: the list is read from the call itself (todos.py). Entry point: `TodoWrite`.
"""

from __future__ import annotations

from typing import Any, get_args

from typing_extensions import override

from treadle.messages.todos import TOOL, Todo, TodoStatus, progress
from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.tool import InvalidArguments, ToolContext

MAX_TODOS = 100
MAX_CHARS = 500
"""Maximum length of each text, in characters."""

_TODO = closed_object(
    {
        "content": {"type": "string", "description": "What is to be done: 'Run the tests'."},
        "active_form": {
            "type": "string",
            "description": "The same while it is being done: 'Running the tests'.",
        },
        "status": {
            "type": "string",
            "enum": [*get_args(TodoStatus)],
            "description": "At most one is in_progress.",
        },
    },
    required=["content", "active_form", "status"],
)


class TodoWriteArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    todos: tuple[Todo, ...]


class TodoWrite(Builtin[TodoWriteArguments]):
    name = TOOL
    effect = "pure"
    arguments = TodoWriteArguments
    example = (
        '{"todos": [{"content": "Run the tests", "active_form": "Running the tests", "status": '
        '"in_progress"}]}'
    )
    parameters = closed_object(
        {
            "todos": {
                "type": "array",
                "items": _TODO,
                "description": "The whole list, in order; replaces the previous one.",
            }
        },
        required=["todos"],
    )

    @override
    def check(self, arguments: TodoWriteArguments) -> None:
        todos = arguments.todos
        if len(todos) > MAX_TODOS:
            raise InvalidArguments(
                f"The list has {len(todos)} entries; at most {MAX_TODOS} are possible. Join "
                "small steps, and leave out what was done long ago."
            )
        for i, todo in enumerate(todos):
            if not todo.content.strip():
                raise InvalidArguments(f"todos[{i}].content is empty: say what is to be done.")
            if len(todo.content) > MAX_CHARS or len(todo.active_form) > MAX_CHARS:
                raise InvalidArguments(
                    f"todos[{i}] is too long: at most {MAX_CHARS} characters for content and for "
                    "active_form."
                )
        if len(active := [todo.content for todo in todos if todo.status == "in_progress"]) > 1:
            raise InvalidArguments(
                f"{len(active)} entries are in_progress ({active[0]!r}, {active[1]!r}): one at "
                "most. Set the others to pending or completed."
            )

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: TodoWriteArguments) -> str:
        return progress(arguments.todos)
