"""Conversations in memory: every operation, and that threads do not get into each other's way."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given

from tests.strategies import nasty_text, values_of
from treadle import MAX_SESSION_MESSAGES, SessionStore
from treadle.errors import AgentError
from treadle.journal.session_names import JOINER, check_session_id, title_of
from treadle.messages.message import Message, TextPart, ToolCall, decode_message


@pytest.fixture
def store() -> SessionStore:
    return SessionStore()


def texts(store: SessionStore, session_id: str) -> list[str]:
    return [message.text for message in store.get_messages(session_id)]


# ---------------------------------------------------------------- create, get, list, delete


def test_a_new_session_is_called_so_and_is_the_current_one(store: SessionStore) -> None:
    made = store.create()
    assert (made.title, made.message_count) == ("New Session", 0)
    assert made.id.startswith("session_")
    assert made.created_at == made.updated_at
    assert made.created_at.tzinfo is UTC
    assert store.get(made.id) == made
    assert store.current() == made


def test_a_session_may_have_a_title_and_an_id_from_the_start(store: SessionStore) -> None:
    made = store.create("Trip", session_id="ada")
    assert (made.id, made.title) == ("ada", "Trip")
    assert store.create("  ", session_id="eve").title == "New Session"


def test_an_id_is_taken_once(store: SessionStore) -> None:
    store.create("first", session_id="ada")
    with pytest.raises(AgentError, match="session 'ada' already exists") as caught:
        store.create("second", session_id="ada")
    assert caught.value.kind == "invalid"
    assert [(one.id, one.title) for one in store.list()] == [("ada", "first")]


@pytest.mark.parametrize(
    "session_id", ["a", "ada", "Ada Lovelace", "é", "2026-11-20", "a.b", "..a", "x" * 128]
)
def test_what_can_be_an_id(store: SessionStore, session_id: str) -> None:
    assert store.create(session_id=session_id).id == session_id


@pytest.mark.parametrize(
    "session_id",
    ["", ".", "..", "a/b", "/", "a\\b", "a\0", "a\nb", "\x1b[31m", "a\ud800", "\u202e", "x" * 129],
)
def test_what_cannot_be_an_id(store: SessionStore, session_id: str) -> None:
    with pytest.raises(AgentError, match="is not a valid session ID") as caught:
        store.create(session_id=session_id)
    assert caught.value.kind == "invalid"
    with pytest.raises(AgentError, match="is not a valid session ID"):
        check_session_id(session_id)
    assert store.list() == []


def test_what_is_not_there_is_not_found(store: SessionStore) -> None:
    assert store.get("x") is None
    assert store.set_current("x") is False
    assert store.delete("x") is False
    assert store.add_message("x", Message.user("hi")) is False
    assert store.add_messages("x", []) is False
    assert store.get_messages("x") == []
    assert store.clear_messages("x") is False
    assert store.update_title("x", "y") is False
    assert store.list() == []


def test_sessions_are_listed_by_their_last_change_newest_first(store: SessionStore) -> None:
    for name in "abc":
        store.create(session_id=name)
    assert [one.id for one in store.list()] == ["c", "b", "a"]
    store.add_message("a", Message.user("hi"))
    assert [one.id for one in store.list()] == ["a", "c", "b"]
    store.update_title("b", "again")
    assert [one.id for one in store.list()] == ["b", "a", "c"]
    store.clear_messages("c")
    assert [one.id for one in store.list()] == ["c", "b", "a"]
    store.get_messages("a")
    store.set_current("a")
    assert [one.id for one in store.list()] == ["c", "b", "a"]


def test_a_deleted_session_is_gone_with_its_messages(store: SessionStore) -> None:
    store.create(session_id="a")
    store.add_message("a", Message.user("hi"))
    assert store.delete("a") is True
    assert (store.get("a"), store.get_messages("a"), store.list()) == (None, [], [])
    assert store.create(session_id="a").message_count == 0


# ---------------------------------------------------------------- the current one


def test_the_current_session_is_made_on_first_use(store: SessionStore) -> None:
    made = store.current()
    assert made.title == "New Session"
    assert store.current() == made
    assert store.list() == [made]


def test_the_current_session_can_be_switched(store: SessionStore) -> None:
    store.create(session_id="a")
    store.create(session_id="b")
    assert store.current().id == "b"
    assert store.set_current("a") is True
    assert store.current().id == "a"
    assert store.set_current("x") is False
    assert store.current().id == "a"


def test_when_the_current_session_is_deleted_the_next_use_makes_another(
    store: SessionStore,
) -> None:
    store.create(session_id="a")
    store.create(session_id="b")
    store.delete("b")
    assert store.current().id not in {"a", "b"}
    assert len(store.list()) == 2


def test_deleting_another_leaves_the_current_one(store: SessionStore) -> None:
    store.create(session_id="a")
    store.create(session_id="b")
    store.delete("a")
    assert store.current().id == "b"


# ---------------------------------------------------------------- messages


def test_messages_are_kept_in_order(store: SessionStore) -> None:
    store.create(session_id="a")
    assert store.add_message("a", Message.user("1")) is True
    assert store.add_messages("a", [Message.assistant("2"), Message.user("3")]) is True
    assert texts(store, "a") == ["1", "2", "3"]
    found = store.get("a")
    assert found is not None
    assert found.message_count == 3
    assert found.updated_at >= found.created_at


@given(values_of(Message))
def test_a_message_is_given_back_as_it_was(message: Message) -> None:
    store = SessionStore()
    store.create(session_id="a")
    store.add_message("a", message)
    assert store.get_messages("a") == [message]


def test_what_a_newer_version_wrote_is_still_there(store: SessionStore) -> None:
    stored = b'{"id":"m","role":"user","parts":[{"type":"hologram","x":1e400}],"created_at":"2026-11-20T10:00:00Z"}'
    store.create(session_id="a")
    store.add_message("a", decode_message(stored))
    assert store.get_messages("a")[0].to_json() == stored


def test_what_is_read_is_a_copy(store: SessionStore) -> None:
    store.create(session_id="a")
    store.add_message("a", Message.user("1"))
    copy: Any = store.get_messages("a")
    copy.clear()
    assert texts(store, "a") == ["1"]
    sessions = store.list()
    sessions.clear()
    assert len(store.list()) == 1


def test_all_messages_are_added_or_none(store: SessionStore) -> None:
    def half() -> Any:
        yield Message.user("1")
        raise RuntimeError("no more")

    store.create(session_id="a")
    with pytest.raises(RuntimeError, match="no more"):
        store.add_messages("a", half())
    assert texts(store, "a") == []
    found = store.get("a")
    assert found is not None
    assert found.title == "New Session"


def test_clearing_keeps_the_session_and_its_title(store: SessionStore) -> None:
    store.create(session_id="a")
    store.add_message("a", Message.user("about trains"))
    assert store.clear_messages("a") is True
    found = store.get("a")
    assert found is not None
    assert (found.title, found.message_count, texts(store, "a")) == ("about trains", 0, [])


def test_more_than_the_view_holds_is_kept(store: SessionStore) -> None:
    store.create(session_id="a")
    store.add_messages("a", [Message.user(f"{n}") for n in range(MAX_SESSION_MESSAGES + 5)])
    assert len(store.get_messages("a")) == 105


# ---------------------------------------------------------------- titles


def title(store: SessionStore, session_id: str = "a") -> str:
    found = store.get(session_id)
    assert found is not None
    return found.title


def test_the_first_words_of_a_person_name_a_session(store: SessionStore) -> None:
    store.create(session_id="a")
    store.add_messages(
        "a",
        [
            Message.system("You are kind."),
            Message.assistant("Hello!"),
            Message.user("  \n "),
            Message.user("\n Where is it warm?\nNow."),
        ],
    )
    assert title(store) == "Where is it warm?"
    store.add_message("a", Message.user("And tomorrow?"))
    assert title(store) == "Where is it warm?"


def test_a_name_that_was_given_stays(store: SessionStore) -> None:
    store.create("Trip", session_id="a")
    store.add_message("a", Message.user("Where is it warm?"))
    assert title(store) == "Trip"


def test_a_session_can_be_renamed_and_unnamed(store: SessionStore) -> None:
    store.create(session_id="a")
    assert store.update_title("a", "  Trip ") is True
    assert title(store) == "Trip"
    store.update_title("a", " ")
    assert title(store) == "New Session"
    store.add_message("a", Message.user("Where is it warm?"))
    assert title(store) == "Where is it warm?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi", "hi"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("word " * 20, "word " * 11 + "word…"),
        ("\r\n\t a \u2028 b", "a"),
        ("", "New Session"),
        (" \n ", "New Session"),
        ("\x1b[31mred\x07 alert", "[31mred alert"),
        ("a\tb\xa0\u202ec", "a b c"),
        ("👩\u200d🚀 up", "👩\u200d🚀 up"),
        ("\x00\n\u200b\nyes", "yes"),
    ],
)
def test_a_title_is_the_first_line_that_says_something(text: str, expected: str) -> None:
    assert title_of(text) == expected


@given(nasty_text)
def test_a_title_is_short_and_one_line_of_what_can_be_shown(text: str) -> None:
    made = title_of(text)
    assert 0 < len(made) <= 60
    assert made == made.strip()
    assert made.replace(JOINER, "").isprintable()


# ---------------------------------------------------------------- threads


def test_threads_lose_nothing_of_each_other(store: SessionStore) -> None:
    names, rounds, ready = [f"s{n}" for n in range(4)], 40, threading.Barrier(8)
    for name in names:
        store.create("t", session_id=name)

    def work(number: int) -> None:
        ready.wait(5)
        for turn in range(rounds):
            name = names[(number + turn) % len(names)]
            store.add_messages(
                name,
                [
                    Message.user(f"{number} {turn} a"),
                    Message.assistant(
                        [ToolCall(id="c", name="f"), TextPart(text=f"{number} {turn} b")]
                    ),
                ],
            )
            store.list()
            store.get_messages(name)
            store.set_current(name)
            store.update_title(name, f"{number}")
            extra = store.create()
            store.delete(extra.id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    said = [texts(store, name) for name in names]
    assert sorted(text for one in said for text in one) == sorted(
        f"{n} {turn} {half}" for n in range(8) for turn in range(rounds) for half in "ab"
    )
    for one in said:
        assert all(
            first[:-1] == second[:-1] for first, second in zip(one[::2], one[1::2], strict=True)
        )
    assert {one.id for one in store.list()} == set(names)


def test_threads_that_need_a_current_session_make_one(store: SessionStore) -> None:
    ready = threading.Barrier(8)

    def current(_: int) -> str:
        ready.wait(5)
        return store.current().id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(current, range(8)))) == 1
    assert len(store.list()) == 1


def test_a_title_is_what_the_person_said_and_not_the_file_that_goes_along() -> None:
    assert (
        title_of("<file path='a.py'>\nx = 1\n</file>\n<file path='b.py'>\ny\n</file>Mend it")
        == "Mend it"
    )
    assert title_of("<file path='a.py'>\nx = 1\n</file>") == "<file path='a.py'>"
