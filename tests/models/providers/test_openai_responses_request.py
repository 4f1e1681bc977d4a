"""Our values as the bytes of the Responses API."""

from __future__ import annotations

import base64
import json
import re
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from tests.strategies import values_of, with_images_only
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
from treadle.messages.validate import repair_history
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.known_models import known
from treadle.models.providers.openai_responses.messages import MessageEncoder
from treadle.models.providers.openai_responses.request import RequestEncoder
from treadle.tools.function import tool
from treadle.types import Settings, SystemBlock

PLAIN = Settings(max_tokens=100)
LOOK = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})
GO = ToolDefinition(
    name="go",
    description="Goes.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
)
HELLO = Message.user("Hello")
SAID_YES = {"type": "message", "role": "assistant", "content": "Yes."}
THOUGHT = ReasoningPart(
    text="Hm.",
    provider="openai",
    provider_data='{"id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"enc","status":"completed"}',
)


def body(
    *messages: Message,
    settings: Settings = PLAIN,
    settled: int = 0,
    model_id: str = "gpt-test",
    abilities: Abilities = UNKNOWN,
    cache_keys: bool = False,
    **request: Any,
) -> dict[str, Any]:
    encoder = RequestEncoder(model_id, abilities, cache_keys=cache_keys)
    return json.loads(
        encoder.encode(
            ModelRequest(messages=History(messages, settled), settings=settings, **request)
        )
    )


def items(*parts: Part, role: str = "assistant", settled: bool = False) -> list[dict[str, Any]]:
    return json.loads(b"[" + MessageEncoder().encode(Message.of(role, parts), settled) + b"]")  # pyright: ignore[reportArgumentType]  one of the roles


# ---------------------------------------------------------------- what the model said


def test_reasoning_goes_back_encrypted_next_to_its_calls_in_its_run_and_not_after() -> None:
    said = (
        THOUGHT,
        ToolCall(id="call_1", name="look", arguments_json='{"a": 1}'),
        THOUGHT,
        TextPart(text="Yes."),
    )
    assert [i.get("type", "message") for i in items(*said)] == [
        "reasoning",
        "function_call",
        "reasoning",
        "message",
    ]
    assert items(*said)[0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "enc",
    }
    assert [i.get("type", "message") for i in items(*said, settled=True)] == [
        "function_call",
        "message",
    ]


