"""`todo_write` takes the whole list, with one entry in progress at most, and says how far it is."""

from __future__ import annotations

import json

import pytest

from tests.doubles import asks, call, says
from tests.tools.conftest import Use
from treadle import Agent, Runtime
from treadle.messages.todos import standing
from treadle.testing import ScriptedModel
from treadle.tools.builtin.todo_write import MAX_TODOS, TodoWrite
from treadle.tools.tool import InvalidArguments

TODO_WRITE = TodoWrite()


def entry(content: str, status: str) -> dict[str, str]:
    return {"content": content, "active_form": f"{content}ing", "status": status}


async def test_the_result_counts(use: Use) -> None:
    shown = await use(
        TODO_WRITE,
        todos=[entry("read", "completed"), entry("writ", "in_progress"), entry("test", "pending")],
    )
    assert shown == "1 of 3 done, now: writing."
    assert await use(TODO_WRITE, todos=[]) == "The list is empty."


async def test_the_active_form_may_be_missing(use: Use) -> None:
    assert (
        await use(TODO_WRITE, todos=[{"content": "read", "status": "in_progress"}])
        == "0 of 1 done, now: read."
    )


@pytest.mark.parametrize(
    ("todos", "said"),
    [
        (
            [entry("a", "in_progress"), entry("b", "in_progress")],
            r"2 entries are in_progress \('a', 'b'\): one at most",
        ),
        ([entry(" ", "pending")], r"todos\[0\].content is empty"),
        ([entry("x" * 501, "pending")], r"todos\[0\] is too long"),
        ([entry("a", "pending")] * (MAX_TODOS + 1), "at most 100 are possible"),
        (
            [entry("a", "done")],
            r"todos\[0\].status must be one of 'pending', 'in_progress', 'completed', not \"done\"",
        ),
        ([{"task": "a", "status": "pending"}], r"there is no 'task' in todos\[0\]"),
        ("a list", "todos must be an array"),
    ],
)
def test_a_wrong_list_is_told_how_to_be_right(todos: object, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        TODO_WRITE.parse(json.dumps({"todos": todos}))


async def test_it_lives_as_long_as_the_session_and_in_every_mode() -> None:
    script = [
        asks(call("todo_write", todos=[entry("read", "in_progress")])),
        says("one"),
        says("two"),
    ]
    async with Runtime.open("memory:") as runtime:
        session = runtime.session(
            "s", agent=Agent(name="coder", model=ScriptedModel(script), tools=[TODO_WRITE])
        )
        await session.send("go", mode="plan")
        await session.send("and now?", mode="plan")
        assert [todo.now for todo in standing(await session.history())] == ["reading"]
