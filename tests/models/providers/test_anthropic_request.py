"""Our values as the bytes of the Messages API."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.history import History
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.anthropic.messages import MessageEncoder
from treadle.models.providers.anthropic.request import RequestEncoder
from treadle.models.providers.known_models import known
from treadle.types import Settings, SystemBlock

PLAIN = Settings(max_tokens=100, cache=False)
MARK = {"type": "ephemeral"}
LOOK = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})
GO = ToolDefinition(name="go", description="Goes.", parameters={"type": "object"})
HELLO = Message.user("Hello")
IMAGE = MediaPart(media_type="image/png", data="QUJD", name="plot")
TURN = (
    Message.assistant([ToolCall(id="a", name="look")]),
    Message.tool([ToolResult(call_id="a", name="look", content="seen")]),
)


def body(
    *messages: Message,
    settings: Settings = PLAIN,
    preamble: str = "",
    settled: int = 0,
    abilities: Abilities = UNKNOWN,
    **request: Any,
) -> dict[str, Any]:
    encoded = RequestEncoder("claude-test", preamble, abilities).encode(
        ModelRequest(messages=History(messages, settled), settings=settings, **request)
    )
    return json.loads(encoded.body)


def blocks(*parts: Part, role: str = "assistant", settled: bool = False) -> list[dict[str, Any]]:
    encoded = MessageEncoder().encode(Message.of(role, parts), settled)  # pyright: ignore[reportArgumentType]  one of the roles
    return json.loads(encoded)["content"] if encoded else []


# ---------------------------------------------------------------- assistant messages


def test_reasoning_goes_back_with_its_signature_in_its_run_and_not_after() -> None:
    said = (
        ReasoningPart(text="Hm.", provider="anthropic", provider_data='{"signature":"sig=="}'),
        ProviderPart(provider="anthropic", data='{"type":"redacted_thinking","data":"xyz"}'),
        ProviderPart(
            provider="anthropic",
            data='{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1e400}}',
        ),
        TextPart(text="Yes."),
    )
    kinds = ["thinking", "redacted_thinking", "server_tool_use", "text"]
    assert [b["type"] for b in blocks(*said)] == kinds
    assert blocks(*said)[0] == {"type": "thinking", "thinking": "Hm.", "signature": "sig=="}
    assert [b["type"] for b in blocks(*said, settled=True)] == kinds[2:]
    encoded = MessageEncoder().encode(Message.assistant(said), False)
    assert b'"input":{"q":1e400}' in encoded, "what is verbatim stays text"


@pytest.mark.parametrize(
    "reasoning",
    [
        ReasoningPart(text="Hm.", provider="anthropic", provider_data='{"signature":"sig=="}'),
        ProviderPart(provider="anthropic", data='{"type":"redacted_thinking","data":"xyz"}'),
    ],
)
def test_a_message_never_ends_with_reasoning(reasoning: Part) -> None:
    assert blocks(reasoning) == []
    assert blocks(reasoning, TextPart(text=""), TextPart(text=" ")) == []
    assert [b["type"] for b in blocks(reasoning, ToolCall(id="t", name="look"), reasoning)][1:] == [
        "tool_use"
    ]


def test_blank_text_is_sent_beside_other_text_only() -> None:
    assert [
        b["text"] for b in blocks(TextPart(text="One."), TextPart(text="\n"), TextPart(text="Two."))
    ] == ["One.", "\n", "Two."]
    assert [b["type"] for b in blocks(TextPart(text=" "), ToolCall(id="t", name="look"))] == [
        "tool_use"
    ]
    assert blocks(TextPart(text=" \n"), role="user") == []
    assert blocks(ToolResult(call_id="a", name="look", content=" \n", is_error=True), role="tool")[
        0
    ]["content"].strip()
    assert (
        "content"
        not in blocks(
            ToolResult(call_id="a", name="look", content=(TextPart(text=" "),)), role="tool"
        )[0]
    )


@pytest.mark.parametrize(
    "part",
    [
        ReasoningPart(text="Hm."),
        ReasoningPart(text="Hm.", provider="anthropic"),
        ReasoningPart(text="Hm.", provider="openai", provider_data='{"signature":"no"}'),
        ProviderPart(provider="openai", data='{"type":"web_search_call"}'),
        UnknownPart(type="hologram", raw='{"type":"hologram"}'),
        TextPart(text=""),
    ],
)
def test_what_is_not_for_this_provider_is_left_out(part: Part) -> None:
    assert blocks(part, TextPart(text="Yes.")) == [{"type": "text", "text": "Yes."}]
    assert blocks(part) == []


def test_opaque_data_goes_back_on_its_part_to_its_provider_alone() -> None:
    cited = '{"citations":[{"type":"page","page":1}]}'
    assert blocks(TextPart(text="Yes.", provider="anthropic", provider_data=cited))[0][
        "citations"
    ] == [{"type": "page", "page": 1}]
    assert (
        "citations"
        not in blocks(
            TextPart(text="Yes.", provider="anthropic", provider_data=cited), role="user"
        )[0]
    )
    assert (
        "citations" not in blocks(TextPart(text="Yes.", provider="other", provider_data=cited))[0]
    )
    call = ToolCall(
        id="toolu_1",
        name="look",
        provider="anthropic",
        provider_data='{"caller":{"type":"code","tool_id":"s"}}',
    )
    assert blocks(call)[0]["caller"] == {"type": "code", "tool_id": "s"}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1e400}',
        '{"n":123456789012345678901234567890}',
        '{"a":1,"a":2}',
        '{ "b" : [ ] }',
        '{"s":"\\ud83d\\ude00"}',
    ],
)
def test_arguments_go_back_as_the_model_wrote_them(text: str) -> None:
    assert text.encode() in MessageEncoder().encode(
        Message.assistant([ToolCall(id="t", name="look", arguments_json=text)]), False
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"a":',
        "[1]",
        "7",
        "NaN",
        '{"a":NaN}',
        '{"a":"\n"}',
        '{"a":' + "[" * 200 + "]" * 200 + "}",
        '{"a":' + "[" * 10_000 + "]" * 10_000 + "}",
    ],
)
def test_arguments_that_are_no_json_object_are_told_as_such(text: str) -> None:
    assert blocks(ToolCall(id="t", name="look", arguments_json=text))[0]["input"] == {
        "INVALID_JSON": text
    }


def test_half_characters_do_not_break_a_history() -> None:
    said = blocks(
        TextPart(text="a\ud83d"),
        ToolCall(id="t", name="look", arguments_json='{"a":"\\ud83d","b":"\ud83d"}'),
        ProviderPart(provider="anthropic", data='{"type":"x","a":"\ud83d"}'),
    )
    assert said[2]["a"] == "\ufffd"
    assert said[0]["text"] == "a\ufffd"
    assert said[1]["input"] == {"a": "\ufffd", "b": "\ufffd"}


def test_no_arguments_are_an_empty_object() -> None:
    assert blocks(ToolCall(id="t", name="look", arguments_json=""))[0]["input"] == {}


def test_ids_and_names_of_other_providers_are_made_acceptable_on_both_sides() -> None:
    call = blocks(ToolCall(id="call|1:x", name="files.read"))[0]
    result = blocks(ToolResult(call_id="call|1:x", name="files.read", content="ok"), role="tool")[0]
    assert re.fullmatch(r"call_1_x_[0-9a-f]{8}", str(call["id"]))
    assert re.fullmatch(r"files_read_[0-9a-f]{8}", str(call["name"]))
    assert result["tool_use_id"] == call["id"]
    assert len(blocks(ToolCall(id="x" * 200, name="look"))[0]["id"]) == 128
    assert blocks(ToolCall(id="", name=""))[0]["id"]
    assert (
        len(
            {
                blocks(ToolCall(id=name, name="look"))[0]["id"]
                for name in ("a b", "a_b", "a.b", "x" * 130, "x" * 131)
            }
        )
        == 5
    )


@pytest.mark.parametrize("data", ["QUJ", "\u00e9"], ids=["cut", "no base64"])
def test_a_text_file_whose_data_is_broken_is_described(data: str) -> None:
    shown = blocks(MediaPart(media_type="text/plain", data=data, name="a.txt"), role="user")
    assert shown == [
        {
            "type": "text",
            "text": "[a.txt (text/plain): not shown, since it cannot be sent to this model]",
        }
    ]


def test_media_that_a_model_made_is_described() -> None:
    assert blocks(MediaPart(media_type="image/png", data="QUJD", name="plot"))[0][
        "text"
    ].startswith("[plot (image/png)")


# ---------------------------------------------------------------- user messages


def test_results_of_one_turn_go_into_one_user_message() -> None:
    sent = body(
        HELLO,
        Message.assistant([ToolCall(id="a", name="look"), ToolCall(id="b", name="go")]),
        Message.tool(
            [
                ToolResult(call_id="a", name="look", content="seen"),
                ToolResult(call_id="b", name="go", content="no such place", is_error=True),
            ]
        ),
    )
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "seen"},
        {"type": "tool_result", "tool_use_id": "b", "content": "no such place", "is_error": True},
    ]


def test_a_result_may_hold_an_image_and_may_hold_nothing() -> None:
    content = (
        TextPart(text="Here:"),
        TextPart(text=""),
        MediaPart(media_type="image/png", data="QUJD"),
    )
    assert blocks(ToolResult(call_id="a", name="look", content=content), role="tool")[0][
        "content"
    ] == [
        {"type": "text", "text": "Here:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
    ]
    assert "content" not in blocks(ToolResult(call_id="a", name="look"), role="tool")[0]
    assert blocks(ToolResult(call_id="a", name="look", is_error=True), role="tool")[0]["content"]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            MediaPart(media_type="image/webp", url="https://host/a"),
            {"type": "image", "source": {"type": "url", "url": "https://host/a"}},
        ),
        (
            MediaPart(media_type="application/pdf", data="QUJD", name="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
                "title": "a.pdf",
            },
        ),
        (
            MediaPart(media_type="application/pdf", url="https://host/a"),
            {"type": "document", "source": {"type": "url", "url": "https://host/a"}},
        ),
        (
            MediaPart(media_type="text/csv", data=base64.b64encode("a,ä".encode()).decode()),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a,ä"},
            },
        ),
    ],
)
def test_media_become_the_blocks_that_the_api_knows(part: MediaPart, block: dict[str, Any]) -> None:
    assert blocks(part, role="user") == [block]


@pytest.mark.parametrize(
    "part",
    [
        MediaPart(media_type="image/svg+xml", data="QUJD"),
        MediaPart(media_type="audio/wav", data="QUJD"),
        MediaPart(media_type="text/plain", url="https://host/a"),
    ],
)
def test_media_that_the_api_does_not_take_are_described(part: MediaPart) -> None:
    (block,) = blocks(part, role="user")
    assert block["type"] == "text"
    assert part.media_type in block["text"]


@pytest.mark.parametrize(
    ("model_id", "role"),
    [
        ("claude-opus-5-5", "system"),
        ("claude-sonnet-5-5", "user"),
        ("claude-opus-4-7", "user"),
        ("other", "user"),
    ],
)
def test_a_system_message_in_the_conversation_keeps_its_role_with_models_that_follow_it(
    model_id: str, role: str
) -> None:
    sent = body(HELLO, Message.system("Be brief."), abilities=known("anthropic", None, model_id))
    assert sent["messages"][1] == {"role": role, "content": [{"type": "text", "text": "Be brief."}]}


@pytest.mark.parametrize(
    "extra",
    [{"tool_choice": {"disable_parallel_tool_use": True}}, {"thinking": {"display": "omitted"}}],
)
def test_extras_of_thinking_and_tool_choice_get_the_type_that_the_api_insists_on(
    extra: dict[str, object],
) -> None:
    (name,) = extra
    sent = body(HELLO, settings=Settings(extra=extra))[name]
    assert sent["type"] == {"tool_choice": "auto", "thinking": "adaptive"}[name]


ANSWER = Message.assistant("Yes?")


@pytest.mark.parametrize(
    ("before", "after", "roles"),
    [
        ([HELLO], [ANSWER], ["user", "system", "assistant"]),
        ([HELLO], [HELLO], ["user", "user", "user"]),
        ([], [HELLO], ["user", "user"]),
        ([HELLO, ANSWER], [HELLO], ["user", "assistant", "user", "user"]),
        ([HELLO, Message.system("Be kind.")], [ANSWER], ["user", "system", "assistant"]),
    ],
)
def test_a_system_message_that_may_not_stand_where_it_is_is_said_by_the_user(
    before: list[Message], after: list[Message], roles: list[str]
) -> None:
    sent = body(
        *before, Message.system("Be brief."), *after, abilities=Abilities(system_messages=True)
    )
    assert [m["role"] for m in sent["messages"]] == roles
    assert any(block["text"] == "Be brief." for m in sent["messages"] for block in m["content"])


def test_a_system_message_at_the_end_stays_where_it_was_once_it_is_answered() -> None:
    history, encoder = (
        History([HELLO, Message.system("Be brief.")]),
        RequestEncoder("claude-test", abilities=Abilities(system_messages=True)),
    )
    asked = encoder.encode(ModelRequest(messages=history, settings=PLAIN)).body
    history.append(ANSWER)
    answered = encoder.encode(ModelRequest(messages=history, settings=PLAIN)).body
    assert answered.startswith(asked.removesuffix(b"]}"))


def test_a_model_that_takes_no_images_reads_what_was_there() -> None:
    history = History(
        [
            Message.user([TextPart(text="What is it?"), IMAGE]),
            TURN[0],
            Message.tool([ToolResult(call_id="a", name="look", content=(IMAGE,))]),
        ]
    )
    history.settled = len(history)
    request = ModelRequest(messages=history, settings=PLAIN)
    seeing, blind = (
        RequestEncoder("claude-test", abilities=Abilities(images=images))
        for images in (None, False)
    )
    described = json.loads(blind.encode(request).body)["messages"]
    assert [block["type"] for block in described[0]["content"]] == ["text", "text"]
    assert described[2]["content"][0]["content"][0]["text"].startswith("[plot (image/png)")
    assert (
        json.loads(seeing.encode(request).body)["messages"][0]["content"][1]["type"] == "image"
    ), "the same history, for another model"


def test_messages_without_anything_to_send_are_left_out() -> None:
    sent = body(
        Message.assistant([]),
        HELLO,
        Message.assistant([ReasoningPart(text="Hm.")]),
        Message.tool([]),
        Message.user("Still there?"),
    )
    assert [m["content"][0]["text"] for m in sent["messages"]] == ["Hello", "Still there?"]


def test_a_conversation_without_any_message_is_refused() -> None:
    with pytest.raises(AgentError, match="no message") as raised:
        body(Message.assistant([]))
    assert raised.value.kind is ErrorKind.INVALID


# ---------------------------------------------------------------- the head


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), {"max_tokens": 8192}),
        (Settings(max_tokens=7, stop=("END",)), {"max_tokens": 7, "stop_sequences": ["END"]}),
        (
            Settings(max_tokens=7, thinking=True),
            {"max_tokens": 7, "thinking": {"type": "adaptive"}},
        ),
        (
            Settings(max_tokens=7, thinking="adaptive"),
            {"max_tokens": 7, "thinking": {"type": "adaptive"}},
        ),
        (
            Settings(max_tokens=7, thinking=False),
            {"max_tokens": 7, "thinking": {"type": "disabled"}},
        ),
        (
            Settings(max_tokens=7, thinking=2048),
            {"max_tokens": 7, "thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
        (
            Settings(max_tokens=7, thinking="between_tools"),
            {"max_tokens": 7, "thinking": {"type": "between_tools"}},
        ),
        (
            Settings(max_tokens=7, effort="high"),
            {"max_tokens": 7, "output_config": {"effort": "high"}},
        ),
        (
            Settings(max_tokens=7, output_schema={"type": "object"}),
            {
                "max_tokens": 7,
                "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
            },
        ),
        (Settings(max_tokens=7, temperature=0.0), {"max_tokens": 7, "temperature": 0.0}),
        (Settings(max_tokens=7, tool_choice="any"), {"max_tokens": 7}),
        (
            Settings(max_tokens=7, extra={"container": "c_1", "max_tokens": 9, "stream": False}),
            {"max_tokens": 9, "container": "c_1", "stream": False},
        ),
        (
            Settings(
                max_tokens=7,
                thinking=True,
                effort="low",
                extra={"thinking": {"display": "omitted"}, "output_config": {"task_budget": 5}},
            ),
            {
                "max_tokens": 7,
                "thinking": {"type": "adaptive", "display": "omitted"},
                "output_config": {"effort": "low", "task_budget": 5},
            },
        ),
    ],
)
def test_settings_are_said_in_the_words_of_the_api(
    settings: Settings, expected: dict[str, Any]
) -> None:
    sent = body(HELLO, settings=settings.over(Settings(cache=False)))
    del sent["messages"]
    assert sent == {"model": "claude-test", "stream": True, **expected}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("look", {"type": "tool", "name": "look"}),
    ],
)
def test_the_choice_of_a_tool_is_sent_where_there_are_tools(
    choice: str, expected: dict[str, str]
) -> None:
    assert (
        body(HELLO, settings=Settings(max_tokens=7, tool_choice=choice), tools=(LOOK,))[
            "tool_choice"
        ]
        == expected
    )


def test_tools_of_the_extras_are_merged_by_name() -> None:
    extra: dict[str, object] = {
        "tools": [
            {"name": "go", "defer_loading": True},
            {"type": "web_search_20250305", "name": "web_search"},
        ]
    }
    sent = body(HELLO, settings=Settings(max_tokens=7, extra=extra), tools=(LOOK, GO))
    assert [t["name"] for t in sent["tools"]] == ["look", "go", "web_search"]
    assert sent["tools"][1] == {
        "name": "go",
        "description": "Goes.",
        "input_schema": {"type": "object"},
        "defer_loading": True,
    }


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"messages": []}, "messages"),
        ({"tools": {}}, "tools"),
        ({"tools": ["x"]}, "tools"),
        ({"betas": "x"}, "betas"),
        ({"betas": ["a\nb"]}, "betas"),
        ({"x": object()}, "JSON"),
    ],
)
def test_extras_that_cannot_be_sent_are_named(extra: dict[str, object], named: str) -> None:
    with pytest.raises(AgentError, match=named) as raised:
        body(HELLO, settings=Settings(max_tokens=7, extra=extra))
    assert raised.value.kind is ErrorKind.INVALID


def test_the_system_prompt_is_sent_as_blocks_after_the_preamble() -> None:
    sent = body(
        HELLO,
        system=(SystemBlock(text="One."), SystemBlock(text=""), SystemBlock(text="Two.")),
        preamble="First of all.",
    )
    assert sent["system"] == [
        {"type": "text", "text": text} for text in ("First of all.", "One.", "Two.")
    ]
    assert "system" not in body(HELLO)


# ---------------------------------------------------------------- cache breakpoints


def _marks(value: Any, path: str = "") -> list[str]:
    """Where breakpoints stand, in the order in which the API reads the body: tools, system,
    messages.
    """
    if isinstance(value, list):
        return [mark for i, v in enumerate(value) for mark in _marks(v, f"{path}.{i}")]
    if not isinstance(value, dict):
        return []
    return ([path] if "cache_control" in value else []) + [
        mark for k, v in value.items() if k != "cache_control" for mark in _marks(v, f"{path}.{k}")
    ]


def test_breakpoints_stand_at_the_ends_of_what_stays_the_same() -> None:
    cached = Settings(max_tokens=7)
    system = (SystemBlock(text="One."), SystemBlock(text="Two."))
    assert _marks(body(HELLO, settings=cached)) == [".messages.0.content.0"]
    assert _marks(body(HELLO, settings=cached, system=system, tools=(LOOK, GO))) == [
        ".system.1",
        ".tools.1",
        ".messages.0.content.0",
    ]
    after_a_turn = body(HELLO, *TURN, settings=cached, system=system, tools=(LOOK,))
    assert _marks(after_a_turn) == [
        ".system.1",
        ".tools.0",
        ".messages.0.content.0",
        ".messages.2.content.0",
    ]
    assert after_a_turn["messages"][2]["content"][0]["cache_control"] == MARK


def test_there_are_never_more_breakpoints_than_the_api_takes() -> None:
    system = tuple(SystemBlock(text=str(i), cache=True) for i in range(6))
    sent = body(HELLO, *TURN, settings=Settings(max_tokens=7), system=system, tools=(LOOK,))
    assert _marks(sent) == [".system.4", ".system.5", ".tools.0", ".messages.2.content.0"]
    assert _marks(body(HELLO, *TURN, settings=Settings(max_tokens=7), system=system)) == [
        ".system.3",
        ".system.4",
        ".system.5",
        ".messages.2.content.0",
    ]


def test_breakpoints_can_be_left_out() -> None:
    assert (
        _marks(
            body(
                HELLO,
                *TURN,
                settings=PLAIN,
                system=(SystemBlock(text="One.", cache=True),),
                tools=(LOOK,),
            )
        )
        == []
    )
    automatic = Settings(max_tokens=7, extra={"cache_control": {"type": "ephemeral"}})
    assert _marks(body(HELLO, settings=automatic, tools=(LOOK,))) == [""], (
        "the API was asked to set it by itself"
    )


def test_a_block_that_takes_no_breakpoint_gets_none() -> None:
    paused = Message.assistant(
        [
            TextPart(text="Wait."),
            ProviderPart(provider="anthropic", data='{"type":"server_tool_use","id":"s"}'),
        ]
    )
    assert _marks(body(HELLO, paused, settings=Settings(max_tokens=7))) == [".messages.0.content.0"]
    deferred: dict[str, object] = {"tools": [{"name": "go", "defer_loading": True}]}
    assert _marks(
        body(HELLO, settings=Settings(max_tokens=7, extra=deferred), tools=(LOOK, GO))
    ) == [".tools.0", ".messages.0.content.0"]
    all_deferred: dict[str, object] = {"tools": [{"name": "look", "defer_loading": True}]}
    assert _marks(
        body(HELLO, settings=Settings(max_tokens=7, extra=all_deferred), tools=(LOOK,))
    ) == [".messages.0.content.0"]


# ---------------------------------------------------------------- bytes


PARTS = st.one_of(
    st.builds(TextPart, text=st.text(max_size=5)),
    st.builds(
        ReasoningPart,
        text=st.text(max_size=5),
        provider=st.just("anthropic"),
        provider_data=st.sampled_from([None, '{"signature":"s"}']),
    ),
    st.builds(
        ToolCall,
        id=st.just("t"),
        name=st.just("look"),
        arguments_json=st.sampled_from(["{}", '{"a":1}', "{"]),
    ),
    st.just(ProviderPart(provider="anthropic", data='{"type":"x"}')),
)
MESSAGES = st.lists(
    st.one_of(
        st.builds(Message.user, st.text(max_size=5)),
        st.builds(Message.assistant, st.lists(PARTS, max_size=3)),
        st.just(Message.tool([ToolResult(call_id="t", name="look", content="ok")])),
    ),
    min_size=1,
    max_size=8,
)


@given(MESSAGES, st.integers(0, 8), st.booleans())
def test_a_history_that_grew_gives_the_bytes_of_one_that_came_at_once(
    messages: list[Message], settled: int, cache: bool
) -> None:
    first = Message.user("Go")
    encoder, settings = RequestEncoder("claude-test"), Settings(max_tokens=7, cache=cache)
    grown, request = History([first], settled), None
    for message in messages:
        encoder.encode(ModelRequest(messages=grown, tools=(LOOK,), settings=settings))
        grown.append(message)
    request = ModelRequest(messages=grown, tools=(LOOK,), settings=settings)
    at_once = ModelRequest(
        messages=History([first, *messages], settled), tools=(LOOK,), settings=settings
    )
    sent = encoder.encode(request).body
    assert sent == RequestEncoder("claude-test").encode(at_once).body
    assert len(_marks(json.loads(sent))) <= 4
    assert cache or not _marks(json.loads(sent))


def test_other_settings_of_the_same_conversation_are_sent() -> None:
    encoder, history = RequestEncoder("claude-test"), History([HELLO])
    tokens = [
        json.loads(
            encoder.encode(ModelRequest(messages=history, settings=Settings(max_tokens=n))).body
        )["max_tokens"]
        for n in (5, 5, 6)
    ]
    assert tokens == [5, 5, 6]


def test_two_models_share_a_history_without_mixing_their_heads() -> None:
    history = History([HELLO])
    request = ModelRequest(messages=history, settings=PLAIN)
    models = [
        json.loads(encoder.encode(request).body)["model"]
        for encoder in (RequestEncoder("large"), RequestEncoder("small"), RequestEncoder("large"))
    ]
    assert models == ["large", "small", "large"]


def test_any_sequence_will_do_for_a_history() -> None:
    request = ModelRequest(messages=[HELLO, *TURN], settings=Settings(max_tokens=7))
    assert json.loads(RequestEncoder("m").encode(request).body) == body(
        HELLO, *TURN, settings=Settings(max_tokens=7)
    ) | {"model": "m"}
