"""Messages: what they read, and that not a byte of them is lost on the way to storage and back."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples_of, json_value, nasty_text, values_of
from treadle.errors import AgentError
from treadle.messages.message import (
    JsonText,
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownPart,
    decode_json,
    decode_message,
    encode_json,
    encode_message,
)

DEEP = "[" * 10_000 + "]" * 10_000
HARD = {
    "a number beyond any float": '{"n": 1e400}',
    "no number": '{"n": NaN}',
    "an integer of thirty digits": '{"n": 123456789012345678901234567890}',
    "an integer of five thousand digits": '{"n": ' + "9" * 5_000 + "}",
    "half of a surrogate pair": '{"n": "\ud800"}',
    "half of a surrogate pair, escaped": '{"n": "\\udfff"}',
    "the same key twice": '{"n": 1, "n": 2}',
    "ten thousand levels": '{"n": ' + DEEP + "}",
    "no JSON at all": '{"n": [1, 2',
    "nothing": "",
    "a zero byte": "\x00",
}
WRITTEN = {
    name: text
    for name, text in HARD.items()
    if name not in ("no JSON at all", "nothing", "a zero byte", "half of a surrogate pair")
}
"""What another program may really have written into a message: bytes that are JSON to somebody."""


def stored(part: str, *, more: str = "") -> bytes:
    """A message as another version may have written it."""
    return f'{{"id": "msg_1", "role":"assistant",  "parts": [ {part} ], "created_at":"2026-11-20T10:00:00Z"{more}}}'.encode(
        "utf-8", "surrogatepass"
    )


# ---------------------------------------------------------------- what a message reads


def test_a_text_becomes_one_text_part_of_a_message_with_an_id_and_a_time() -> None:
    message = Message.user("hello")
    assert message.role == "user"
    assert message.parts == (TextPart(text="hello"),)
    assert message.id.startswith("msg_")
    assert message.created_at.tzinfo is UTC


def test_each_role_has_its_constructor() -> None:
    result = ToolResult(call_id="1", name="f", content="ok")
    assert [
        m.role
        for m in (
            Message.user("u"),
            Message.assistant("a"),
            Message.system("s"),
            Message.tool([result]),
        )
    ] == ["user", "assistant", "system", "tool"]


def test_a_message_reads_its_text_reasoning_calls_and_results() -> None:
    call, result = ToolCall(id="c1", name="f"), ToolResult(call_id="c0", name="f", content="ok")
    message = Message.assistant(
        [
            ReasoningPart(text="so ", provider="p", provider_data='{"signature":"s1"}'),
            ReasoningPart(text="what"),
            TextPart(text="He"),
            ProviderPart(provider="p", data="{}"),
            TextPart(text="llo"),
            call,
            result,
        ]
    )
    assert message.text == "Hello"
    assert message.reasoning == "so what"
    assert message.reasoning_metadata == ('{"signature":"s1"}',)
    assert message.tool_calls == (call,)
    assert message.tool_results == (result,)


def test_with_parts_keeps_the_identity_and_lets_unknown_words_go() -> None:
    message = decode_message(stored('{"type":"hologram","x":1}'))
    changed = message.with_parts([TextPart(text="new")])
    assert (changed.id, changed.role, changed.created_at) == (
        message.id,
        message.role,
        message.created_at,
    )
    assert changed.source is None
    assert decode_message(encode_message(changed)) == changed


def test_a_result_of_parts_reads_as_the_lines_of_its_texts() -> None:
    parts = (TextPart(text="a"), MediaPart(media_type="image/png", data="eA=="), TextPart(text="b"))
    assert ToolResult(call_id="1", name="f", content=parts).text == "a\nb"
    assert ToolResult(call_id="1", name="f", content="plain").text == "plain"


@pytest.mark.parametrize("fields", [{}, {"data": "eA==", "url": "https://example.org/a.png"}])
def test_media_has_exactly_one_of_data_and_url(fields: dict[str, str]) -> None:
    with pytest.raises(AgentError, match="either data or url") as caught:
        MediaPart(media_type="image/png", **fields)
    assert caught.value.kind == "invalid"


# ---------------------------------------------------------------- arguments


def test_arguments_are_a_fresh_dict_each_time() -> None:
    call = ToolCall(id="1", name="f", arguments_json='{"a": [1]}')
    call.arguments["a"].append(2)
    assert call.arguments == {"a": [1]}


def test_no_text_at_all_means_no_arguments() -> None:
    assert ToolCall(id="1", name="f", arguments_json="").arguments == {}
    assert ToolCall(id="1", name="f").arguments == {}


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "null",
        '"text"',
        "1",
        '{"a":',
        " ",
        DEEP,
        '{"a":' + DEEP + "}",
        "{'a': 1}",
        '{"n": ' + "9" * 5_000 + "}",
    ],
    ids=itertools.count(1),
)
def test_arguments_that_are_no_object_raise_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        _ = ToolCall(id="1", name="f", arguments_json=text).arguments


# ---------------------------------------------------------------- every opaque text survives, byte for byte


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize(
    "make",
    [
        lambda text: ToolCall(id="1", name="f", arguments_json=text),
        lambda text: ToolCall(id="1", name="f", provider="p", provider_data=text),
        lambda text: TextPart(text="t", provider="p", provider_data=text),
        lambda text: ReasoningPart(text="t", provider="p", provider_data=text),
        lambda text: ProviderPart(provider="p", data=text),
        lambda text: UnknownPart(type="hologram", raw=text),
        lambda text: TextPart(text=text),
        lambda text: ToolResult(call_id="1", name="f", content=(TextPart(text=text),)),
    ],
    ids=[
        "arguments",
        "data of a call",
        "data of a text",
        "data of reasoning",
        "provider",
        "unknown",
        "text",
        "result",
    ],
)
def test_opaque_text_survives_storage_as_it_is(make: Any, text: JsonText) -> None:
    message = Message.assistant([make(text)])
    again = decode_message(encode_message(message))
    assert again == message
    assert encode_message(again) == encode_message(message)
    assert Message.from_json(message.to_json()) == message


@given(values_of(Message))
def test_encode_then_decode_is_the_identity(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize("kind", get_args(Part), ids=lambda kind: kind.__name__)
def test_each_part_alone_survives_json(kind: type[TextPart]) -> None:
    @given(values_of(kind))
    def holds(part: TextPart) -> None:
        assert kind.from_json(part.to_json()) == part

    holds()


def test_stored_messages_say_their_type_first_and_leave_out_what_is_default() -> None:
    message = Message(
        id="msg_1",
        role="assistant",
        parts=(TextPart(text="hi"), ToolCall(id="c", name="f")),
        created_at=datetime(2026, 11, 20, tzinfo=UTC),
    )
    assert encode_message(message) == (
        b'{"id":"msg_1","role":"assistant","parts":[{"type":"text","text":"hi"},{"type":"tool_call","id":"c","name":"f"}],"created_at":"2026-11-20T00:00:00Z"}'
    )


# ---------------------------------------------------------------- what a newer version wrote


@pytest.mark.parametrize("hard", WRITTEN.values(), ids=WRITTEN)
def test_an_unknown_part_is_kept_with_its_raw_text(hard: str) -> None:
    raw = f'{{"type": "hologram", "x":{hard}, "tail" : 1.50 }}'
    data = stored(f'{{"type":"text","text":"before"}}, {raw}, {{"type":"text","text":"after"}}')
    message = decode_message(data)
    assert message.parts == (
        TextPart(text="before"),
        UnknownPart(type="hologram", raw=raw),
        TextPart(text="after"),
    )
    assert message.to_json() == data
    assert decode_message(message.to_json()) == message


@pytest.mark.parametrize("hard", WRITTEN.values(), ids=WRITTEN)
def test_an_unknown_field_of_a_known_part_survives_the_way_back(hard: str) -> None:
    data = stored(f'{{"type":"text","mood":{hard},"text":"hi"}}')
    message = decode_message(data)
    assert message.parts == (TextPart(text="hi"),)
    assert message.to_json() == data
    assert decode_message(message.to_json()) == message


@pytest.mark.parametrize("kind", get_args(Part), ids=lambda kind: kind.__name__)
def test_an_unknown_field_of_any_part_survives_the_way_back(kind: type[TextPart]) -> None:
    for part in examples_of(kind, 5):
        data = stored(part.to_json().decode().removesuffix("}") + ', "mood": 1.50}')
        message = decode_message(data)
        assert message.to_json() == data
        # of a part that this version does not even make, all is unknown
        if kind is not UnknownPart:
            assert message.parts == (part,)


def test_an_unknown_field_of_the_message_survives_the_way_back() -> None:
    data = stored('{"type":"text","text":"hi"}', more=', "mood": {"level": 1e400}')
    message = decode_message(data)
    assert message.parts == (TextPart(text="hi"),)
    assert message.to_json() == data


def test_the_type_of_an_unknown_part_may_stand_anywhere() -> None:
    raw = f'{{"x":{DEEP}, "type":"hologram"}}'
    assert decode_message(stored(raw)).parts == (UnknownPart(type="hologram", raw=raw),)


def test_a_result_with_an_unknown_piece_is_still_the_result_of_its_call() -> None:
    content = '[{"type":"text","text":"a"}, {"type":"hologram","x":1e400}, {"type":"text","text":"b","mood":1}]'
    data = stored(f'{{"type":"tool_result","call_id":"c1","name":"f","content":{content}}}')
    message = decode_message(data)
    (result,) = message.tool_results
    assert result.call_id == "c1"
    assert result.content == (
        TextPart(text="a"),
        TextPart(text="[a part of type 'hologram', which this version cannot show]"),
        TextPart(text="b"),
    )
    assert message.to_json() == data


def test_an_unknown_word_beside_text_that_utf8_cannot_hold() -> None:
    data = stored('{"type":"text","text":"\\ud800","mood":1}, {"type":"hologram","x":"\\ud800"}')
    message = decode_message(data)
    assert message.parts == (
        TextPart(text="\ud800"),
        UnknownPart(type="hologram", raw='{"type":"hologram","x":"\\ud800"}'),
    )
    assert message.to_json() == data


def test_a_message_with_unknown_words_survives_inside_other_values() -> None:
    message = decode_message(
        stored('{"type":"hologram","x":1e400}, {"type":"text","text":"hi","mood":1}')
    )
    assert decode_json(encode_json([message]), list[Message]) == [message]
    assert Message.from_json(encode_json(message)) == message


def test_the_source_is_what_counts_where_somebody_wrote_both() -> None:
    """Else a message could show one thing today and another after it was stored."""
    source = stored('{"type":"text","text":"true","mood":1}').decode()
    data = json.dumps(
        {
            "id": "x",
            "role": "user",
            "parts": [],
            "created_at": "2026-11-20T10:00:00Z",
            "source": source,
        }
    ).encode()
    assert decode_message(data) == decode_message(source.encode())


@pytest.mark.parametrize(
    "parts",
    [
        '{"type":"text","text":"hi"}',
        '{"type":"hologram"}',
        '{"type":"text","words":["another","shape"]}',
    ],
)
def test_a_higher_major_schema_is_refused_clearly(parts: str) -> None:
    with pytest.raises(
        AgentError, match=r"written by a newer Treadle \(schema 2; this version reads 1\): upgrade"
    ) as caught:
        decode_message(stored(parts, more=', "schema": 2'))
    assert caught.value.kind == "invalid"


def test_a_higher_major_schema_is_refused_whatever_its_messages_look_like() -> None:
    with pytest.raises(AgentError, match="schema 7"):
        decode_message(b'{"schema": 7, "said": "another shape altogether"}')


def test_our_own_schema_may_be_said() -> None:
    assert decode_message(stored('{"type":"text","text":"hi"}', more=', "schema": 1')).text == "hi"
    assert decode_message(stored('{"type":"hologram"}', more=', "schema": 1')).parts[
        0
    ] == UnknownPart(type="hologram", raw='{"type":"hologram"}')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"id":"1"}',
        stored("5"),
        stored("null"),
        stored('{"text":"hi"}'),
        stored('{"type":5}'),
        stored('{"type":null}'),
        stored('{"type":"text"}'),
        stored('{"type":"text","text":5}'),
        stored('{"type":"text","text":5,"mood":1}'),
        stored('{"type":"tool_result","call_id":"1","name":"f","content":[5]}'),
        stored('{"type":"tool_result","call_id":"1","name":"f","content":5}'),
        stored('{"type":"hologram" "x"}'),
        stored('{"type":"text","text":"hi"}').replace(b"assistant", b"robot"),
        stored('{"type":"text","text":"hi"}').replace(b"2026-11-20T10:00:00Z", b"yesterday"),
        stored('{"type":"hologram"}').replace(b"[ ", b"{ "),
        stored('{"type":"hologram"}', more=', "schema": "two"'),
        DEEP.encode(),
        b'{"id":' + DEEP.encode() + b"}",
    ],
    ids=itertools.count(1),
)
def test_what_is_no_message_is_refused_as_invalid(data: bytes) -> None:
    with pytest.raises(AgentError, match="message") as caught:
        decode_message(data)
    assert caught.value.kind == "invalid"
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "name", ["id", "role", "parts", "created_at", "schema", "source", "mood", "type", "text"]
)
@pytest.mark.parametrize("hard", HARD.values(), ids=HARD)
def test_whatever_stands_in_a_field_it_is_a_message_or_an_invalid_one(name: str, hard: str) -> None:
    for part in ('{"type":"text","text":"hi"}', '{"type":"hologram"}'):
        _reads_or_refuses(stored(part.replace("}", f',"{name}":{hard}}}')))
        _reads_or_refuses(stored(part, more=f',"{name}":{hard}'))


@given(
    st.binary(max_size=50)
    | nasty_text.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | json_value.map(encode_json)
)
def test_any_bytes_are_a_message_or_an_invalid_one(data: bytes) -> None:
    _reads_or_refuses(data)


@given(values_of(Message), st.integers(0, 10_000), st.binary(max_size=5), st.integers(0, 5))
def test_a_damaged_message_is_a_message_or_an_invalid_one(
    message: Message, place: int, new: bytes, gone: int
) -> None:
    data = encode_message(message)
    place %= len(data) + 1
    _reads_or_refuses(data[:place] + new + data[place + gone :])


def _reads_or_refuses(data: bytes) -> None:
    try:
        message = decode_message(data)
    except AgentError as refused:
        error = refused
    else:
        assert decode_message(message.to_json()) == message
        return
    assert error.kind == "invalid"