def test_items_go_back_without_ids_which_nobody_has_stored() -> None:
    call = ToolCall(id="call_1", name="look", provider="openai", provider_data='{"namespace":"n"}')
    hosted = ProviderPart(
        provider="openai",
        data='{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}}',
    )
    sent = items(THOUGHT, hosted, call)
    assert [i.get("id") for i in sent] == [None] * 3
    assert sent[1] == {
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    assert sent[2] == {
        "type": "function_call",
        "call_id": "call_1",
        "name": "look",
        "arguments": "{}",
        "namespace": "n",
    }


def test_items_whose_type_insists_on_an_id_keep_it() -> None:
    listed = '{"type":"mcp_list_tools","id":"mcpl_1","server_label":"wiki","tools":[]}'
    assert items(ProviderPart(provider="openai", data=listed), TextPart(text="Yes."))[
        0
    ] == json.loads(listed)


def test_what_was_compacted_goes_back_as_it_came() -> None:
    compacted = '{"type":"compaction","id":"cmp_1","encrypted_content":"enc"}'
    assert items(ProviderPart(provider="openai", data=compacted), TextPart(text="Yes."))[
        0
    ] == json.loads(compacted)


def test_reasoning_in_the_open_goes_back_as_it_came() -> None:
    shown = ReasoningPart(
        text="Hm.",
        provider="openai",
        provider_data='{"summary":[],"content":[{"type":"reasoning_text","text":"Hm."}],"encrypted_content":""}',
    )
    assert items(shown, TextPart(text="Yes."))[0] == {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }


@pytest.mark.parametrize(
    "data",
    [
        None,
        "{}",
        '{"id":"rs_1","summary":[]}',
        '{"summary":[],"encrypted_content":""}',
        '{"content":[],"encrypted_content":null}',
        "no JSON",
    ],
)
def test_reasoning_that_only_its_provider_could_look_up_is_left_out(data: str | None) -> None:
    assert items(
        ReasoningPart(text="Hm.", provider="openai", provider_data=data), TextPart(text="Yes.")
    ) == [SAID_YES]


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    assert items(THOUGHT) == []
    assert items(THOUGHT, TextPart(text="")) == []
    assert [i.get("type", "message") for i in items(TextPart(text="Yes."), THOUGHT)] == ["message"]


@pytest.mark.parametrize(
    "part",
    [
        ReasoningPart(text="Hm."),
        ReasoningPart(
            text="Hm.",
            provider="anthropic",
            provider_data='{"signature":"s","encrypted_content":"no"}',
        ),
        ProviderPart(provider="anthropic", data='{"type":"server_tool_use"}'),
        ProviderPart(provider="openai", data="no JSON"),
        ProviderPart(provider="openai", data="{}"),
        UnknownPart(type="hologram", raw='{"type":"hologram"}'),
        TextPart(text=""),
    ],
)
def test_what_is_not_for_this_provider_is_left_out(part: Part) -> None:
    assert items(part, TextPart(text="Yes.")) == [SAID_YES]
    assert items(part) == []


def test_phases_refusals_and_citations_go_back_verbatim_to_their_provider_alone() -> None:
    cited = '{"phase":"final_answer","annotations":[{"type":"url_citation","url":"u","title":"t","start_index":0,"end_index":1}]}'
    assert items(
        TextPart(text="Well.", provider="openai", provider_data='{"phase":"commentary"}')
    ) == [{"type": "message", "role": "assistant", "content": "Well.", "phase": "commentary"}]
    (sent,) = items(TextPart(text="Yes.", provider="openai", provider_data=cited))
    assert (sent["type"], sent["phase"], sent["content"][0]["annotations"][0]["url"]) == (
        "message",
        "final_answer",
        "u",
    )
    (refused,) = items(TextPart(text="No.", provider="openai", provider_data='{"type":"refusal"}'))
    assert refused["content"] == [{"type": "refusal", "refusal": "No."}]
    assert items(TextPart(text="Yes.", provider="elsewhere", provider_data=cited)) == [SAID_YES]


@pytest.mark.parametrize(
    "text",
    ['{"a": 1e400}', '{"n":123456789012345678901234567890}', '{"a":1,"a":2}', '{ "b" : [ ] }'],
)
def test_arguments_go_back_as_the_model_wrote_them(text: str) -> None:
    assert items(ToolCall(id="t", name="look", arguments_json=text))[0]["arguments"] == text


@pytest.mark.parametrize(
    "text", ['{"a":', "[1]", "7", "NaN", '{"a":' + "[" * 10_000 + "]" * 10_000 + "}"]
)
def test_arguments_that_are_no_json_object_are_told_as_such(text: str) -> None:
    assert json.loads(
        items(ToolCall(id="t", name="look", arguments_json=text))[0]["arguments"]
    ) == {"INVALID_JSON": text}


def test_ids_and_names_of_other_providers_are_made_acceptable_on_both_sides() -> None:
    call = items(ToolCall(id="call|1:" + "x" * 70, name="files.read"))[0]
    result = items(
        ToolResult(call_id="call|1:" + "x" * 70, name="files.read", content="ok"), role="tool"
    )[0]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["call_id"])
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["name"])
    assert result["call_id"] == call["call_id"]


def test_a_call_of_a_custom_tool_goes_back_as_one_and_so_does_its_result() -> None:
    call = ToolCall(
        id="call_1",
        name="look",
        arguments_json='{"input":"any \\"text\\""}',
        provider="openai",
        provider_data='{"type":"custom_tool_call"}',
    )
    sent = body(
        HELLO,
        Message.assistant([call]),
        Message.tool([ToolResult(call_id="call_1", name="look", content="seen")]),
    )["input"]
    assert sent[1] == {
        "type": "custom_tool_call",
        "call_id": "call_1",
        "name": "look",
        "input": 'any "text"',
    }
    assert sent[2] == {"type": "custom_tool_call_output", "call_id": "call_1", "output": "seen"}


@pytest.mark.parametrize("kind", ["local_shell_call", "shell_call", "apply_patch_call"])
def test_a_call_that_nobody_here_can_run_is_answered_so(kind: str) -> None:
    call = ProviderPart(
        provider="openai", data=json.dumps({"type": kind, "id": "x_1", "call_id": "call_1"})
    )
    answer = ProviderPart(
        provider="openai",
        data=json.dumps({"type": f"{kind}_output", "call_id": "call_1", "output": "done"}),
    )
    assert [(i["type"], i["call_id"]) for i in items(call)] == [
        (kind, "call_1"),
        (f"{kind}_output", "call_1"),
    ]
    assert "not run" in json.dumps(items(call)[1])
    assert [i["type"] for i in items(call, answer)] == [kind, f"{kind}_output"]
    assert "not run" not in json.dumps(items(call, answer))


