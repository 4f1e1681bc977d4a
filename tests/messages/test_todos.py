"""The to-do list of a conversation is the last one that its calls wrote and a result confirmed."""

from __future__ import annotations

from treadle import Message, ToolResult
from treadle.messages.message import TextPart, ToolCall
from treadle.messages.todos import Todo, progress, standing, written
from treadle.types import new_id, now


def wrote(call_id: str, *contents: str, status: str = "pending") -> Message:
    todos = ",".join(
        f'{{"content": "{content}", "active_form": "", "status": "{status}"}}'
        for content in contents
    )
    return Message(
        id=new_id("msg"),
        created_at=now(),
        role="assistant",
        parts=(
            TextPart(text="on it"),
            ToolCall(id=call_id, name="todo_write", arguments_json=f'{{"todos": [{todos}]}}'),
        ),
    )


def answered(call_id: str, *, is_error: bool = False, name: str = "todo_write") -> Message:
    return Message(
        id=new_id("msg"),
        created_at=now(),
        role="tool",
        parts=(ToolResult(call_id=call_id, name=name, content="", is_error=is_error),),
    )


def todo(content: str, status: str = "pending", active_form: str = "") -> Todo:
    return Todo(content=content, active_form=active_form, status=status)  # pyright: ignore[reportArgumentType]  tests know the three


def test_the_last_list_that_was_taken_stands() -> None:
    talk = [
        Message.user("go"),
        wrote("1", "a", "b"),
        answered("1"),
        wrote("2", "c", status="completed"),
        answered("2"),
    ]
    assert standing(talk) == (todo("c", "completed"),)
    assert standing(talk[:4]) == (todo("a"), todo("b")), "it has no result yet"


def test_a_list_that_was_refused_leaves_the_one_before() -> None:
    assert standing(
        [wrote("1", "a"), answered("1"), wrote("2", "b"), answered("2", is_error=True)]
    ) == (todo("a"),)
    assert standing([wrote("1", "a"), answered("1", name="other")]) == ()
    assert standing([]) == ()


def test_an_empty_list_clears_it() -> None:
    assert standing([wrote("1", "a"), answered("1"), wrote("2"), answered("2")]) == ()


def test_what_is_no_list_is_none() -> None:
    broken = Message(
        id=new_id("msg"),
        created_at=now(),
        role="assistant",
        parts=(ToolCall(id="1", name="todo_write", arguments_json='{"todos": [{"content"'),),
    )
    assert standing([broken, answered("1")]) == ()
    assert written("text") is None
    assert written({"todos": [{"content": "a"}]}) is None
    assert written({"todos": [{"content": "a", "status": "pending"}]}) == (todo("a"),)


def test_one_line_says_how_far_it_is() -> None:
    assert progress([]) == "The list is empty."
    assert progress([todo("a", "completed"), todo("b", "completed")]) == "All 2 done."
    assert (
        progress([todo("a", "completed"), todo("b", "in_progress", "Doing b"), todo("c")])
        == "1 of 3 done, now: Doing b."
    )
    assert progress([todo("b", "in_progress"), todo("c")]) == "0 of 2 done, now: b."
    assert progress([todo("c")]) == "0 of 1 done, none in progress."
