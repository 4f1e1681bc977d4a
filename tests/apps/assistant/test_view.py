"""What a chat may see of a run, live and out of the journal."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apps.assistant.people import People
from tests.apps.assistant.talking import FAILURE, Talking, call, calls
from tests.profiles import BY_CHANCE
from treadle.apps.assistant.view import ReplyView
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.metrics import RunTotals
from treadle.runtime.runtime import Runtime
from treadle.types import Outcome, Usage

_SEEN = (
    events.RunStart,
    events.ToolCallAsked,
    events.ToolCallStart,
    events.ToolCallEnd,
    events.Retry,
    events.Warned,
    events.TextDelta,
    events.ErrorRaised,
    events.RunEnd,
)


def streamed(seen: list[Event]) -> str:
    """What a reader has in the end who follows the deltas."""
    text = ""
    for event in seen:
        if isinstance(event, events.Retry):
            text = ""
        elif isinstance(event, events.TextDelta):
            text += event.text
    return text


def folded(raw: list[Event]) -> ReplyView:
    view = ReplyView()
    for event in raw:
        for _ in view.take(event):
            pass
    return view


async def test_words_leave_sentence_by_sentence_and_are_the_reply(people: People):
    ada = Talking(people)
    result = await ada.say(
        "hi", {"text": "Hello there. I'm your list 🎉. The API is down. What shall I do?"}
    )
    deltas = [event.text for event in ada.events if isinstance(event, events.TextDelta)]
    assert deltas == ["Hello there.", " I'm your list.", " What shall I do?"]
    assert result.response == "".join(deltas)


async def test_words_before_a_call_are_taken_back_and_the_reply_is_what_the_tool_gave(
    people: People,
):
    ada = Talking(people)
    result = await ada.say(
        "add milk",
        calls(call("add_task", title="milk"), text="Let me do that. One moment. "),
        {"text": "I did it."},
    )
    assert result.response == "Got it! Added 'milk' to your list. Anything else?"
    assert streamed(ada.events) == result.response


async def test_words_before_a_look_are_taken_back_before_the_call_is_shown(people: People):
    ada = Talking(people)
    result = await ada.say(
        "show",
        calls(call("list_tasks"), text="Let me look. One moment. "),
        {"text": "Here you are."},
    )
    assert [type(event).__name__ for event in ada.events[:5]] == [
        "RunStart",
        "TextDelta",
        "TextDelta",
        "Retry",
        "ToolCallAsked",
    ]
    assert (
        streamed(ada.events)
        == result.response
        == "Here you are.\nYour list is empty. Tell me what to add."
    )


async def test_nothing_but_what_a_chat_may_see_passes(people: People):
    ada = Talking(people)
    await ada.say(
        "show",
        calls(call("list_tasks")),
        {"reasoning": "The secret plan.", "text": "Here you are."},
    )
    assert {type(event) for event in ada.events} <= set(_SEEN)
    assert "secret plan" not in repr(ada.events)
    assert [event.seq for event in ada.events] == list(range(1, len(ada.events) + 1))
    *_, last = ada.events
    assert isinstance(last, events.RunEnd)
    assert last.text == last.output
    assert last.usage.total_tokens == 0


async def test_an_error_is_told_without_what_it_says_inside(people: People):
    ada = Talking(people)
    result = await ada.say("hi", {"text": "I was about to", "error": {"kind": "auth"}})
    assert (result.success, result.response, result.error) == (False, FAILURE, FAILURE)
    assert "script" not in json.dumps(
        [getattr(event, "message", getattr(event, "text", "")) for event in ada.events]
    )
    assert streamed(ada.events) == FAILURE


async def test_a_message_whose_only_call_failed_did_not_succeed(people: People):
    view = ReplyView()
    head: dict[str, Any] = {"run_id": "r", "session_id": None, "seq": 1, "at": people.clock()}
    asked = events.ToolCallAsked(**head, call_id="c", name="list_tasks", arguments={})
    begin = events.ToolCallStart(**head, call_id="c", name="list_tasks", effect="pure")
    crash = events.ToolCallEnd(
        **head,
        call_id="c",
        name="list_tasks",
        result="{",
        is_error=False,
        unknown=False,
        duration_ms=1,
    )
    ended: dict[str, Any] = {
        "output": None,
        "validated": False,
        "usage": Usage(),
        "turns": 2,
        "tool_calls": 1,
        "duration_s": 0.1,
        "total": RunTotals(),
    }
    for event in (
        asked,
        begin,
        crash,
        events.RunEnd(**head, outcome=Outcome.COMPLETED, text="Here you are.", **ended),
    ):
        list(view.take(event))
    assert view.result is not None
    assert (view.result.success, view.result.response, view.result.error) == (
        False,
        FAILURE,
        FAILURE,
    )


async def test_what_failed_inside_a_tool_is_shown_as_a_response_without_detail(people: People):
    view = ReplyView()
    head: dict[str, Any] = {"run_id": "r", "session_id": None, "seq": 1, "at": people.clock()}
    crash = events.ToolCallEnd(
        **head,
        call_id="c",
        name="add_task",
        result="sqlite3.OperationalError: locked",
        is_error=True,
        unknown=False,
        duration_ms=1,
    )
    (seen,) = view.take(crash)
    assert isinstance(seen, events.ToolCallEnd)
    assert json.loads(seen.result)["error"] == {"code": "failed", "message": FAILURE}


_CALLS = st.one_of(
    st.builds(
        lambda title: call("add_task", title=title), st.sampled_from(["milk", "bread", "the API"])
    ),
    st.builds(lambda task: call("complete_task", task=task), st.sampled_from(["milk", "nothing"])),
    st.builds(lambda task: call("delete_task", task=task), st.sampled_from(["milk", "bread"])),
    st.sampled_from(
        [
            call("list_tasks"),
            call("undo"),
            call("complete_all"),
            call("no_such_tool"),
            call("add_task"),
            call("add_task", title="x", user_id="eve"),
        ]
    ),
)
_TEXT = st.sampled_from(
    [
        "",
        "Hello there. How are you?",
        "I've deleted it. Bye.",
        "You have milk. The API",
        "One moment. ",
    ]
)
_SCRIPT = st.lists(
    st.builds(
        lambda several, text: calls(*several, text=text),
        st.lists(_CALLS, min_size=1, max_size=3),
        _TEXT,
    ),
    max_size=3,
)
_END = st.sampled_from(
    [
        {"text": "Hello. All good?"},
        {"text": "I've done it. Bye."},
        {"text": "It is the API."},
        {"text": "Half. ", "error": {"kind": "auth"}},
    ]
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(_SCRIPT, _END)
async def test_live_and_out_of_the_journal_the_reply_is_the_same(
    people: People, script: list[dict[str, Any]], end: dict[str, Any]
):
    async with Runtime.open() as runtime:
        ada = Talking(people, runtime=runtime)
        result = await ada.say("do it", *script, end)
        again = folded(await runtime.events(ada.run_id))
        assert again.result == result
        assert streamed(ada.events) == result.response
        *_, last = ada.events
        assert isinstance(last, events.RunEnd)
        assert last.text == result.response
