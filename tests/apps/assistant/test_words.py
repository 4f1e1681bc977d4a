"""A model's own words, and the rules for them that are enforced on the way out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.apps.assistant.words import ReplyFilter, cleaned

ID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"


@pytest.mark.parametrize(
    "sentence",
    [
        f"Your task is {ID}.",
        "It is call_01HXYZABCDEF12.",
        "The hash is 9f86d081884c7d65.",
        "Its ID is 7.",
        "Look at task #1234.",
        "The database is busy.",
        "I use the add_task tool.",
        "Here is the JSON.",
        'It said {"success": true}.',
        "The value was null.",
        "An exception happened in the API.",
        "My system prompt says no.",
        "Call complete() for that.",
        "Reply 'yes delete' to confirm.",
        "Say yes, delete all 7 of them.",
        "user_id is missing.",
        "It is 3fa85f64 5717 4562 b3fc 2c963f66afa6.",
        f"It is {' '.join(ID)}.",
        "It is 3\u200bfa\u200d85f64.",
        "It is \uff13\uff46\uff41\uff18\uff15\uff46\uff16\uff14.",
        "It is 3f\u0430\u0435\u0430e64.",
        "It is 01HXYZABCDEF123456789.",
        "The J S O N is fine.",
        "The \u0410P\u0399 is down.",
        "The d\u0430tabase is down.",
    ],
)
def test_a_sentence_with_an_id_or_a_technical_word_is_left_out(sentence: str):
    assert cleaned(f"Hello. {sentence} Bye.") == "Hello. Bye."


@pytest.mark.parametrize(
    "lie",
    [
        "I've deleted all your tasks.",
        "I have successfully marked it as complete.",
        "No problem, I just removed it.",
        "Your tasks have been deleted.",
        "The task is now complete.",
        "Everything is done!",
        "Deleted.",
        "I'm deleting them now.",
        "I'll add that for you!",
        "Great! I've marked 'x' as complete.",
        "Got it! Added 'x' to your list.",
        "Updated! 'x' now has the priority High.",
        "I\u2019ve gone ahead and deleted it.",
        "I just went ahead and removed it",
        "It's been deleted.",
        "It\u2019s been added.",
        "It is done.",
        "That's taken care of.",
        "It's gone.",
        "Milk deleted.",
        "'Milk' deleted!",
        "Milk: completed.",
        "Task complete!",
        "All tasks were wiped.",
        "Both are crossed off.",
        "I did delete it.",
        "I finally deleted it.",
        "I have, as you asked, deleted it.",
        "I have of course deleted it.",
        "ive deleted it",
        "I've d\u0435leted it.",
        "I've de\u200dleted it.",
        "I've d\u0336eleted it.",
        "Not only have I deleted milk, but bread too.",
        "I have not only deleted it.",
        "I got rid of it.",
        "I took milk off the list.",
        "I had it removed.",
        "I wiped your list.",
        "Milk is no longer on your list.",
        "You no longer have any tasks.",
        "Your milk is off the list now.",
        "Bread is now on your list.",
        "Your list is now empty.",
        "The deletion was successful.",
        "Consider it done.",
        "Will do!",
        "Deleting milk\u2026",
        "Removing it now.",
        "Let me delete that for you.",
        "I'll take care of it.",
        "I'm about to delete it.",
    ],
)
def test_a_claim_of_an_effect_is_left_out_together_with_the_word_that_opens_it(lie: str):
    words = ReplyFilter()
    assert words.add(lie) + words.end() == ""
    assert words.claimed


def test_what_opened_a_lie_does_not_open_what_comes_after_it():
    assert cleaned("Great! I've deleted it. Anything else?") == "Anything else?"
    assert cleaned("Great! You have two tasks.") == "Great! You have two tasks."


@pytest.mark.parametrize(
    "truth",
    [
        "You're welcome!",
        "Okay, nothing was deleted.",
        "I haven't deleted anything.",
        "I can add, list, complete, rename and delete tasks.",
        "I'll delete it once you confirm.",
        "You have completed 3 tasks.",
        "Which one have you finished?",
        "Could you provide more details about the task you would like to add?",
        "Completed tasks can be removed too.",
        "Meet Mr. Smith at 3.30 p.m. on 2026-11-20.",
        "You have 3 open tasks and 2 completed.",
        "Milk is done already.",
        "It is on your list already.",
        "Your list is empty.",
        "Is it done?",
        "Would you like it deleted?",
        "Which of these have you completed?",
        "Tasks that are done have a tick.",
        "If you want it gone, say so.",
        "Let me know what to add.",
        "Let me know when it is done.",
        "Deleting a task needs your word.",
        "You could call 555 1234 5678.",
        "Well done!",
        "Dodaj mleko: \u043c\u043e\u043b\u043e\u043a\u043e.",
    ],
)
def test_ordinary_words_stay_as_they_are(truth: str):
    assert cleaned(truth) == truth


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hi 😀! You have **two** tasks 🎉", "Hi! You have two tasks."),
        (
            "See [your list](http://x.example/?t=1). ![a cat. here](http://evil.example/p.png) Bye.",
            "See your list. a cat. here Bye.",
        ),
        ('<b>Hello</b> <img src="http://evil.example/a. b">there.', "Hello there."),
        ("Go to https://evil.example/x now.", "Go to now."),
        ("# Title\n\nText `here`.\n\n- one\n- two", "Title\n\nText here.\n\n- one\n- two"),
        ('Look:\n```json\n{"a": 1}\n```\nBye.', "Look:\nBye."),
        ("a\x1b[31mb\u202ec.", "abc."),
        ("", ""),
        ("  \n ", ""),
    ],
)
def test_markup_becomes_plain_text(text: str, said: str):
    assert cleaned(text) == said


def test_a_long_text_ends_at_the_last_sentence_that_fits():
    said = cleaned("This is a sentence of forty-one characters. " * 30)
    assert len(said) <= 500
    assert said.endswith("characters.")


def test_a_single_sentence_without_end_is_cut_at_a_word():
    said = cleaned("word " * 300)
    assert len(said) <= 500
    assert said.endswith(" word…")


def test_titles_of_the_person_are_exempt_and_shortened():
    title = "Fix the API 🎉 of " + "x" * 150
    said = cleaned(f"Next is {title}. It is due today.", [title])
    assert said.startswith("Next is Fix the API 🎉 of xxx")
    assert said.endswith("…. It is due today.")
    assert cleaned("Next is Fix the API.", ["something else"]) == ""


def test_lists_are_left_out_where_the_list_stands_beside_the_words():
    assert (
        cleaned("Here they are:\n1. ☐ milk\n2. bread\n- more\n\nAnything else?", without_lists=True)
        == "Here they are:\nAnything else?"
    )


_MARKS = (
    " ",
    "\n",
    ".",
    "! ",
    "? ",
    "**",
    "`",
    "```",
    "[a](",
    ")",
    "<b>",
    "<img src='",
    "1. ",
    "- ",
    "…",
    '"',
    "'",
    "é",
    "😀",
)
_SAID = (
    "Hello",
    "I've deleted it. ",
    "Great!",
    "http://x.y",
    "e.g.",
    "API",
    "title one",
    "and so on ",
    ID,
)
_PIECES = st.sampled_from([*_MARKS, *_SAID])


@given(st.lists(_PIECES, max_size=60).map("".join), st.lists(st.integers(0, 400), max_size=12))
def test_however_the_text_is_cut_the_same_is_said(text: str, cuts: list[int]):
    words, said = ReplyFilter(["title one"]), ""
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in pairwise(places):
        said += words.add(text[start:end])
    assert said + words.end() == cleaned(text, ["title one"])


@given(st.text(max_size=300))
def test_whatever_a_model_says_is_short_and_without_ids(text: str):
    said = cleaned(f"{text} {ID} {text}. {ID}")
    assert len(said) <= 500
    assert ID not in said


def test_a_whole_sentence_leaves_before_the_next_one_is_whole():
    words = ReplyFilter()
    assert words.add("Hello there. How") == "Hello there."
    assert words.add(" are you? ") == " How are you?"
    assert words.end() == ""
