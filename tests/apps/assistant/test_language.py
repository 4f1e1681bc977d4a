"""English task talk, purely: a text and what was said before, and the wishes in it.

Whole conversations stand in utterances/dev.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.apps.assistant.language import understood
from treadle.apps.assistant.language.acting import (
    KnownTask,
    PlannedCall,
    TooManyTasks,
    calls_of,
    looks,
)
from treadle.apps.assistant.language.conversation import Dialogue, Speech
from treadle.apps.assistant.language.dates import day_at, period_at
from treadle.apps.assistant.language.wishes import AddTask, Filter, Say, Show, TaskChange
from treadle.apps.assistant.language.wording import Phrases, keys_of, known, near, words_of
from treadle.apps.assistant.matching import distance

TODAY = date(2026, 11, 20)
WORDS = sorted(
    known(
        """add buy milk and then delete the task complete all mark done as to by friday due high priority , . ; " ' it second show list what is today
        don't undo rename set change 12/24 2026-12-01 in 2 weeks of with description note: 👩‍👩‍👧 לקנות ( ) ? 1. - “ ” „ everything except both remind me i"""
    )
    | {"\u202e", "\u200d"}
)


def calls(text: str, *said: Speech) -> list[PlannedCall]:
    return calls_of(understood(text, TODAY, said=said), {})


def answer(text: str, *said: Speech) -> str:
    (wish,) = understood(text, TODAY, said=said)
    return wish.text if isinstance(wish, Say) else ""


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-11-20"),
        ("tommorow", "2026-11-21"),
        ("friday", "2026-11-27"),
        ("this friday", "2026-11-20"),
        ("next friday", "2026-11-27"),
        ("sunday", "2026-11-22"),
        ("next sunday", "2026-11-29"),
        ("monday week", "2026-11-30"),
        ("in 2 weeks", "2026-12-04"),
        ("a week from friday", "2026-12-04"),
        ("in a couple of days", "2026-11-22"),
        ("in 3 months", "2027-02-20"),
        ("12/24", "2026-12-24"),
        ("24.12.2026", "2026-12-24"),
        ("Dec. 1st", "2026-12-01"),
        ("5th of January", "2027-01-05"),
        ("December 5, 2027", "2027-12-05"),
        ("the 31st", "2026-12-31"),
        ("end of the month", "2026-11-30"),
        ("end of the week", "2026-11-20"),
        ("next week", "2026-11-23"),
        ("next month", "2026-12-01"),
        ("2/29", "2028-02-29"),
        ("day after tomorrow", "2026-11-22"),
        ("30 feb", None),
        ("2026-02-30", None),
        ("sundae", None),
        ("mondays", None),
        ("2.1", None),
    ],
)
def test_days_as_people_say_them(text: str, day: str | None):
    found = day_at(keys_of(words_of(text)), 0, TODAY)
    assert (None if found is None else found[1].isoformat()) == day


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("this week", "due:2026-11-16..2026-11-22"),
        ("next week", "due:2026-11-23..2026-11-29"),
        ("in the next 3 days", "due:2026-11-20..2026-11-23"),
        ("before friday", "due:2000-01-01..2026-11-26"),
        ("past due", "overdue"),
        ("without a due date", "due:none"),
        ("on monday", "due:2026-11-23"),
    ],
)
def test_spans_of_days_that_a_list_is_asked_for(text: str, search: str):
    found = period_at(keys_of(words_of(text)), 0, TODAY)
    assert found is not None
    assert found[1] == search


@pytest.mark.parametrize(
    ("today", "search"),
    [
        (date(2026, 11, 20), "due:2026-11-16..2026-11-22"),
        (date(2026, 11, 21), "due:2026-11-16..2026-11-27"),
        (date(2026, 11, 22), "due:2026-11-16..2026-11-28"),
        (date(2026, 11, 23), "due:2026-11-23..2026-11-29"),
    ],
)
def test_at_a_weekend_this_week_is_also_the_seven_days_that_begin_today(today: date, search: str):
    assert period_at(["this", "week"], 0, today) == (2, search)


def test_a_typing_error_is_one_only_where_one_word_is_meant():
    assert near("dlete", ("delete", "complete")) == "delete"
    assert near("cat", ("cut", "cot")) is None
    assert distance("abcd", "abdc", 2) == 1
    assert distance("delete", "rename", 2) == 3


