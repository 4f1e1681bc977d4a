"""Replies about the results of tools, word for word (docs/internals/origins.md, Replies)."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.apps.assistant.caller import ToolError, ToolResponse
from treadle.apps.assistant.replies import FAILURE, ReplyCall, compose, reply_of, response_of

ID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"


def done(
    tool: str, /, *, turn: int = 1, arguments: dict[str, Any] | None = None, **data: Any
) -> ReplyCall:
    return ReplyCall(tool, arguments or {}, ToolResponse(success=True, data=data), turn)


def failed(
    tool: str,
    code: Any,
    message: str = "",
    /,
    *,
    turn: int = 1,
    options: tuple[str, ...] = (),
    **arguments: Any,
) -> ReplyCall:
    return ReplyCall(
        tool,
        arguments,
        ToolResponse(success=False, error=ToolError(code=code, message=message, options=options)),
        turn,
    )


def task(title: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "title": title,
        "completed": False,
        "priority": "Medium",
        "due": None,
        **fields,
    }


MILK = task("milk")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (done("add_task", task=MILK), "Got it! Added 'milk' to your list. Anything else?"),
        (done("complete_task", task=MILK), "Great! I've marked 'milk' as complete."),
        (done("delete_task", task=MILK), "I've removed 'milk' from your tasks."),
        (
            done(
                "update_task",
                task=MILK,
                changes={
                    "due": {"from": None, "to": "2026-12-01"},
                    "priority": {"from": "Medium", "to": "High"},
                },
            ),
            "Updated! 'milk' now has the due date 2026-12-01 and the priority High.",
        ),
        (
            done(
                "update_task",
                task=task("oat milk"),
                changes={"title": {"from": "milk", "to": "oat milk"}},
            ),
            "Updated! 'milk' now has the title 'oat milk'.",
        ),
        (
            done("update_task", task=MILK, changes={"due": {"from": "2026-12-01", "to": None}}),
            "Updated! 'milk' now has no due date.",
        ),
        (done("update_task", task=MILK, changes={}), "'milk' is already like that."),
        (
            failed("complete_task", "not_found", task="bread"),
            "I couldn't find a task about 'bread' in your list.",
        ),
        (failed("complete_task", "not_found", task=ID), "I couldn't find that task in your list."),
        (
            failed("complete_task", "ambiguous", options=("a", "b", "c"), task="x"),
            "I found multiple tasks about 'x'. Which one: 'a', 'b' or 'c'?",
        ),
        (
            failed("add_task", "invalid", "Wrong arguments for add_task: …"),
            "Could you provide more details about the task you would like to add?",
        ),
        (
            failed("add_task", "failed", "sqlite3.OperationalError"),
            "I'm having a bit of trouble right now. Please try again.",
        ),
        (failed("undo", "not_found", "There is nothing to undo."), "There is nothing to undo."),
        (
            failed(
                "delete_task",
                "confirm",
                "Do you really want to delete 'milk'? Reply 'yes delete' to confirm.",
            ),
            "Do you really want to delete 'milk'? Reply 'yes delete' to confirm.",
        ),
        (
            failed(
                "complete_all", "confirm", "That's a big action. Confirm with 'yes complete all 7'."
            ),
            "That's a big action. Confirm with 'yes complete all 7'.",
        ),
        (done("complete_all", count=7, tasks=[]), "Great! I've marked 7 tasks as complete."),
        (done("complete_all", count=0, tasks=[]), "There is nothing left to complete."),
        (
            done("delete_completed", count=1, tasks=["a"]),
            "I've removed 1 completed task from your list.",
        ),
        (
            done("undo", undone={"tool": "delete_task", "tasks": ["milk"]}),
            "I've undone that: 'milk' is back on your list.",
        ),
        (done("list_tasks", tasks=[], total=0), "Your list is empty. Tell me what to add."),
        (
            done("list_tasks", tasks=[], total=0, arguments={"search": "bread"}),
            "I couldn't find a task about 'bread' in your list.",
        ),
        (
            done("list_tasks", tasks=[], total=0, arguments={"search": "overdue"}),
            "Nothing is overdue.",
        ),
    ],
)
def test_each_outcome_of_a_tool_has_its_sentence(call: ReplyCall, said: str):
    assert reply_of(call) == said


def test_a_list_is_numbered_and_shows_what_is_out_of_the_ordinary():
    tasks = [
        task("milk"),
        task("rent", priority="High", due="2026-12-01"),
        task("bread", completed=True, priority="Low"),
    ]
    assert (
        compose([done("list_tasks", tasks=tasks, total=3)])
        == "1. ☐ milk\n2. ☐ rent (High, due 2026-12-01)\n3. ✓ bread (Low)"
    )


def test_of_a_long_list_there_is_what_fits_and_how_many_more_there_are():
    said = compose(
        [
            done(
                "list_tasks",
                tasks=[task(f"a task of some length, number {n}") for n in range(100)],
                total=240,
            )
        ]
    )
    *lines, last = said.splitlines()
    assert len("\n".join(lines)) <= 500
    assert last == f"…and {240 - len(lines)} more."


def test_several_results_are_said_in_order_and_equal_ones_once():
    said = compose(
        [
            done("add_task", task=task("a")),
            done("complete_task", task=task("b")),
            done("complete_task", task=task("b")),
            done("add_task", task=task("c")),
        ]
    )
    assert said.splitlines() == [
        "Got it! Added 'a' to your list.",
        "Great! I've marked 'b' as complete.",
        "Got it! Added 'c' to your list. Anything else?",
    ]


def test_a_list_that_was_looked_up_for_something_else_is_not_said():
    listing = done("list_tasks", tasks=[MILK], total=1)
    assert (
        compose([listing, done("complete_task", task=MILK, turn=2)])
        == "Great! I've marked 'milk' as complete."
    )
    assert compose([done("complete_task", task=MILK), listing]).splitlines() == [
        "Great! I've marked 'milk' as complete.",
        "1. ☐ milk",
    ]


def test_a_mistake_that_was_mended_is_not_said_and_one_of_another_wish_is():
    missed, found = (
        failed("complete_task", "not_found", task="mlk"),
        done("complete_task", task=MILK, turn=3, arguments={"task": ID}),
    )
    assert compose([missed, found]) == "Great! I've marked 'milk' as complete."
    other = done("complete_task", task=MILK, arguments={"task": "milk"}, turn=2)
    assert compose([failed("complete_task", "not_found", task="bread"), other]).startswith(
        "I couldn't find a task about 'bread'"
    )


def test_of_questions_that_were_gathered_only_the_last_is_asked_and_at_the_end():
    one = failed(
        "delete_task", "confirm", "Do you really want to delete 'a'? Reply 'yes delete' to confirm."
    )
    both = failed("delete_task", "confirm", "That's a big action. Confirm with 'yes delete all 2'.")
    said = compose([one, both, done("add_task", task=MILK)])
    assert said.splitlines() == [
        "Got it! Added 'milk' to your list. Anything else?",
        "That's a big action. Confirm with 'yes delete all 2'.",
    ]


def test_a_title_is_shortened_and_stands_on_one_line_without_what_turns_text():
    said = reply_of(done("add_task", task=task("\u202eevil\x1b[2J\nsecond " + "x" * 300)))
    assert "\u202e" not in said
    assert "\x1b" not in said
    assert "\n" not in said
    assert len(said) < 140


@pytest.mark.parametrize(
    "result", ["Traceback (most recent call last)", "{", "[1]", '{"success": "perhaps"}', "\ud800"]
)
def test_what_is_no_response_of_a_task_tool_is_a_failure(result: str):
    assert reply_of(ReplyCall("add_task", {}, response_of(result), 1)) == FAILURE