def test_a_call_that_the_provider_ran_itself_needs_no_answer() -> None:
    call = {
        "type": "shell_call",
        "call_id": "call_1",
        "environment": {"type": "container_reference", "container_id": "cntr_1"},
        "action": {"commands": ["ls"]},
    }
    assert items(ProviderPart(provider="openai", data=json.dumps(call))) == [call]


def test_half_characters_do_not_break_a_history() -> None:
    said = items(
        TextPart(text="a\ud83d"),
        ToolCall(id="t", name="look", arguments_json='{"a":"\\ud83d","b":"\ud83d"}'),
        ProviderPart(provider="openai", data='{"type":"x","a":"\ud83d"}'),
    )
    assert said[0]["content"] == "a\ufffd"
    assert json.loads(said[1]["arguments"]) == {"a": "\ufffd", "b": "\ufffd"}
    assert said[2]["a"] == "\ufffd"


# ---------------------------------------------------------------- what it is told


def test_results_stand_before_what_the_user_adds() -> None:
    sent = items(
        ToolResult(call_id="a", name="look", content="one"),
        TextPart(text="Hurry."),
        ToolResult(call_id="b", name="look", content=""),
        role="tool",
    )
    assert sent == [
        {"type": "function_call_output", "call_id": "a", "output": "one"},
        {"type": "function_call_output", "call_id": "b", "output": ""},
        {"role": "user", "content": "Hurry."},
    ]


def test_a_failed_call_says_so() -> None:
    failed = [
        items(ToolResult(call_id="a", name="look", content=content, is_error=True), role="tool")[0][
            "output"
        ]
        for content in ("Not there.", "", ())
    ]
    assert failed == ["This call failed:\nNot there.", "This call failed.", "This call failed."]
    pictured = ToolResult(
        call_id="a",
        name="look",
        content=(MediaPart(media_type="image/png", data="QUJD"),),
        is_error=True,
    )
    assert [part["type"] for part in items(pictured, role="tool")[0]["output"]] == [
        "input_text",
        "input_image",
    ]


def test_pictures_and_files_are_sent_where_they_stand() -> None:
    media = [
        MediaPart(media_type="image/png", data="QUJD"),
        MediaPart(media_type="image/webp", url="https://example.com/a.webp"),
        MediaPart(media_type="application/pdf", data="QUJD", name="a.pdf"),
        MediaPart(media_type="application/pdf", data="QUJD"),
        MediaPart(media_type="application/pdf", url="https://example.com/a.pdf"),
        MediaPart(media_type="text/csv", data=base64.b64encode(b"a,b").decode(), name="t.csv"),
        MediaPart(media_type="text/plain", data="a"),
        MediaPart(media_type="audio/wav", data="QUJD"),
    ]
    expected = [
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"},
        {"type": "input_image", "detail": "auto", "image_url": "https://example.com/a.webp"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,QUJD",
        },
        {
            "type": "input_file",
            "filename": "file.pdf",
            "file_data": "data:application/pdf;base64,QUJD",
        },
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_text", "text": "t.csv:\na,b"},
    ]
    assert items(*media, role="user")[0]["content"][:6] == expected
    assert (
        items(ToolResult(call_id="a", name="look", content=tuple(media)), role="tool")[0]["output"][
            :6
        ]
        == expected
    )
    described = [
        part["text"] for part in items(*media, role="user", settled=True)[0]["content"][6:]
    ]
    assert all("not shown" in text for text in described)
    assert items(media[0])[0]["content"].startswith("[a file (image/png)")
    (blind,) = body(Message.user([media[0]]), settled=1, abilities=Abilities(images=False))["input"]
    assert "not shown" in blind["content"]


def test_a_word_of_the_system_stands_where_it_was_said() -> None:
    sent = body(HELLO, Message.system("Be brief."), Message.user("Go."))["input"]
    assert [i["role"] for i in sent] == ["user", "system", "user"]


def test_a_request_without_a_message_is_wrong_use() -> None:
    with pytest.raises(AgentError, match="no message to send") as raised:
        body(Message.user(""))
    assert raised.value.kind is ErrorKind.INVALID