def test_the_longest_phrase_counts_whatever_may_be_missing():
    table = Phrases({"mark it? as? done": 1, "mark": 2})
    assert table.at(["mark", "it", "as", "done", "now"]) == (4, 1)
    assert table.at(["mark", "milk"]) == (1, 2)
    assert table.ending(["so", "mark", "done"]) == (2, 1)
    assert table.whole(["mark", "as", "done"]) == 1
    assert table.whole(["mark", "as"]) is None


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("add milk, bread and eggs", ["milk", "bread", "eggs"]),
        ("add buy milk and eggs", ["buy milk and eggs"]),
        ("add bread and butter", ["bread and butter"]),
        ('add "milk, bread and eggs"', ["milk, bread and eggs"]),
        ("add a task to review and delete old photos", ["review and delete old photos"]),
        ("remind me to finish and send the essay", ["finish and send the essay"]),
        ("add 'undo everything' and \"help\"", ["undo everything", "help"]),
        ("add call Bob (the plumber)", ["call Bob (the plumber)"]),
        ("add buy milk; call mum; pay rent", ["buy milk", "call mum", "pay rent"]),
        ("add C++ homework", ["C++ homework"]),
    ],
)
def test_titles_are_kept_as_they_were_written(text: str, titles: Sequence[str]):
    wishes = understood(text, TODAY)
    assert (
        [wish.title for wish in wishes if isinstance(wish, AddTask)]
        == titles
        == [getattr(wish, "title", None) for wish in wishes]
    )


@pytest.mark.parametrize(
    "text",
    [
        "don't delete it",
        "do not delete the milk",
        "never delete my tasks",
        "please don't clear the completed ones",
        "i don't want to delete milk",
        "no, don't complete it",
        "delete everything except milk",
        "delete all but the milk",
        "complete all but not milk",
        "delete something",
        "delete it",
        "delete number 4",
        "should I delete the milk?",
        "what would delete all do?",
        "do you delete tasks?",
        "i never deleted it",
        "all",
        "everything",
        "nothing",
    ],
)
def test_nothing_is_taken_away_that_nobody_clearly_asked_for(text: str):
    assert all(isinstance(wish, (Say, Show)) for wish in understood(text, TODAY))


def test_what_is_unclear_asks_back_with_the_words_of_the_specification_and_does_nothing_else():
    assert answer("delete") == "Could you provide more details about which task to delete?"
    assert answer("add milk by 30 feb") == "Could you provide more details about the date '30 feb'?"
    assert (
        answer("complete milk and then postpone the report")
        == "Could you provide more details about the new due date?"
    )


LIST: Speech = (
    "assistant",
    "1. ☐ Buy milk\n2. ✓ Pay rent (High, due 2026-12-01)\n3. ☐ Call 'Bob' (the plumber)\n…and 4 more.",
)


def test_numbers_mean_the_list_that_was_shown():
    assert calls("complete the second one", LIST) == [
        PlannedCall("complete_task", {"task": "Pay rent"})
    ]
    assert calls("delete numbers 1 and 3", LIST) == [
        PlannedCall("delete_task", {"task": t}) for t in ("Buy milk", "Call 'Bob' (the plumber)")
    ]
    assert calls("mark the first two as done", LIST) == [
        PlannedCall("complete_task", {"task": t}) for t in ("Buy milk", "Pay rent")
    ]
    assert calls("delete number 9", LIST) == []


def test_it_means_what_was_spoken_of_last():
    said: Speech = ("assistant", "Got it! Added 'Mum's \"new\" task' to your list. Anything else?")
    assert calls("make it urgent", said) == [
        PlannedCall("update_task", {"task": 'Mum\'s "new" task', "priority": "High"})
    ]
    assert calls("add milk and set it to low priority") == [
        PlannedCall("add_task", {"title": "milk", "priority": "Low"})
    ]


WHICH: tuple[Speech, ...] = (
    ("user", "move call to friday"),
    (
        "assistant",
        "I found multiple tasks about 'call'. Which one: 'Call Ann', 'Call Bob' or 'Call Mum's boss'?",
    ),
)


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("the first", ["Call Ann"]),
        ("3", ["Call Mum's boss"]),
        ("bob", ["Call Bob"]),
        ("the last one", ["Call Mum's boss"]),
        ("Call Ann", ["Call Ann"]),
    ],
)
def test_an_answer_to_which_one_does_what_was_asked_for(text: str, titles: Sequence[str]):
    assert calls(text, *WHICH) == [
        PlannedCall("update_task", {"task": title, "due": "2026-11-27"}) for title in titles
    ]


def test_another_wish_is_no_answer():
    assert calls("show my tasks", *WHICH) == [PlannedCall("list_tasks", {})]


def test_an_answer_fills_the_gap_that_was_asked_about():
    asked: tuple[Speech, ...] = (
        ("user", "postpone milk"),
        ("assistant", "Could you provide more details about the new due date?"),
    )
    assert calls("to next monday", *asked) == [
        PlannedCall("update_task", {"task": "milk", "due": "2026-11-23"})
    ]


