"""What the model of rules says where no tool can do at once what is wished."""

from __future__ import annotations

import re

import pytest

from tests.apps.assistant.people import People
from tests.apps.assistant.talking import Talking
from treadle.apps.assistant.embedded import EmbeddedModel


@pytest.mark.parametrize(("tasks", "told"), [(12, "12 tasks"), (100, "100 or more tasks")])
async def test_a_list_that_is_too_long_to_delete_at_once_is_emptied_another_way(
    people: People, tasks: int, told: str
):
    ada = Talking(people)
    await people.person("ada").work(lambda store: [store.add(f"task {i}") for i in range(tasks)])
    reply = (await ada.say("delete everything", model=EmbeddedModel())).response
    assert reply.startswith(f"That would change {told} at once")
    assert 'say "complete all", and then "clear completed"' in reply
    asked = (await ada.say("complete all", model=EmbeddedModel())).response
    assert asked.startswith("Complete 'task ")
    assert asked.endswith(
        f" and {tasks - 3} more? That's a big action. Confirm with 'yes complete all {tasks}'."
    )


async def _said(
    people: People, *messages: str
) -> tuple[list[str], list[tuple[str, str | None, bool]]]:
    """The replies, and title, due date and state of every task at the end."""
    ada = Talking(people)
    replies = [(await ada.say(message, model=EmbeddedModel())).response for message in messages]
    tasks = await people.person("ada").work(
        lambda store: [
            (t.title, None if t.due is None else t.due.isoformat(), t.completed)
            for t in sorted(store.list(), key=lambda task: task.title)
        ]
    )
    return replies, tasks


@pytest.mark.parametrize(
    "new",
    [
        "swap the due dates of milk and the report",
        "what about lisbon and the report?",
        "milk, and the dog ate my homework",
    ],
)
async def test_a_new_sentence_is_no_answer_to_which_task(people: People, new: str):
    added = [
        "add buy milk 2030-01-01",
        "add finish the quarterly report 2030-01-02",
        "add book the flight to lisbon 2030-01-03",
    ]
    _, tasks = await _said(people, *added, "remove its due date", new)
    assert [due for _, due, _ in tasks] == ["2030-01-03", "2030-01-01", "2030-01-02"]


async def test_a_report_of_what_was_done_is_no_answer_to_which_task_to_delete(people: People):
    replies, tasks = await _said(
        people, "add call mom", "add finish the report", "delete a task", "I called mom"
    )
    assert replies[-1] == "Great! I've marked 'call mom' as complete."
    assert len(tasks) == 2


@pytest.mark.parametrize(
    "answer", ["milk and the report", "buy milk, finish the report", "both milk and report"]
)
async def test_an_answer_that_is_titles_as_a_whole_is_one(people: People, answer: str):
    replies, _ = await _said(
        people, "add buy milk", "add finish the report", "complete a task", answer
    )
    assert "'buy milk'" in replies[-1]
    assert "'finish the report'" in replies[-1]


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (
            "delete pay rent",
            "Do you really want to delete 'pay rent'? Reply 'yes delete' to confirm.",
        ),
        ("complete pay rent", "Great! I've marked 'pay rent' as complete."),
        ("move pay rent to 2030-01-01", "Updated! 'pay rent' now has the due date 2030-01-01."),
        (
            "delete everything",
            "Do you really want to delete 'pay rent'? Reply 'yes delete' to confirm.",
        ),
        ("show my tasks", "1. ☐ pay rent"),
        ("undo", "I've undone that: 'pay rent' is off your list again."),
        (
            "complete all",
            "Complete 'pay rent'? That's a big action. Confirm with 'yes complete all 1'.",
        ),
        ("clear completed", "There are no completed tasks to remove."),
        ("complete tax return", "Got it! Added 'complete tax return' to your list. Anything else?"),
        ("change the oil", "Got it! Added 'change the oil' to your list. Anything else?"),
        ("delete old photos", "Got it! Added 'delete old photos' to your list. Anything else?"),
    ],
)
async def test_a_command_after_the_question_what_to_add_is_a_command_where_it_names_a_task(
    people: People, command: str, reply: str
):
    replies, _ = await _said(people, "add pay rent", "add", command)
    assert replies[-1] == reply


async def test_undo_takes_back_all_that_one_yes_did(people: People):
    titles = ["buy bread", "buy milk", "call mom", "pay rent", "water plants"]
    replies, tasks = await _said(
        people,
        *(f"add {title}" for title in titles),
        "delete everything",
        "yes delete all 5",
        "undo",
    )
    assert re.fullmatch(
        r"Delete ('[^']+', ){2}'[^']+' and 2 more\? That's a big action\. Confirm with 'yes delete all 5'\.",
        replies[5],
    )
    assert re.fullmatch(
        r"I've undone that: ('[^']+', ){2}'[^']+' and 2 more are back on your list\.", replies[-1]
    )
    assert [title for title, _, _ in tasks] == titles


