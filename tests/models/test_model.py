"""The fold of deltas into a response, the history that encodes each message once, and a request by
itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import cuts, nasty_text, values_of
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.message import Message, Part, ProviderPart, ReasoningPart, TextPart, ToolCall
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Fold,
    ModelNotice,
    ModelRequest,
    ModelResponse,
    PartEnd,
    ReasoningDelta,
    ReasoningStart,
    ResponseEnd,
    Restart,
    TextDelta,
    TextStart,
    ToolCallStart,
    WholePart,
    complete,
    fold_stream,
)
from treadle.testing import ScriptedModel
from treadle.types import Settings, StopReason, SystemBlock, Usage

END = ResponseEnd(
    StopReason.COMPLETE,
    Usage(input_tokens=3, output_tokens=5),
    raw_stop_reason="end_turn",
    id="resp_1",
    model="m-1",
    provider_data='{"container":"c"}',
)


def folded(deltas: Sequence[Delta], taken: Sequence[str] = ()) -> Fold:
    fold = Fold(taken)
    for delta in deltas:
        fold.add(delta)
    return fold


def parts_of(*deltas: Delta) -> tuple[Part, ...]:
    return folded([*deltas, END]).response().parts


# ---------------------------------------------------------------- any cut gives the same response


@st.composite
def streams(draw: Callable[[Any], Any]) -> tuple[list[Delta], tuple[Part, ...]]:
    """The deltas of a response, its texts cut anywhere, and the parts that they must give."""
    deltas: list[Delta] = []
    parts: list[Part] = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([TextPart, ReasoningPart, ToolCall, ProviderPart]))
        part = draw(values_of(kind))
        if isinstance(part, ToolCall):
            part = ToolCall(
                id=f"call_{number}", name=part.name, arguments_json=part.arguments_json or "{}"
            )
        elif isinstance(part, TextPart):
            part = TextPart(
                text=part.text or "x", provider=part.provider, provider_data=part.provider_data
            )
        deltas += draw(_deltas_of(part))
        parts.append(part)
        deltas += draw(st.sampled_from([[], [ModelNotice("a word between")]]))
    kept = [
        part
        for part in parts
        if not (isinstance(part, ReasoningPart) and not (part.text or part.provider_data))
    ]
    return [*deltas, END], tuple(kept)


@st.composite
def _deltas_of(draw: Callable[[Any], Any], part: Part) -> list[Delta]:
    match part:
        case TextPart():
            return [
                TextStart(),
                *map(TextDelta, draw(cuts(part.text))),
                PartEnd(part.provider, part.provider_data),
            ]
        case ReasoningPart():
            return [
                ReasoningStart(),
                *map(ReasoningDelta, draw(cuts(part.text))),
                PartEnd(part.provider, part.provider_data),
            ]
        case ToolCall():
            return [
                ToolCallStart(part.id, part.name),
                *map(ArgumentsDelta, draw(cuts(part.arguments_json))),
            ]
        case ProviderPart():
            return [WholePart(part)]
        case _:
            raise AssertionError(part)


@given(streams())
def test_any_cut_of_a_stream_folds_to_the_same_response(
    stream: tuple[list[Delta], tuple[Part, ...]],
) -> None:
    deltas, parts = stream
    assert folded(deltas).response() == ModelResponse(
        parts=parts,
        usage=END.usage,
        stop_reason=END.stop_reason,
        raw_stop_reason=END.raw_stop_reason,
        id=END.id,
        model=END.model,
        provider_data=END.provider_data,
    )


@given(streams(), streams())
def test_what_came_before_a_restart_never_was(
    first: tuple[list[Delta], tuple[Part, ...]], second: tuple[list[Delta], tuple[Part, ...]]
) -> None:
    cut = first[0][: random.Random(len(first[0])).randrange(len(first[0]))]
    assert folded([*cut, Restart(), *second[0]]).response() == folded(second[0]).response()


@given(streams(), st.data())
def test_what_is_kept_of_a_cut_stream_begins_like_the_whole(
    stream: tuple[list[Delta], tuple[Part, ...]], data: st.DataObject
) -> None:
    deltas, parts = stream
    fold = folded(deltas[: data.draw(st.integers(0, len(deltas)))])
    kept = fold.partial()
    assert fold.partial() == kept
    whole = [part for part in parts if isinstance(part, (TextPart, ReasoningPart)) and part.text]
    assert [type(part) for part in kept] == [type(part) for part in whole[: len(kept)]]
    assert [_text(part) for part in kept[:-1]] == [part.text for part in whole[: len(kept)][:-1]]
    assert all(
        part.provider_data is None for part in kept if isinstance(part, (TextPart, ReasoningPart))
    )
    if kept:
        assert whole[len(kept) - 1].text.startswith(_text(kept[-1]))


def _text(part: Part) -> str:
    return part.text if isinstance(part, (TextPart, ReasoningPart)) else ""


@pytest.mark.parametrize(
    "end",
    [
        None,
        PartEnd(),
        TextStart(),
        ReasoningStart(),
        ToolCallStart("c", "f"),
        WholePart(ProviderPart(provider="p", data="{}")),
    ],
)
def test_whatever_follows_closes_the_open_part(end: Delta | None) -> None:
    parts = parts_of(TextDelta("a"), *([end] if end else []))
    assert parts[0] == TextPart(text="a")


def test_a_delta_of_another_kind_begins_a_part_of_its_own() -> None:
    parts = parts_of(
        ReasoningDelta("why"), TextDelta("be"), TextDelta("cause"), ReasoningDelta("?")
    )
    assert parts == (ReasoningPart(text="why"), TextPart(text="because"), ReasoningPart(text="?"))


def test_a_start_of_the_same_kind_begins_another_part() -> None:
    assert parts_of(TextStart(), TextDelta("a"), TextStart(), TextDelta("b")) == (
        TextPart(text="a"),
        TextPart(text="b"),
    )


def test_empty_parts_are_left_out_but_an_empty_thought_keeps_its_signature() -> None:
    signature = PartEnd("anthropic", '{"signature":"s"}')
    assert parts_of(TextStart(), PartEnd(), ReasoningStart(), PartEnd()) == ()
    assert parts_of(ReasoningStart(), signature) == (
        ReasoningPart(text="", provider="anthropic", provider_data='{"signature":"s"}'),
    )


def test_arguments_outside_a_call_belong_to_nothing() -> None:
    assert parts_of(ArgumentsDelta('{"a":1}'), TextDelta("a"), ArgumentsDelta("b"), PartEnd()) == (
        TextPart(text="a"),
    )


def test_no_arguments_at_all_mean_an_empty_object() -> None:
    assert parts_of(ToolCallStart("c", "f")) == (ToolCall(id="c", name="f", arguments_json="{}"),)
    assert parts_of(ToolCallStart("c", "f"), ArgumentsDelta("")) == (
        ToolCall(id="c", name="f", arguments_json="{}"),
    )


def test_the_data_at_its_end_belongs_to_the_call() -> None:
    (call,) = parts_of(
        ToolCallStart("c", "f"), ArgumentsDelta("{"), ArgumentsDelta("}"), PartEnd("p", '{"x":1}')
    )
    assert call == ToolCall(
        id="c", name="f", arguments_json="{}", provider="p", provider_data='{"x":1}'
    )


# ---------------------------------------------------------------- ids of calls


def test_a_repeated_id_of_a_call_becomes_an_id_of_its_own() -> None:
    fold = folded(
        [ToolCallStart("a", "f"), ToolCallStart("a", "g"), ToolCallStart("a", "h"), END],
        taken=["a_2"],
    )
    assert [call.id for call in fold.response().tool_calls] == ["a", "a_3", "a_4"]


def test_an_id_of_an_earlier_turn_is_not_given_again() -> None:
    fold = Fold(["a"])
    fold.add(ToolCallStart("a", "f"))
    assert fold.call == ToolCallStart("a_2", "f")


def test_a_call_without_an_id_is_given_one() -> None:
    calls = folded([ToolCallStart("", "f"), ToolCallStart("", "f"), END]).response().tool_calls
    assert calls[0].id.startswith("call_")
    assert calls[0].id != calls[1].id


def test_ids_from_before_a_restart_are_free_again() -> None:
    fold = folded(
        [
            ToolCallStart("a", "f"),
            ToolCallStart("b", "g"),
            Restart(),
            ToolCallStart("b", "g"),
            ToolCallStart("a", "f"),
            END,
        ]
    )
    assert [call.id for call in fold.response().tool_calls] == ["b", "a"]


def test_a_restart_leaves_the_ids_of_earlier_turns_taken() -> None:
    fold = folded([ToolCallStart("a", "f"), Restart(), ToolCallStart("a", "f"), END], taken=["a"])
    assert [call.id for call in fold.response().tool_calls] == ["a_2"]


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(
    "deltas",
    [
        [],
        [TextDelta("He")],
        [ToolCallStart("c", "f"), ArgumentsDelta("{}"), PartEnd()],
        [TextDelta("a"), Restart()],
    ],
)
def test_a_stream_without_its_end_is_a_network_error(deltas: list[Delta]) -> None:
    with pytest.raises(AgentError, match="ended before the response was complete") as caught:
        folded(deltas).response()
    assert caught.value.kind == "network"
    assert caught.value.retryable


def test_a_restart_takes_back_the_end_too() -> None:
    with pytest.raises(AgentError, match="ended before"):
        folded([TextDelta("a"), END, Restart()]).response()


@pytest.mark.parametrize(
    ("delta", "begun"),
    [
        (TextDelta(""), True),
        (TextStart(), True),
        (ToolCallStart("c", "f"), True),
        (END, True),
        (ModelNotice("n"), False),
        (Restart(), False),
        (PartEnd(), False),
    ],
)
def test_a_response_has_begun_once_anything_of_it_came(delta: Delta, begun: bool) -> None:
    assert not Fold().begun
    assert folded([delta]).begun is begun


def test_half_a_call_is_never_kept() -> None:
    fold = folded([TextDelta("I will "), ToolCallStart("c", "rm"), ArgumentsDelta('{"path":"/"')])
    assert fold.partial() == (TextPart(text="I will "),)


def test_whole_calls_of_a_cut_response_are_not_kept_either() -> None:
    fold = folded([ToolCallStart("c", "rm"), ArgumentsDelta("{}"), PartEnd(), TextDelta("and th")])
    assert fold.partial() == (TextPart(text="and th"),)


async def test_complete_is_the_stream_collected() -> None:
    model = ScriptedModel(
        [
            {
                "reasoning": "so",
                "text": "one two three four",
                "tool_calls": [{"name": "f", "arguments": {"a": 1}, "id": "c"}],
            }
        ]
    )
    response = await complete(model, ModelRequest(messages=[Message.user("hi")]))
    assert response.text == "one two three four"
    assert response.tool_calls == (ToolCall(id="c", name="f", arguments_json='{"a": 1}'),)
    assert response.stop_reason is StopReason.TOOL_USE


async def test_complete_raises_what_the_model_raises() -> None:
    with pytest.raises(AgentError, match="rate_limit"):
        await complete(
            ScriptedModel([{"error": {"kind": "rate_limit"}}]), ModelRequest(messages=[])
        )


async def test_a_stream_that_somebody_else_made_can_be_folded() -> None:
    async def deltas() -> Any:
        for delta in (TextDelta("a"), TextDelta("b"), END):
            yield delta

    assert (await fold_stream(deltas())).text == "ab"


async def test_a_cut_stream_is_closed_at_once() -> None:
    """What a model holds open ends with its stream, not when somebody collects garbage."""
    closed: list[bool] = []

    class Held(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            try:
                yield ModelNotice("a")
                raise AgentError("network", "cut")
            finally:
                closed.append(True)

    with pytest.raises(AgentError, match="cut"):
        await complete(Held([]), ModelRequest(messages=[]))
    assert closed == [True]


# ---------------------------------------------------------------- requests


def test_a_request_survives_json_also_where_it_holds_a_history() -> None:
    messages = [Message.user("hi"), Message.assistant("yes \ud800")]
    request = ModelRequest(
        messages=History(messages),
        system=(SystemBlock(text="s", cache=True),),
        settings=Settings(max_tokens=5),
    )
    again = ModelRequest.from_json(request.to_json())
    assert list(again.messages) == messages
    assert (again.system, again.settings, again.tools) == (request.system, request.settings, ())


# ---------------------------------------------------------------- history


class Wire:
    """Encodes like a provider would, and remembers what it was asked to encode."""

    def __init__(self, silent: Sequence[str] = ()) -> None:
        self.seen: list[tuple[str, bool]] = []
        self.silent = silent

    def encode(self, message: Message, settled: bool) -> bytes:
        self.seen.append((message.text, settled))
        return (
            b""
            if message.text in self.silent
            else f"<{message.text}{'*' if settled else ''}>".encode("utf-8", "replace")
        )


def conversation(*texts: str) -> list[Message]:
    return [Message.user(text) for text in texts]


def test_a_history_is_a_sequence_of_its_messages() -> None:
    messages = conversation("a", "b", "c")
    history = History(messages[:2])
    history.append(messages[2])
    assert list(history) == messages
    assert (len(history), history[0], history[-1], history[1:], messages[1] in history) == (
        3,
        messages[0],
        messages[2],
        messages[1:],
        True,
    )
    messages.append(Message.user("d"))
    assert len(history) == 3


def test_each_message_is_encoded_once() -> None:
    wire, history = Wire(), History(conversation("a", "b"))
    assert history.encoded("w", wire.encode) == b"<a>,<b>"
    history.append(Message.user("c"))
    assert history.encoded("w", wire.encode) == b"<a>,<b>,<c>"
    assert history.encoded("w", wire.encode) == b"<a>,<b>,<c>"
    assert wire.seen == [("a", False), ("b", False), ("c", False)]


def test_the_messages_of_ended_runs_are_encoded_as_settled() -> None:
    wire, history = Wire(), History(conversation("a", "b"), settled=1)
    history.append(Message.user("c"))
    assert history.encoded("w", wire.encode) == b"<a*>,<b>,<c>"


def test_each_wire_has_its_own_bytes() -> None:
    one, other, history = Wire(), Wire(silent="a"), History(conversation("a", "b"))
    assert history.encoded("one", one.encode) == b"<a>,<b>"
    assert history.encoded("other", other.encode) == b"<b>"
    assert history.encoded("one", other.encode) == b"<a>,<b>"


@pytest.mark.parametrize("silent", ["a", "b", "c", "ab", "bc", "ac", "abc"])
def test_a_message_that_a_wire_does_not_send_leaves_no_comma(silent: str) -> None:
    wire, history = Wire(silent), History(conversation("a", "b"))
    history.encoded("w", wire.encode)
    history.append(Message.user("c"))
    assert history.encoded("w", wire.encode) == b",".join(
        f"<{text}>".encode() for text in "abc" if text not in silent
    )


@given(st.lists(nasty_text, max_size=5), st.integers(0, 5), st.sets(st.integers(0, 5)))
def test_equal_histories_give_equal_bytes_whenever_they_are_asked(
    texts: list[str], settled: int, asked_after: set[int]
) -> None:
    messages, wire = conversation(*texts), Wire(silent=[""])
    at_once, bit_by_bit = History(messages, settled=settled), History((), settled=settled)
    for place, message in enumerate(messages):
        if place in asked_after:
            bit_by_bit.encoded("w", wire.encode)
        bit_by_bit.append(message)
    assert bytes(at_once.encoded("w", wire.encode)) == bytes(bit_by_bit.encoded("w", wire.encode))


def test_a_message_that_cannot_be_encoded_leaves_the_bytes_as_they_were() -> None:
    wire, history = Wire(), History(conversation("a"))
    history.encoded("w", wire.encode)
    history.append(Message.user("b"))
    history.append(Message.user("c"))

    def choke(message: Message, settled: bool) -> bytes:
        if message.text == "c":
            raise AgentError("invalid", "no word for it")
        return wire.encode(message, settled)

    with pytest.raises(AgentError, match="no word for it"):
        history.encoded("w", choke)
    assert history.encoded("w", wire.encode) == b"<a>,<b>,<c>"


def test_what_a_wire_remembers_goes_with_the_history() -> None:
    history = History()
    history.memo["w"] = ("container", 1)
    assert history.memo == {"w": ("container", 1)}
    assert History(history).memo == {}