def test_several_names_are_one_title_or_several_as_the_list_says():
    wishes = understood("complete milk and eggs", TODAY)
    (look,) = looks(wishes)
    one, two = (
        [KnownTask("1", "Buy milk and eggs")],
        [KnownTask("1", "milk"), KnownTask("2", "eggs")],
    )
    assert calls_of(wishes, {look: one}) == [
        PlannedCall("complete_task", {"task": "milk and eggs"})
    ]
    assert calls_of(wishes, {look: two}) == [
        PlannedCall("complete_task", {"task": "milk"}),
        PlannedCall("complete_task", {"task": "eggs"}),
    ]


@pytest.mark.parametrize(
    ("text", "titles", "done"),
    [
        ("I bought the milk", ["Drink milk", "Buy milk"], ["Buy milk"]),
        ("the dog has been walked", ["Feed the dog", "Walk the dog"], ["Walk the dog"]),
        (
            "I paid the rent and called mum",
            ["Call mum", "Pay the rent"],
            ["Pay the rent", "Call mum"],
        ),
        ("the rent was increased", ["Pay the rent"], []),
        ("I fed the dog", ["Walk the dog"], ["feed dog"]),  # which is not found
        ("I wish I had paid the rent", ["Pay the rent"], []),
    ],
)
def test_what_is_told_to_be_done_is_the_task_that_asks_for_just_that(
    text: str, titles: Sequence[str], done: Sequence[str]
):
    wishes, tasks = understood(text, TODAY), [KnownTask(title, title) for title in titles]
    calls = calls_of(wishes, {look: tasks for look in looks(wishes)})
    assert [call.arguments["task"] for call in calls if call.tool == "complete_task"] == done


def test_a_task_that_is_there_gets_the_day_instead_of_coming_twice():
    wishes = understood("call mum tomorrow", TODAY)
    (look,) = looks(wishes)
    assert calls_of(wishes, {look: [KnownTask("1", "Call mum")]}) == [
        PlannedCall("update_task", {"task": "1", "due": "2026-11-21"})
    ]
    assert calls_of(wishes, {look: [KnownTask("1", "Call mum", True)]}) == [
        PlannedCall("add_task", {"title": "call mum", "due": "2026-11-21"})
    ]


def test_a_group_is_looked_up_and_never_done_by_half():
    wishes = understood("complete all tasks due today", TODAY)
    assert looks(wishes) == (Filter("open", None, "due:2026-11-20"),)
    assert wishes == (TaskChange("complete", Filter("open", None, "due:2026-11-20")),)
    with pytest.raises(TooManyTasks):
        calls_of(wishes, {looks(wishes)[0]: [KnownTask(str(i), "x") for i in range(10)]})


@given(
    st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join),
)
def test_whatever_is_said_is_answered_within_ten_wishes(text: str, before: str):
    said: tuple[Speech, ...] = (
        ("user", before),
        (
            "assistant",
            f"I found multiple tasks about 'x'. Which one: '{before}', 'b'?\n1. ☐ {before}",
        ),
    )
    longer: tuple[Speech, ...] = (
        *said,
        ("user", before),
        ("assistant", "Could you provide more details about it?"),
    )
    for history in ((), said, longer):
        assert 1 <= len(understood(text, TODAY, said=history)) <= 10


@given(st.text(max_size=200))
def test_no_text_is_too_odd(text: str):
    assert understood(text, TODAY, said=(("assistant", text), ("user", text)))
    assert isinstance(Dialogue.of((("assistant", text),)), Dialogue)


def test_a_text_of_ten_thousand_characters_gives_ten_calls_at_most():
    for text in (
        "add milk. " * 1000,
        "add " + "a, " * 3300,
        "add:\n" + "- x\n" * 2000,
        "delete " + "1, " * 3000,
        "\"'" * 5000,
        "“”" * 5000,
    ):
        assert len(understood(text, TODAY)) <= 10


def test_a_period_at_the_end_of_a_text_has_no_more_words_than_there_are():
    """C11: it took the word after it, too, and failed where there was none."""
    for text in (
        ("nights in 3 days replaced " * 400)[:10_000],
        "show nights in 3 days",
        "what is due on 2026-12-01",
    ):
        assert understood(text, TODAY)
    assert answer(("nights in 3 days replaced " * 400)[:10_000])


VOCABULARY = (
    *WORDS,
    *[
        "nights",
        "3",
        "days",
        "replaced",
        "next",
        "week",
        "between",
        "until",
        "every",
        "half",
        "past",
        "open",
    ],
)


@given(st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6), st.integers(1, 60))
def test_no_repetition_of_words_is_too_odd(words: list[str], length: int):
    assert understood((" ".join(words) + " ") * 3, TODAY)
    assert understood((" ".join(words) + " ")[:length], TODAY)