async def test_undo_takes_back_one_message_at_a_time(people: People):
    replies, tasks = await _said(
        people, "add call mom", "add pay rent", "complete call mom and pay rent", "undo", "undo"
    )
    assert replies[-2] == "I've undone that: 'call mom' and 'pay rent' are open again."
    assert tasks == [("call mom", None, False)]


@pytest.mark.parametrize(
    ("message", "title", "said"),
    [
        (
            "remind me every monday at 9am to send the report",
            "send the report every monday at 9am",
            "I can't repeat tasks or remind you at a time.",
        ),
        (
            "remind me tomorrow at 8 to call Bob",
            "call Bob at 8",
            "I can't keep times of day or send reminders",
        ),
        (
            "add water plants every friday",
            "water plants every friday",
            "It's there once: I can't repeat tasks.",
        ),
        (
            "each week remind me to put the bins out",
            "put the bins out",
            "I can't repeat tasks or send reminders.",
        ),
        (
            "each week I have to put the bins out",
            "put the bins out",
            "I can't repeat tasks or send reminders.",
        ),
        ("repeat buy milk every week", "buy milk", "I can't repeat tasks or send reminders."),
        (
            "add write the weekly report tomorrow",
            "write the weekly report",
            "It's due 2026-11-21. Anything else?",
        ),
        ("add read chapter 9", "read chapter 9", "to your list. Anything else?"),
    ],
)
async def test_what_a_task_list_cannot_do_is_said(
    people: People, message: str, title: str, said: str
):
    replies, tasks = await _said(people, message)
    assert said in replies[0]
    assert [one for one, _, _ in tasks] in ([title], [])


@pytest.mark.parametrize(
    "message",
    ["set a reminder for friday", "remind me on friday", "set an alarm for friday"],
)
async def test_a_reminder_without_a_title_is_declined_and_keeps_its_day(
    people: People, message: str
):
    replies, tasks = await _said(people, message, "call bob")
    assert replies[0] == (
        "Could you provide more details about what you would like to add? "
        "I can't send reminders, only keep tasks with a day."
    )
    assert tasks == [("call bob", "2026-11-27", False)]


async def test_the_answer_to_what_to_add_may_name_another_day(people: People):
    _, tasks = await _said(people, "add an urgent task for friday", "call bob tomorrow")
    assert tasks == [("call bob", "2026-11-21", False)]


async def test_nothing_due_names_the_days_that_were_looked_at(people: People):
    replies, _ = await _said(
        people,
        "add pay rent 2030-01-01",
        "what is due this week?",
        "what is due tomorrow?",
        "what is due before friday?",
    )
    assert replies[1:] == [
        "Nothing is due from 2026-11-16 to 2026-11-22.",
        "Nothing is due on 2026-11-21.",
        "Nothing is due up to 2026-11-26.",
    ]


@pytest.mark.parametrize(
    "title",
    [
        "<b>",
        "buy <b>milk</b>",
        "read [draft] notes",
        "(optional) call",
        "fix <script>alert(1)</script>",
        "read {a} and <b> tags",
        "love <3 cats",
        "a < b",
    ],
)
async def test_brackets_of_a_title_stay(people: People, title: str):
    _, tasks = await _said(people, f"add {title}")
    assert [one for one, _, _ in tasks] == [title]


@pytest.mark.parametrize(
    "change",
    [
        "update buy milk to repeat every week",
        "make buy milk repeat weekly",
        "set buy milk to recurring",
    ],
)
async def test_a_change_that_asks_for_repetition_changes_nothing(people: People, change: str):
    replies, tasks = await _said(people, "add buy milk", change)
    assert replies[-1].startswith("I can't repeat tasks or send reminders.")
    assert tasks == [("buy milk", None, False)]


async def test_a_new_title_that_asks_for_repetition_is_answered_like_a_new_task(people: People):
    replies, tasks = await _said(people, "add buy milk", "rename buy milk to buy milk every week")
    assert (
        replies[-1]
        == "Updated! 'buy milk' now has the title 'buy milk every week'. It's there once: I can't repeat tasks."
    )
    assert tasks == [("buy milk every week", None, False)]


@pytest.mark.parametrize(("named", "other"), [("<{}>", "{}"), ("{}", "<{}>")])
async def test_brackets_tell_two_titles_apart(people: People, named: str, other: str) -> None:
    """Several pairs: without the rule, which of two tasks of one second is meant depends on their
    random ids.
    """
    letters = "bcdefg"
    added = [f"add {form.format(letter)}" for letter in letters for form in ("{}", "<{}>")]
    _, tasks = await _said(
        people,
        *added,
        *(f"rename {named.format(letter)} to {letter}{letter}" for letter in letters),
    )
    assert sorted(title for title, _, _ in tasks) == sorted(
        [*(other.format(letter) for letter in letters), *(letter * 2 for letter in letters)]
    )
