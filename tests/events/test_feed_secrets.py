"""No known secret leaves a run's feed, whoever said it and however it was cut into deltas;
everything else leaves as it was said.
"""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle._internal.json_text import encode_json
from treadle._internal.redaction import Redactor
from treadle._internal.secret_patterns import MASK
from treadle.events.feed import EventStream, Feed
from treadle.events.hub import Hub
from treadle.journal.entries import ModelRequested, ModelResponded
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.message import Message
from treadle.models import model
from treadle.models.retry import ModelAttempt
from treadle.types import StopReason, Usage, now

KEY = "sk-ant-api03-CANARY-0815-4711"


async def read(stream: EventStream) -> list[Event]:
    stream.close()
    with anyio.fail_after(20):
        return [event async for event in stream]


class Told:
    """A feed that is told one response, and what leaves it."""

    def __init__(self, *secrets: str) -> None:
        self.stream, self.attempt, self.redactor = (
            EventStream(),
            ModelAttempt(set()),
            Redactor(secrets),
        )
        self.feed = Feed("r", None, Hub(), self.stream, redactor=lambda: self.redactor)
        self.feed.begin_message("m", self.attempt)

    def hear(self, *deltas: model.Delta) -> Told:
        for delta in deltas:
            self.attempt.fold.add(delta)
            self.feed.hear(delta)
        return self

    def whole(self) -> Told:
        """The response has come: its entry is in the journal."""
        message = Message(
            id="m", role="assistant", parts=self.attempt.fold.response().parts, created_at=now()
        )
        self.feed.appended(
            [
                ModelResponded(
                    at=now(),
                    turn=1,
                    attempt=1,
                    message=message,
                    usage=Usage(),
                    stop_reason=StopReason.COMPLETE,
                )
            ],
            2,
        )
        return self

    def events(self) -> list[Event]:
        return anyio.run(read, self.stream)


def end() -> model.ResponseEnd:
    return model.ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage())


def story(heard: list[Event]) -> list[str]:
    """Each delta with what it says, each other event by its name."""
    return [f"{event.__struct_config__.tag} {said(event)}".strip() for event in heard]


def said(event: Event) -> str:
    return (
        event.arguments if isinstance(event, events.ToolCallDelta) else getattr(event, "text", "")
    )


# ---------------------------------------------------------------- one response


def test_a_key_that_a_model_says_is_masked_in_deltas_and_message_alike() -> None:
    heard = (
        Told(KEY)
        .hear(
            model.TextDelta(f"It is {KEY[:9]}"),
            model.TextDelta(f"{KEY[9:]}, I think."),
            model.PartEnd(),
            end(),
        )
        .whole()
        .events()
    )
    assert story(heard) == ["text_delta It is", f"text_delta {MASK}, I think.", "usage", "message"]
    assert isinstance(heard[-1], events.MessageAdded)
    assert heard[-1].message.text == f"It is {MASK}, I think."


def test_what_cannot_be_the_beginning_of_a_key_leaves_at_once() -> None:
    told = Told(KEY).hear(model.TextDelta("It is sk-an"), model.TextDelta("other one."))
    assert story(told.events()) == ["text_delta It is", "text_delta sk-another one."]


@pytest.mark.parametrize(
    ("next_delta", "then"),
    [
        (model.PartEnd(), []),
        (end(), []),
        (model.Restart(), ["retry"]),
        (model.ReasoningDelta("hm"), ["reasoning_start", "reasoning_delta hm"]),
        (model.ToolCallStart("c", "look"), ["tool_call_delta"]),
    ],
)
def test_what_was_held_back_leaves_before_whatever_ends_its_part(
    next_delta: model.Delta, then: list[str]
) -> None:
    assert story(Told(KEY).hear(model.TextDelta("a sk-ant-"), next_delta).events()) == [
        "text_delta a",
        "text_delta sk-ant-",
        *then,
    ]


def test_what_was_held_back_leaves_before_a_retry_of_a_cut_attempt() -> None:
    told = Told(KEY).hear(model.ReasoningDelta("a sk-ant-"))
    told.feed.appended(
        [
            ModelRequested(
                at=now(), turn=1, attempt=2, failed=events.ErrorInfo(kind="network", message="cut")
            )
        ],
        3,
    )
    assert story(told.events()) == [
        "reasoning_start",
        "reasoning_delta a",
        "reasoning_delta sk-ant-",
        "reasoning_end",
        "retry",
    ]


def test_a_notice_in_the_middle_of_a_key_does_not_let_it_out() -> None:
    told = Told(KEY).hear(
        model.TextDelta(KEY[:9]), model.ModelNotice(f"slow, {KEY}"), model.TextDelta(f"{KEY[9:]}.")
    )
    assert story(told.events()) == [f"warning slow, {MASK}", f"text_delta {MASK}."]


def test_a_key_is_masked_in_the_name_and_arguments_of_a_call() -> None:
    deltas = [
        model.ToolCallStart(f"c-{KEY}", f"use_{KEY}"),
        model.ArgumentsDelta(f'{{"{KEY}": 1, "key": "{KEY[:5]}'),
        model.ArgumentsDelta(f'{KEY[5:]}"}}'),
    ]
    heard = Told(KEY).hear(*deltas, model.PartEnd(), end()).whole().events()
    assert not [event for event in heard if KEY.encode() in encode_json(event)]
    (asked,) = [event for event in heard if isinstance(event, events.ToolCallAsked)]
    pieces = [event for event in heard if isinstance(event, events.ToolCallDelta)]
    assert "".join(map(said, pieces)) == f'{{"{MASK}": 1, "key": "{MASK}"}}'
    assert {(event.call_id, event.name) for event in (asked, *pieces)} == {
        (f"c-{MASK}", f"use_{MASK}")
    }
    assert asked.arguments == {MASK: 1, "key": MASK}