# ---------------------------------------------------------------- settings


def test_nothing_is_stored_and_reasoning_is_asked_for() -> None:
    sent = body(HELLO)
    assert (sent["store"], sent["stream"], sent["include"]) == (
        False,
        True,
        ["reasoning.encrypted_content"],
    )
    assert set(sent) == {"model", "store", "stream", "include", "max_output_tokens", "input"}
    assert "include" not in body(HELLO, abilities=Abilities(reasoning=False)), (
        "the API refuses to encrypt what such a model has not"
    )


def test_a_limit_below_what_the_api_takes_is_raised_to_it() -> None:
    limits = (None, 1, 16, 17)
    assert [body(HELLO, settings=Settings(max_tokens=n))["max_output_tokens"] for n in limits] == [
        8192,
        16,
        16,
        17,
    ]


@pytest.mark.parametrize(
    ("settings", "reasoning"),
    [
        (Settings(), None),
        (Settings(effort="low"), {"effort": "low"}),
        (Settings(effort="max"), {"effort": "high"}),
        (Settings(thinking=True), {"summary": "auto"}),
        (Settings(thinking="adaptive", effort="medium"), {"effort": "medium", "summary": "auto"}),
        (Settings(thinking=2_000), {"effort": "low", "summary": "auto"}),
        (Settings(thinking=10_000), {"effort": "medium", "summary": "auto"}),
        (Settings(thinking=20_000), {"effort": "high", "summary": "auto"}),
        (Settings(thinking=99_000), {"effort": "high", "summary": "auto"}),
        (Settings(thinking=False, effort="high"), {"effort": "none"}),
    ],
)
def test_thinking_and_effort_are_said_in_the_apis_words(
    settings: Settings, reasoning: dict[str, str] | None
) -> None:
    assert (
        body(HELLO, settings=settings, abilities=Abilities(efforts=("low", "medium", "high"))).get(
            "reasoning"
        )
        == reasoning
    )


@pytest.mark.parametrize(
    ("model_id", "abilities", "least"),
    [
        ("gpt-5-mini-2025-08-07", known("openai", None, "gpt-5-mini-2025-08-07"), "minimal"),
        ("gpt-5.1", Abilities(), "none"),
        ("o4-mini", Abilities(), "low"),
        ("gpt-5.5-pro", Abilities(efforts=("medium", "high")), "medium"),
    ],
)
def test_thinking_that_is_off_is_as_little_as_the_model_can(
    model_id: str, abilities: Abilities, least: str
) -> None:
    assert body(HELLO, settings=Settings(thinking=False), model_id=model_id, abilities=abilities)[
        "reasoning"
    ] == {"effort": least}


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    assert "reasoning" not in body(
        HELLO, settings=Settings(thinking=True, effort="low"), abilities=Abilities(reasoning=False)
    )


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("any", "required"),
        ("none", "none"),
        ("go", {"type": "function", "name": "go"}),
    ],
)
def test_the_choice_of_a_tool(choice: str, sent: object) -> None:
    assert (
        body(HELLO, settings=Settings(tool_choice=choice), tools=(LOOK, GO))["tool_choice"] == sent
    )
    assert "tool_choice" not in body(HELLO, settings=Settings(tool_choice=choice))


def test_tools_are_strict_where_their_schema_allows_it() -> None:
    look, go = body(HELLO, tools=(LOOK, GO))["tools"]
    assert look == {
        "type": "function",
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
    assert (go["strict"], go["parameters"]["required"]) == (True, [])
    closed = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    (tool,) = body(HELLO, tools=(ToolDefinition(name="t", description="", parameters=closed),))[
        "tools"
    ]
    assert (tool["strict"], tool["parameters"]) == (True, closed)


class Place(NamedTuple):
    x: int
    y: float


def test_tuples_in_a_functions_parameters_have_items() -> None:
    def mark(at: Place, size: tuple[int, int] = (1, 1)) -> None:
        """Mark a place."""

    def measure(at: tuple[int, int], unit: Annotated[str, Field(max_length=9)]) -> None:
        """Measure."""

    loose, exact = body(HELLO, tools=(tool(mark).definition, tool(measure).definition))["tools"]
    assert (loose["strict"], exact["strict"]) == (False, True)
    assert loose["parameters"]["properties"]["at"]["items"] == {
        "anyOf": [{"type": "integer"}, {"type": "number"}]
    }
    assert [
        place["description"] for place in loose["parameters"]["properties"]["at"]["prefixItems"]
    ] == ["X", "Y"]
    assert exact["parameters"]["properties"] == {
        "at": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        "unit": {"type": "string", "description": "(maxLength: 9)"},
    }


def test_an_answers_schema_is_made_strict_where_it_can_be() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}},
        "required": ["b"],
    }
    sent = body(
        HELLO, settings=Settings(output_schema=schema, extra={"text": {"verbosity": "low"}})
    )["text"]
    assert sent["verbosity"] == "low"
    assert (sent["format"]["type"], sent["format"]["strict"]) == ("json_schema", True)
    assert sent["format"]["schema"]["required"] == ["a", "b"]
    open_ended = {"type": "object", "additionalProperties": {"type": "string"}}
    assert body(HELLO, settings=Settings(output_schema=open_ended))["text"]["format"] == {
        "type": "json_schema",
        "name": "answer",
        "schema": open_ended,
        "strict": False,
    }


