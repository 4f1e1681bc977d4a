"""A run's own stream: nothing but outdated progress is lost and nothing comes out of order, however
slowly it is read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.events.feed import STREAM_BUFFER, EventStream
from treadle.events.joining import JOINED_CHARS
from treadle.messages.events import (
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolProgress,
    TurnStart,
)

AT = datetime(2026, 11, 20, tzinfo=UTC)
SHARED: dict[str, Any] = {"run_id": "r", "session_id": None, "at": AT}


def text(seq: int, piece: str = "x", *, message: str = "m", attempt: int = 1) -> TextDelta:
    return TextDelta(**SHARED, seq=seq, message_id=message, attempt=attempt, text=piece)


def thought(seq: int, piece: str = "x", *, message: str = "m", attempt: int = 1) -> ReasoningDelta:
    return ReasoningDelta(**SHARED, seq=seq, message_id=message, attempt=attempt, text=piece)


def arguments(
    seq: int, piece: str = "x", *, call: str = "c", message: str = "m", attempt: int = 1
) -> ToolCallDelta:
    return ToolCallDelta(
        **SHARED,
        seq=seq,
        message_id=message,
        attempt=attempt,
        call_id=call,
        name="f",
        arguments=piece,
    )


def progress(seq: int, said: str, *, call: str = "c") -> ToolProgress:
    return ToolProgress(**SHARED, seq=seq, call_id=call, text=said)


def turn(seq: int) -> TurnStart:
    return TurnStart(**SHARED, seq=seq, turn=seq)


async def read(stream: EventStream) -> list[Event]:
    stream.close()
    with anyio.fail_after(20):
        return [event async for event in stream]


def said(event: Event) -> str:
    return event.arguments if isinstance(event, ToolCallDelta) else getattr(event, "text", "")


# ---------------------------------------------------------------- in order


async def test_a_reader_gets_each_event_as_it_comes() -> None:
    stream, heard = EventStream(), list[Event]()

    async def listen() -> None:
        async for event in stream:
            heard.append(event)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            for number in range(1, 4):
                await anyio.wait_all_tasks_blocked()
                assert len(heard) == number - 1
                stream.put(text(number))
            await anyio.wait_all_tasks_blocked()
            stream.put(turn(4))
            stream.put(turn(5))
            stream.close()
    assert [event.seq for event in heard] == [1, 2, 3, 4, 5]


async def test_a_stream_can_be_read_after_its_end() -> None:
    stream = EventStream()
    for number in range(3):
        stream.put(turn(number))
    stream.close()
    stream.close()
    assert [event.seq for event in await read(stream)] == [0, 1, 2]
    assert await read(stream) == []


async def test_while_the_reader_keeps_up_nothing_is_joined() -> None:
    stream = EventStream()
    for number in range(STREAM_BUFFER):
        stream.put(text(number))
    assert len(await read(stream)) == STREAM_BUFFER


# ---------------------------------------------------------------- a slow reader


def filled() -> EventStream:
    """Full: from here on neighbouring deltas are joined."""
    stream = EventStream()
    for number in range(STREAM_BUFFER):
        stream.put(turn(number))
    return stream


@pytest.mark.parametrize("make", [text, thought, arguments])
async def test_neighbouring_pieces_of_one_thing_are_joined(make: Any) -> None:
    stream = filled()
    for number, piece in enumerate("abc", STREAM_BUFFER):
        stream.put(make(number, piece))
    rest = (await read(stream))[STREAM_BUFFER:]
    assert [(said(event), event.seq) for event in rest] == [("abc", STREAM_BUFFER + 2)]
    assert type(rest[0]) is type(make(0))


async def test_of_calls_that_never_stop_talking_a_slow_reader_hears_the_last_word_of_each() -> None:
    stream = filled()
    for seq in range(STREAM_BUFFER, 9 * STREAM_BUFFER, 2):
        stream.put(progress(seq, f"a{seq}", call="a"))
        stream.put(progress(seq + 1, f"b{seq}", call="b"))
    rest = (await read(stream))[STREAM_BUFFER:]
    last = 9 * STREAM_BUFFER - 2
    assert [(said(event), event.seq) for event in rest] == [
        (f"a{last}", last),
        (f"b{last}", last + 1),
    ]


async def test_progress_from_before_another_event_is_kept() -> None:
    stream, told = (
        filled(),
        [progress(STREAM_BUFFER, "1"), turn(STREAM_BUFFER + 1), progress(STREAM_BUFFER + 2, "2")],
    )
    for event in told:
        stream.put(event)
    assert (await read(stream))[STREAM_BUFFER:] == told


async def test_while_the_reader_keeps_up_all_progress_is_told() -> None:
    stream = EventStream()
    for seq in range(STREAM_BUFFER):
        stream.put(progress(seq, str(seq)))
    assert len(await read(stream)) == STREAM_BUFFER


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (text(1, "a"), text(2, "b", attempt=2)),
        (text(1, "a"), text(2, "b", message="n")),
        (text(1, "a"), thought(2, "b")),
        (thought(1, "a"), thought(2, "b", attempt=2)),
        (thought(1, "a"), thought(2, "b", message="n")),
        (arguments(1, "a"), arguments(2, "b", call="d")),
        (arguments(1, "a"), arguments(2, "b", attempt=2)),
        (arguments(1, "a"), text(2, "b")),
        (text(1, "a"), turn(2)),
        (turn(1), text(2, "b")),
    ],
)
async def test_what_belongs_to_different_things_is_kept_apart(first: Event, second: Event) -> None:
    stream = filled()
    stream.put(first)
    stream.put(second)
    assert (await read(stream))[STREAM_BUFFER:] == [first, second]


@pytest.mark.parametrize("make", [text, arguments])
async def test_a_joined_piece_does_not_grow_without_end(make: Any) -> None:
    """Else each piece would copy all that came before it."""
    stream, pieces = filled(), [str(number % 10) * 1_000 for number in range(200)]
    for number, piece in enumerate(pieces):
        stream.put(make(number, piece))
    rest = (await read(stream))[STREAM_BUFFER:]
    assert "".join(map(said, rest)) == "".join(pieces)
    assert max(len(said(event)) for event in rest) < JOINED_CHARS + 1_000
    assert len(rest) < len(pieces) / 10


steps = st.lists(
    st.one_of(
        st.builds(
            text,
            st.just(0),
            st.text(max_size=3),
            message=st.sampled_from("mn"),
            attempt=st.integers(1, 2),
        ),
        st.builds(
            thought,
            st.just(0),
            st.text(max_size=3),
            message=st.sampled_from("mn"),
            attempt=st.integers(1, 2),
        ),
        st.builds(
            arguments,
            st.just(0),
            st.text(max_size=3),
            call=st.sampled_from("cd"),
            attempt=st.integers(1, 2),
        ),
        st.builds(turn, st.just(0)),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_is_joined_it_is_the_same_story(story: list[Event]) -> None:
    async def told() -> list[Event]:
        stream = filled()
        for number, event in enumerate(story, STREAM_BUFFER):
            stream.put(msgspec.structs.replace(event, seq=number))
        return (await read(stream))[STREAM_BUFFER:]

    heard = anyio.run(told)
    assert _blocks(heard) == _blocks(story)
    assert [event.seq for event in heard] == sorted({event.seq for event in heard})


def _blocks(story: list[Event]) -> list[Any]:
    """Each run of deltas of one thing, as one text; every other event by itself."""

    def thing(event: Event) -> tuple[Any, ...]:
        return (
            type(event),
            *(getattr(event, name, None) for name in ("message_id", "attempt", "call_id")),
        )

    return [
        (key, "".join(map(said, group)) if key[0] is not TurnStart else len(list(group)))
        for key, group in groupby(story, thing)
    ]