def test_history_keeps_what_was_said() -> None:
    told = Told(KEY).hear(model.TextDelta(KEY), model.PartEnd(), end()).whole()
    assert told.attempt.fold.response().text == KEY


def test_the_secrets_of_each_message_are_those_of_its_beginning() -> None:
    told = Told().hear(model.TextDelta(KEY))
    told.redactor = Redactor([KEY])
    told.feed.begin_message("n", told.attempt)
    told.hear(model.TextDelta(KEY))
    assert story(told.events()) == [f"text_delta {KEY}", f"text_delta {MASK}"]


def test_what_one_message_held_back_is_not_said_in_the_next() -> None:
    """As where nobody listened any more when it was cut."""
    told = Told(KEY).hear(model.ReasoningDelta("sk-ant-"))
    told.feed.begin_message("n", ModelAttempt(set()))
    told.hear(model.ReasoningDelta("word"))
    assert story(told.events()) == ["reasoning_start", "reasoning_start", "reasoning_delta word"]


def test_without_known_secrets_every_delta_leaves_as_it_came() -> None:
    deltas = [
        model.TextDelta(""),
        model.TextDelta("a"),
        model.ToolCallStart("c", "look"),
        model.ArgumentsDelta(""),
        model.ArgumentsDelta("{}"),
    ]
    heard = Told().hear(*deltas).events()
    assert story(heard) == [
        "text_delta",
        "text_delta a",
        "tool_call_delta",
        "tool_call_delta",
        "tool_call_delta {}",
    ]


# ---------------------------------------------------------------- any response

SECRETS = st.lists(
    st.text(st.sampled_from("ab]"), min_size=8, max_size=10) | st.just(KEY), min_size=1, max_size=2
)
KINDS = st.sampled_from(["text", "reasoning", "call"])


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


def deltas_of(kind: str, number: int, pieces: list[str]) -> list[model.Delta]:
    match kind:
        case "text":
            return [model.TextStart(), *map(model.TextDelta, pieces), model.PartEnd()]
        case "reasoning":
            return [*map(model.ReasoningDelta, pieces), model.PartEnd()]
        case _:
            return [
                model.ToolCallStart(f"c{number}", "look"),
                *map(model.ArgumentsDelta, pieces),
                model.PartEnd(),
            ]


def parts_told(heard: list[Event]) -> list[tuple[str, str]]:
    """Neighbouring deltas of one part as one text."""
    parts: list[tuple[str, str]] = []
    for event in heard:
        name = event.call_id if isinstance(event, events.ToolCallDelta) else type(event).__name__
        if isinstance(event, events.DELTAS):
            before = parts.pop()[1] if parts and parts[-1][0] == name else ""
            parts.append((name, before + said(event)))
        else:
            parts.append((name, ""))
    return [(name, text) for name, text in parts if text]


@given(secrets=SECRETS, data=st.data())
def test_however_a_response_is_cut_nothing_known_leaves_and_all_else_does(
    secrets: list[str], data: st.DataObject
) -> None:
    piece = st.one_of(
        st.sampled_from(secrets),
        st.sampled_from(secrets).map(lambda s: s[:5]),
        st.text("ab] ", max_size=5),
    )
    texts = st.lists(piece, max_size=5).map("".join)
    story = data.draw(
        st.lists(st.tuples(KINDS, texts, st.lists(st.integers(0, 9), max_size=6)), max_size=5)
    )
    # each part can be told from the next
    story = [
        part
        for i, part in enumerate(story)
        if i == 0 or part[0] != story[i - 1][0] or part[0] == "call"
    ]
    told = Told(*secrets)
    for number, (kind, text, sizes) in enumerate(story):
        told.hear(*deltas_of(kind, number, cut(text, sizes)))
    heard = told.hear(end()).whole().events()
    names = {"text": "TextDelta", "reasoning": "ReasoningDelta"}
    expected = [
        (names.get(kind, f"c{i}"), told.redactor.exact(text))
        for i, (kind, text, _) in enumerate(story)
        if text
    ]
    assert [
        part
        for part in parts_told(heard)
        if part[0] in {*names.values(), *(f"c{i}" for i in range(len(story)))}
    ] == expected
    for event in heard:
        if isinstance(event, events.MessageAdded):
            assert event.message.text == "".join(
                text for name, text in expected if name == "TextDelta"
            )
            assert event.message.reasoning == "".join(
                text for name, text in expected if name == "ReasoningDelta"
            )
    assert not [secret for secret in secrets for _, text in parts_told(heard) if secret in text]


# ---------------------------------------------------------------- other events


def test_a_key_in_an_error_is_masked_as_well() -> None:
    told = Told(KEY)
    told.feed.say(events.ErrorRaised, {"kind": "auth", "message": f"{KEY} is refused"})
    (event,) = told.events()
    assert isinstance(event, events.ErrorRaised)
    assert event.message == f"{MASK} is refused"
