"""The view of a long conversation: shrunk between runs, in whole exchanges, rarely, and with a
receipt from which it is the same again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import treadle
from tests.doubles import (
    PlayedModel,
    agent,
    asks,
    call,
    check_history,
    gives,
    kind_of,
    label,
    open_runtime,
    says,
    text,
)
from tests.profiles import BY_CHANCE
from treadle.journal.window import MAX_SESSION_MESSAGES, WindowReceipt, window
from treadle.messages import events
from treadle.messages.message import Message, Part, TextPart, ToolCall, ToolResult
from treadle.testing import ScriptedModel

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)


def said(role: Any, number: int, *parts: Part) -> Message:
    return Message(
        id=f"m{number}",
        role=role,
        parts=parts or (TextPart(text=f"words {number}"),),
        created_at=AT,
    )


def conversation(shapes: list[list[int]]) -> list[Message]:
    """For each exchange: words of a person, then turns with so many calls each, the last of which
    is an answer.
    """
    messages: list[Message] = []

    def add(role: str, *parts: Part) -> None:
        messages.append(said(role, len(messages), *parts))

    for turns in shapes:
        add("user")
        for calls in turns:
            ids = [f"c{len(messages)}_{i}" for i in range(calls)]
            add(
                "assistant",
                TextPart(text="So."),
                *[ToolCall(id=call_id, name="look") for call_id in ids],
            )
            if ids:
                add(
                    "tool",
                    *[ToolResult(call_id=call_id, name="look", content="ok") for call_id in ids],
                )
    return messages


conversations = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=30).map(conversation)


@given(conversations, st.integers(4, 40))
def test_what_stays_is_the_first_message_and_the_newest_whole_exchanges(
    messages: list[Message], most: int
) -> None:
    cut = window(messages, most)
    assert treadle.check_history(messages) == []
    if cut is None:
        people = [i for i, message in enumerate(messages) if message.role == "user"]
        assert len(messages) <= most or len(people) < 3, "only one long exchange stays whole"
        return
    kept = cut.of(messages)
    assert kept[0] == messages[0]
    assert kept[1:] == messages[len(messages) - len(kept) + 1 :]
    assert kept[1].role == "user"
    assert cut.dropped == len(messages) - len(kept) > 0
    assert (cut.pinned, cut.kept_from, cut.kind) == (messages[0].id, kept[1].id, "window")
    check_history(kept)
    begins = [i for i, message in enumerate(kept) if message.role == "user"]
    assert len(kept) <= most // 2 or begins[-1] == 1 or (begins == [0, 1]), (
        "more than half only where one exchange is as long"
    )


@settings(suppress_health_check=[*BY_CHANCE, HealthCheck.filter_too_much])
@given(conversations, st.integers(4, 40))
def test_a_view_that_was_shrunk_stays_the_same_until_it_is_full_again(
    messages: list[Message], most: int
) -> None:
    cut = window(messages, most)
    assume(cut is not None)
    assert cut is not None
    kept = cut.of(messages)
    assert cut.of(kept) == kept, "the receipt says the same of what it left"
    assert WindowReceipt.from_json(cut.to_json()) == cut
    assume(len(kept) <= most // 2)
    number = len(messages)
    while len(kept) <= most:
        assert window(kept, most) is None
        kept = [*kept, said("user", number), said("assistant", number + 1)]
        number += 2
    assert window(kept, most) is not None


@given(conversations, conversations)
def test_a_receipt_that_was_made_for_other_messages_drops_nothing(
    messages: list[Message], others: list[Message]
) -> None:
    strangers = [
        Message(id=f"x{message.id}", role=message.role, parts=message.parts, created_at=AT)
        for message in others
    ]
    cut = window(messages, 10)
    assume(cut is not None)
    assert cut is not None
    assert cut.of(strangers) == strangers
    assert cut.of(messages[1:]) == messages[1:], "without the pinned one they are others too"


def test_a_hundred_messages_stay_and_of_more_the_newest_fifty() -> None:
    messages = conversation([[0]] * 51)
    assert window(messages[:MAX_SESSION_MESSAGES]) is None
    cut = window(messages)
    assert cut is not None
    assert [message.id for message in cut.of(messages)] == [
        "m0",
        *(f"m{i}" for i in range(54, 102)),
    ]


def test_an_exchange_that_is_longer_than_the_view_stays_whole() -> None:
    messages = conversation([[0], [0], [1] * 80 + [0]])
    cut = window(messages)
    assert cut is not None
    assert cut.of(messages) == [messages[0], *messages[4:]]
    assert window(cut.of(messages)) is None, "there is nothing left that could leave"


def test_a_call_at_the_very_beginning_does_not_lose_its_result() -> None:
    pair = [
        said("assistant", 900, ToolCall(id="c", name="look")),
        said("tool", 901, ToolResult(call_id="c", name="look", content="ok")),
    ]
    messages = [*pair, *conversation([[0]] * 60)]
    cut = window(messages)
    assert cut is not None
    check_history(cut.of(messages))
    assert cut.of(messages)[0] == messages[2]


def test_a_conversation_in_which_no_person_speaks_stays_whole() -> None:
    assert window([said("assistant", i) for i in range(200)]) is None


# ---------------------------------------------------------------- in a session


async def filled(runs: int) -> tuple[Any, Any, ScriptedModel]:
    rt, model = open_runtime(), ScriptedModel([says(f"answer {i}") for i in range(runs + 60)])
    session = rt.session("s", agent=agent(model))
    for i in range(runs):
        await session.send(f"question {i}")
    return rt, session, model


async def test_a_session_is_shrunk_when_the_next_run_begins_and_says_so() -> None:
    rt, session, model = await filled(51)
    assert len(await session.history()) == 102
    async with session.stream("and now?") as stream:
        seen = [event async for event in stream]
    kept = [
        "question 0",
        *(word for i in range(27, 51) for word in (f"question {i}", f"answer {i}")),
    ]
    assert [message.text for message in model.requests[-1].messages] == [*kept, "and now?"]
    (compacted,) = [event for event in seen if isinstance(event, events.Compacted)]
    assert [kind_of(event) for event in seen][:3] == ["run_start", "compaction", "turn_start"]
    assert isinstance(compacted.receipt, dict)
    assert compacted.receipt["dropped"] == 53  # type: ignore[index]  any JSON
    assert [message.text for message in stream.result.new_messages] == ["and now?", "answer 51"]
    assert await session.history() == stream.result.messages
    assert len(stream.result.messages) == 51
    assert [label(record.entry) for record in await rt.journal.read(stream.run_id)][:2] == [
        "run.started",
        "compaction",
    ]


async def test_the_view_then_stays_for_many_runs_and_is_the_same_when_it_is_read_again() -> None:
    rt, session, _ = await filled(51)
    first = await session.send("and now?")
    later = first
    for i in range(25):
        later = await session.send(f"more {i}")
        assert later.messages[: len(first.messages)] == first.messages
    assert len(later.messages) == 101
    again = await session.send("again")
    assert again.messages[0].text == "question 0"
    assert len(again.messages) == 51
    for result in (first, later, again):
        assert (await rt.replay(result.run_id)).messages == result.messages
    fork = await rt.fork(again.run_id, turn=0, text="other", agent=agent(PlayedModel(text("fine"))))
    assert fork.messages[:-2] == again.messages[:-2]


async def test_what_left_the_view_is_still_found() -> None:
    rt, session, _ = await filled(51)
    await session.send("and now?")
    assert [found.excerpt for found in rt.sessions.search("answer 7")][-1] == "answer 7"


async def test_a_run_in_flight_is_never_shrunk() -> None:
    rt = open_runtime()
    script = [*(asks(call("look", at=i)) for i in range(70)), says("done")]
    result = await rt.run(agent(script, gives("look")), "go", session="s")
    assert len(result.messages) == 142
    assert "compaction" not in [
        label(record.entry) for record in await rt.journal.read(result.run_id)
    ]


@pytest.mark.parametrize("name", ["cancelled", "limited"])
async def test_a_run_that_ends_early_has_shrunk_its_session_all_the_same(name: str) -> None:
    rt, session, _ = await filled(51)
    if name == "cancelled":
        async with session.stream("and now?") as stream:
            stream.cancel()
            async for _ in stream:
                pass
        result = stream.result
    else:
        result = await session.send("and now?", limits=treadle.Limits(tokens=1))
    assert (result.outcome, len(result.messages)) == (
        "cancelled" if name == "cancelled" else "token_limit",
        50,
    )
    assert await session.history() == result.messages
    assert (await rt.replay(result.run_id)).messages == result.messages