def test_system_blocks_are_the_instructions() -> None:
    assert (
        body(
            HELLO, system=(SystemBlock(text="One."), SystemBlock(text=""), SystemBlock(text="Two."))
        )["instructions"]
        == "One.\n\nTwo."
    )
    assert "instructions" not in body(HELLO)


def test_extras_are_merged_over_what_is_sent() -> None:
    extra = {
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "service_tier": "flex",
        "reasoning": {"context": "all_turns"},
        "store": True,
    }
    sent = body(HELLO, settings=Settings(effort="low", extra=extra))
    assert sent["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert (sent["service_tier"], sent["store"], sent["reasoning"]) == (
        "flex",
        True,
        {"effort": "low", "context": "all_turns"},
    )


def test_tools_of_the_extras_are_merged_by_name() -> None:
    extra: dict[str, object] = {
        "tools": [
            {"type": "web_search"},
            {"name": "look", "defer_loading": True},
            {"type": "custom", "name": "go"},
        ]
    }
    sent = body(HELLO, settings=Settings(extra=extra, tool_choice="go"), tools=(LOOK, GO))
    assert [t.get("name") for t in sent["tools"]] == ["look", "go", None]
    assert sent["tools"][0]["defer_loading"] is True
    assert sent["tools"][1] == {"type": "custom", "name": "go", "description": "Goes."}
    assert sent["tool_choice"] == {"type": "custom", "name": "go"}


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"input": []}, "input"),
        ({"tools": {}}, "tools"),
        ({"tools": ["x"]}, "tools"),
        ({"include": "x"}, "include"),
        ({"x": object()}, "JSON"),
    ],
)
def test_extras_that_cannot_be_sent_are_named(extra: dict[str, object], named: str) -> None:
    with pytest.raises(AgentError, match=named) as raised:
        body(HELLO, settings=Settings(extra=extra))
    assert raised.value.kind is ErrorKind.INVALID


def test_a_conversation_has_one_cache_key_and_another_has_another() -> None:
    turn = (
        Message.assistant([ToolCall(id="c", name="look")]),
        Message.tool([ToolResult(call_id="c", name="look", content="x")]),
    )
    keys = [
        body(*messages, cache_keys=True, tools=(LOOK,))["prompt_cache_key"]
        for messages in ((HELLO,), (HELLO, *turn), (Message.user("Bye"),))
    ]
    assert keys[0] == keys[1] != keys[2]
    assert len(keys[0]) <= 64
    assert body(HELLO, cache_keys=True, tools=(LOOK, GO))["prompt_cache_key"] != keys[0]
    assert "prompt_cache_key" not in body(HELLO, cache_keys=True, settings=Settings(cache=False))
    assert "prompt_cache_key" not in body(HELLO)


# ---------------------------------------------------------------- any history


ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
}
OWN = st.one_of(
    st.builds(
        ReasoningPart,
        text=st.text(max_size=5),
        provider=st.just("openai"),
        provider_data=st.sampled_from(
            [
                None,
                "{}",
                '{"encrypted_content":"e","summary":[]}',
                '{"id":"rs_1"}',
                "[",
                '{"content":[{"type":"reasoning_text","text":"x"}]}',
            ]
        ),
    ),
    st.builds(
        ToolCall,
        id=st.sampled_from(["c1", "c2", "", "a|b", "x" * 80]),
        name=st.sampled_from(["look", "", "a.b"]),
        arguments_json=st.sampled_from(["{}", '{"input":"x"}', "{", "[1]", ""]),
        provider=st.sampled_from([None, "openai", "gemini"]),
        provider_data=st.sampled_from(
            [None, '{"type":"custom_tool_call"}', '{"namespace":"n"}', "nope"]
        ),
    ),
    st.builds(
        ProviderPart,
        provider=st.just("openai"),
        data=st.sampled_from(
            [
                '{"type":"local_shell_call","call_id":"s1","id":"l","action":{}}',
                '{"type":"web_search_call","id":"w"}',
                '{"type":"compaction"}',
                "{",
                "{}",
            ]
        ),
    ),
    st.builds(
        TextPart,
        text=st.text(max_size=3),
        provider=st.just("openai"),
        provider_data=st.sampled_from([None, '{"phase":"commentary"}', '{"type":"refusal"}', "x"]),
    ),
)
PARTS = st.one_of(OWN, values_of(Part))
MESSAGES = st.lists(
    st.one_of(
        values_of(Message),
        st.builds(Message.assistant, st.lists(PARTS, max_size=4)),
        st.builds(Message.user, st.text(max_size=3)),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=300)
@given(MESSAGES, st.integers(0, 6))
def test_any_history_becomes_a_request_that_the_api_takes(
    messages: list[Message], settled: int
) -> None:
    messages = with_images_only(repair_history(messages))
    sent = body(*messages, Message.user("Go"), settled=settled)["input"]
    open_calls: dict[str, str] = {}
    for item, following in zip(sent, [*sent[1:], {}], strict=True):
        _check_item(item)
        kind = item.get("type", "message")
        if kind == "reasoning":
            assert not settled or settled <= len(messages)
            assert following.get("role", "assistant") == "assistant"
            assert not following.get("type", "message").endswith("_output")
        if kind in ANSWERS:
            open_calls[item["call_id"]] = ANSWERS[kind]
        elif kind in ANSWERS.values():
            assert open_calls.pop(item["call_id"]) == kind
        elif item.get("role") in ("user", "system"):
            assert not open_calls
    assert not open_calls


def _check_item(item: dict[str, Any]) -> None:
    match item.get("type", "message"):
        case "message":
            assert item["role"] in ("user", "assistant", "system")
            assert item["content"]
            kinds = {
                "user": {"input_text", "input_image", "input_file"},
                "assistant": {"output_text", "refusal"},
                "system": set[str](),
            }[item["role"]]
            assert (
                isinstance(item["content"], str)
                or {part["type"] for part in item["content"]} <= kinds
            )
        case "reasoning":
            assert item.get("encrypted_content") or item.get("content")
            assert isinstance(item["summary"], list)
            assert "id" not in item
        case "function_call":
            assert ID.fullmatch(item["call_id"])
            assert ID.fullmatch(item["name"])
            assert isinstance(json.loads(item["arguments"]), dict)
        case "custom_tool_call":
            assert ID.fullmatch(item["call_id"])
            assert isinstance(item["input"], str)
        case "function_call_output" | "custom_tool_call_output":
            assert ID.fullmatch(item["call_id"])
            assert isinstance(item["output"], str) or {part["type"] for part in item["output"]} <= {
                "input_text",
                "input_image",
                "input_file",
            }
        case _:
            pass


@given(MESSAGES, st.integers(0, 6), st.booleans())
def test_a_history_that_grew_gives_the_bytes_of_one_that_came_at_once(
    messages: list[Message], settled: int, cache: bool
) -> None:
    chosen = Settings(max_tokens=20, cache=cache)
    encoder, grown = RequestEncoder("gpt-test", cache_keys=True), History([HELLO], settled)
    messages = with_images_only(messages)
    for message in messages:
        encoder.encode(ModelRequest(messages=grown, tools=(LOOK,), settings=chosen))
        grown.append(message)
    at_once = RequestEncoder("gpt-test", cache_keys=True).encode(
        ModelRequest(messages=[HELLO, *messages], tools=(LOOK,), settings=chosen)
    )
    if settled == 0:
        assert (
            encoder.encode(ModelRequest(messages=grown, tools=(LOOK,), settings=chosen)) == at_once
        )
    whole = History([HELLO, *messages], settled)
    assert encoder.encode(
        ModelRequest(messages=grown, tools=(LOOK,), settings=chosen)
    ) == RequestEncoder("gpt-test", cache_keys=True).encode(
        ModelRequest(messages=whole, tools=(LOOK,), settings=chosen)
    )
