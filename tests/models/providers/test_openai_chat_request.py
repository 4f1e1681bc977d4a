"""Our values as the bytes of Chat Completions, for each server of the table."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.strategies import nasty_text, values_of, with_images_only
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.history import History
from treadle.messages.message import (
    MediaPart,
    Message,
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
from treadle.models.providers.openai_chat.request import RequestEncoder
from treadle.models.providers.openai_chat.servers import (
    NAMES,
    OTHER,
    SERVERS,
    ServerTraits,
    server_at,
    server_owning,
)
from treadle.types import Settings, SystemBlock

PLAIN = Settings(max_tokens=100)
LOOK = ToolDefinition(
    name="look", description="Looks.", parameters={"type": "object", "properties": {}}
)
GO = ToolDefinition(
    name="go",
    description="Goes.",
    parameters={"type": "object", "properties": {"a": {"type": "integer"}}},
)
HELLO = Message.user("Hello")
PNG = MediaPart(media_type="image/png", data="iVBORw0KGgo=")
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
}
ROW = {server.name: server for server in (*SERVERS, OTHER)}


def body(
    *messages: Message,
    server: str = "other",
    settings: Settings = PLAIN,
    settled: int = 0,
    model_id: str = "some-model",
    abilities: Abilities = UNKNOWN,
    **request: Any,
) -> dict[str, Any]:
    encoder = RequestEncoder(model_id, ROW[server], abilities)
    return json.loads(
        encoder.encode(
            ModelRequest(messages=History(messages, settled), settings=settings, **request)
        )
    )


def sent(*messages: Message, server: str = "other", **options: Any) -> list[dict[str, Any]]:
    return body(*messages, server=server, **options)["messages"]


def thought(field: str, text: str = "Hm.") -> ReasoningPart:
    return ReasoningPart(
        text=text, provider="openai-chat", provider_data=json.dumps({"field": field})
    )


CALL = ToolCall(id="call_1", name="look", arguments_json='{"a": 1}')
SEEN = Message.tool([ToolResult(call_id="call_1", name="look", content="seen")])


def test_models_that_openai_lets_call_tools_only_without_reasoning() -> None:
    sol: dict[str, Any] = {
        "server": "openai",
        "model_id": "gpt-6-sol",
        "settings": Settings(effort="high"),
        "abilities": known("openai-chat", None, "gpt-6-sol"),
    }
    assert body(HELLO, **sol)["reasoning_effort"] == "high"
    assert body(HELLO, **sol, tools=(LOOK,))["reasoning_effort"] == "none"
    assert body(HELLO, **{**sol, "server": "openrouter"}, tools=(LOOK,))["reasoning"] == {
        "effort": "high"
    }
    with pytest.raises(AgentError, match="openai:gpt-6-astra"):
        body(
            HELLO,
            server="openai",
            model_id="gpt-6-astra",
            abilities=known("openai-chat", None, "gpt-6-astra"),
            tools=(LOOK,),
        )


# ---------------------------------------------------------------- messages


def test_system_blocks_are_one_message_before_all_others() -> None:
    blocks = (
        SystemBlock(text="Be kind.", cache=True),
        SystemBlock(text=""),
        SystemBlock(text="Be brief."),
    )
    assert sent(HELLO, system=blocks)[0] == {"role": "system", "content": "Be kind.\n\nBe brief."}
    assert sent(HELLO, system=blocks, server="openai")[0]["role"] == "developer"
    assert sent(HELLO)[0]["role"] == "user"


def test_calls_and_results_are_messages_of_their_own() -> None:
    results = [
        ToolResult(call_id="call_1", name="look", content="seen"),
        ToolResult(call_id="c 2", name="go away", content="gone", is_error=True),
    ]
    messages = sent(
        HELLO, Message.assistant([CALL, ToolCall(id="c 2", name="go away")]), Message.tool(results)
    )
    first, second = messages[1]["tool_calls"]
    assert messages[1] == {"role": "assistant", "content": None, "tool_calls": [first, second]}
    assert first == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"a": 1}'},
    }
    assert re.fullmatch(r"go_away_\w{8}", second["function"]["name"])
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
        {"role": "tool", "tool_call_id": second["id"], "content": "This call failed: gone"},
    ]


def test_a_failure_without_a_word_is_still_one() -> None:
    assert (
        sent(
            HELLO,
            Message.assistant([CALL]),
            Message.tool([ToolResult(call_id="call_1", name="look", is_error=True)]),
        )[2]["content"]
        == "This call failed."
    )


def test_texts_of_one_message_are_one_text() -> None:
    messages = sent(
        Message.user([TextPart(text="One."), TextPart(text=""), TextPart(text="Two.")]),
        Message.assistant([TextPart(text="Yes"), TextPart(text=".")]),
    )
    assert [m["content"] for m in messages] == ["One.\n\nTwo.", "Yes."]


def test_a_message_that_says_nothing_is_left_out() -> None:
    nothing = [
        Message.assistant([ReasoningPart(text="Hm.")]),
        Message.user(""),
        Message.system(""),
        Message.assistant([UnknownPart(type="x", raw="{}")]),
    ]
    assert sent(HELLO, *nothing) == [{"role": "user", "content": "Hello"}]
    with pytest.raises(AgentError, match="no message") as raised:
        sent(*nothing)
    assert raised.value.kind is ErrorKind.INVALID


def test_images_are_shown_as_such_and_those_of_results_right_after_them() -> None:
    result = ToolResult(
        call_id="call_1", name="look", content=(TextPart(text="Here:"), PNG, TextPart(text="Done."))
    )
    messages = sent(
        Message.user([TextPart(text="Look."), PNG]),
        Message.assistant([CALL]),
        Message.tool([result]),
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert messages[0]["content"] == [{"type": "text", "text": "Look."}, image]
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": "Here:\n[shown below]\nDone."},
        {"role": "user", "content": [{"type": "text", "text": "From the result of look:"}, image]},
    ]


def test_openrouter_gets_back_the_images_that_its_model_made() -> None:
    made = structs.replace(PNG, provider="openai-chat")
    reply = Message.assistant([TextPart(text="Here."), made])
    message = sent(HELLO, reply, Message.user("Bluer."), server="openrouter")[1]
    url = f"data:image/png;base64,{PNG.data}"
    assert (message["content"], message["images"]) == (
        "Here.",
        [{"type": "image_url", "image_url": {"url": url}}],
    )
    for server, part in (("openai", made), ("openrouter", PNG)):
        reply = Message.assistant([TextPart(text="Here."), part])
        message = sent(HELLO, reply, Message.user("Bluer."), server=server)[1]
        assert "images" not in message
        assert "not shown" in message["content"]


def test_images_of_several_results_follow_all_of_them() -> None:
    results = [ToolResult(call_id=f"c{i}", name="look", content=(PNG,)) for i in (1, 2)]
    roles = [
        m["role"]
        for m in sent(
            HELLO,
            Message.assistant([ToolCall(id="c1", name="look"), ToolCall(id="c2", name="look")]),
            Message.tool(results),
        )
    ]
    assert roles == ["user", "assistant", "tool", "tool", "user"]


def test_a_model_that_takes_no_images_reads_what_was_there() -> None:
    messages = sent(
        Message.user([TextPart(text="Look."), PNG]), settled=1, abilities=Abilities(images=False)
    )
    assert "image/png" in messages[0]["content"]


def test_files_go_as_each_server_takes_them() -> None:
    text = MediaPart(
        media_type="text/csv", data=base64.b64encode(b"a,b\n1,2").decode(), name="t.csv"
    )
    pdf = MediaPart(media_type="application/pdf", data="JVBERg==", name="p.pdf")
    sound = MediaPart(media_type="audio/wav", data="UklGRg==")
    film = MediaPart(media_type="video/mp4", url="https://host.test/film.mp4")
    broken = MediaPart(media_type="text/plain", data="=")
    parts = [text, pdf, sound, film, broken]
    known = sent(Message.user(parts), server="openai", settled=1)[0]["content"]
    assert known[0] == {"type": "text", "text": "t.csv:\na,b\n1,2"}
    assert known[1] == {
        "type": "file",
        "file": {"filename": "p.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
    }
    assert known[2] == {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    assert "https://host.test/film.mp4" in known[3]["text"]
    elsewhere = sent(Message.user(parts), settled=1)[0]["content"]
    assert {part["type"] for part in elsewhere} == {"text"}
    assert "p.pdf" in elsewhere[1]["text"]


def test_a_text_file_of_a_result_is_read_in_the_result() -> None:
    file = MediaPart(
        media_type="text/plain", data=base64.b64encode(b"inside").decode(), name="t.txt"
    )
    messages = sent(
        HELLO,
        Message.assistant([CALL]),
        Message.tool([ToolResult(call_id="call_1", name="look", content=(file,))]),
    )
    assert messages[2]["content"] == "t.txt:\ninside"
    assert len(messages) == 3


def test_a_word_of_the_system_in_mid_conversation_is_said_by_a_user_where_it_may_not_stand() -> (
    None
):
    messages = (
        HELLO,
        Message.assistant("Yes?"),
        Message.system("It is late."),
        Message.user("Go."),
    )
    assert sent(*messages, server="openai")[2] == {"role": "developer", "content": "It is late."}
    assert sent(*messages, server="llama.cpp")[2] == {
        "role": "user",
        "content": "<system>\nIt is late.\n</system>",
    }


def test_where_no_user_may_speak_right_after_results_the_assistant_has_said_a_word() -> None:
    steered = (
        HELLO,
        Message.assistant([CALL]),
        SEEN,
        Message.user("Hurry."),
        Message.assistant("Yes."),
    )
    assert [m["role"] for m in sent(*steered, server="mistral")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert [m["role"] for m in sent(*steered)] == ["user", "assistant", "tool", "user", "assistant"]
    assert [
        m["role"]
        for m in sent(
            HELLO, Message.assistant([CALL]), SEEN, Message.assistant("Yes."), server="mistral"
        )
    ] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_ids_are_kept_where_the_server_takes_them_and_are_the_same_in_call_and_result() -> None:
    odd = "functions.look:0"
    history = (
        HELLO,
        Message.assistant([ToolCall(id=odd, name="look")]),
        Message.tool([ToolResult(call_id=odd, name="look", content="seen")]),
    )
    for name, server in ROW.items():
        messages = sent(*history, server=name)
        (id,) = {messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]}
        assert re.fullmatch(server.call_id, id), name
        assert (id == odd) is (re.fullmatch(server.call_id, odd) is not None)
    assert len(sent(*history, server="mistral")[2]["tool_call_id"]) == 9


def test_arguments_that_are_no_json_are_told_in_json() -> None:
    broken = Message.assistant([ToolCall(id="c", name="look", arguments_json='{"a": ')])
    assert json.loads(sent(HELLO, broken)[1]["tool_calls"][0]["function"]["arguments"]) == {
        "INVALID_JSON": '{"a": '
    }


# ---------------------------------------------------------------- reasoning


THINKING = (
    HELLO,
    Message.assistant([thought("reasoning", "Let me "), thought("reasoning", "think."), CALL]),
    SEEN,
)


def test_reasoning_goes_back_within_the_run_under_the_name_that_the_server_wants() -> None:
    def told(server: str, settled: int = 0) -> dict[str, Any]:
        said = sent(*THINKING, server=server, settled=settled)[1]
        return {name: value for name, value in said.items() if name not in ("role", "tool_calls")}

    assert told("vllm") == {"content": None, "reasoning": "Let me think."}
    assert told("other") == {"content": None, "reasoning": "Let me think."}
    assert told("deepseek") == {"content": "", "reasoning_content": "Let me think."}
    assert told("openai") == told("mistral") == told("openrouter") == {"content": None}
    assert told("vllm", settled=3) == {"content": None}
    # each of its calls must have one
    assert told("deepseek", settled=3) == {"content": "", "reasoning_content": ""}


def test_reasoning_of_others_never_goes() -> None:
    foreign = [
        ReasoningPart(text="SECRET", provider="anthropic", provider_data='{"signature":"x"}'),
        ReasoningPart(text="SECRET"),
        CALL,
    ]
    for server in ROW:
        assert "SECRET" not in json.dumps(
            body(HELLO, Message.assistant(foreign), SEEN, server=server)
        ), server


def test_reasoning_details_go_back_as_they_came_to_the_server_that_gave_them() -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc", "index": 0}]
    said = Message.assistant(
        [
            thought("reasoning"),
            CALL,
            ProviderPart(
                provider="openai-chat", data=json.dumps({"reasoning_details": details, "x": 1})
            ),
        ]
    )
    message = sent(HELLO, said, SEEN, server="openrouter")[1]
    assert message["reasoning_details"] == details
    assert message.keys() == {"role", "content", "tool_calls", "reasoning_details"}
    assert "reasoning_details" not in sent(HELLO, said, SEEN, server="openrouter", settled=2)[1]
    assert "reasoning_details" not in sent(HELLO, said, SEEN, server="deepseek")[1]


def test_what_else_a_call_holds_goes_back_where_it_is_known() -> None:
    signed = ToolCall(
        id="call_1",
        name="look",
        provider="openai-chat",
        provider_data='{"extra_content":{"google":{"thought_signature":"c2ln"}}}',
    )
    assert sent(HELLO, Message.assistant([signed]), SEEN, server="google")[1]["tool_calls"][0][
        "extra_content"
    ] == {"google": {"thought_signature": "c2ln"}}
    assert (
        "extra_content"
        not in sent(HELLO, Message.assistant([signed]), SEEN, server="groq")[1]["tool_calls"][0]
    )


# ---------------------------------------------------------------- settings


def test_what_is_not_said_is_not_sent() -> None:
    assert body(HELLO) == {
        "model": "some-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    assert "stream_options" not in body(HELLO, server="mistral")
    assert body(HELLO, server="openai")["max_completion_tokens"] == 100


def test_settings_are_said_in_the_words_of_the_api() -> None:
    chosen = Settings(
        max_tokens=9, temperature=0.5, stop=("END",), tool_choice="any", effort="high"
    )
    told = body(HELLO, settings=chosen, tools=(LOOK,))
    assert (told["temperature"], told["stop"], told["tool_choice"], told["reasoning_effort"]) == (
        0.5,
        ["END"],
        "required",
        "high",
    )
    assert told["tools"] == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": LOOK.parameters},
        }
    ]


@pytest.mark.parametrize(
    ("choice", "word"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("any", "required"),
        ("go", {"type": "function", "function": {"name": "go"}}),
    ],
)
def test_which_tool_is_called_can_be_said(choice: str, word: object) -> None:
    told = body(HELLO, settings=Settings(max_tokens=9, tool_choice=choice), tools=(LOOK, GO))
    assert told["tool_choice"] == word
    assert "tool_choice" not in body(HELLO, settings=Settings(max_tokens=9, tool_choice=choice))


def test_a_server_that_cannot_be_told_which_tool_is_given_only_that_one() -> None:
    told = body(
        HELLO,
        settings=Settings(max_tokens=9, tool_choice="go"),
        tools=(LOOK, GO),
        server="llama.cpp",
    )
    assert (told["tool_choice"], [tool["function"]["name"] for tool in told["tools"]]) == (
        "required",
        ["go"],
    )
    assert told["parallel_tool_calls"] is True
    assert "parallel_tool_calls" not in body(HELLO, server="llama.cpp")


@pytest.mark.parametrize(
    ("server", "chosen", "fields"),
    [
        ("openai", {"thinking": False}, {"reasoning_effort": "none"}),
        ("openai", {"thinking": True}, {}),
        ("openai", {"thinking": 20_000}, {"reasoning_effort": "high"}),
        ("openai", {"thinking": 100, "effort": "max"}, {"reasoning_effort": "max"}),
        ("openai", {"thinking": False, "effort": "high"}, {"reasoning_effort": "none"}),
        ("openrouter", {"thinking": False}, {"reasoning": {"enabled": False}}),
        (
            "openrouter",
            {"thinking": True, "effort": "low"},
            {"reasoning": {"enabled": True, "effort": "low"}},
        ),
        ("openrouter", {"thinking": 4000}, {"reasoning": {"enabled": True, "max_tokens": 4000}}),
        ("openrouter", {"effort": "xhigh"}, {"reasoning": {"effort": "xhigh"}}),
        (
            "deepseek",
            {"thinking": "adaptive", "effort": "max"},
            {"thinking": {"type": "enabled"}, "reasoning_effort": "max"},
        ),
        ("deepseek", {"thinking": False}, {"thinking": {"type": "disabled"}}),
        ("vllm", {"thinking": True}, {"chat_template_kwargs": {"enable_thinking": True}}),
        ("vllm", {"thinking": False}, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("alibaba", {"thinking": 2000}, {"enable_thinking": True, "thinking_budget": 2000}),
        ("ollama", {"thinking": 5}, {"reasoning_effort": "low"}),
    ],
)
def test_thinking_is_asked_for_in_the_words_of_each_server(
    server: str, chosen: dict[str, Any], fields: dict[str, Any]
) -> None:
    told = body(HELLO, server=server, settings=Settings(max_tokens=100, **chosen))
    plain = body(HELLO, server=server)
    assert {name: value for name, value in told.items() if plain.get(name) != value} == fields
    assert body(HELLO, server=server) == plain  # the table is as it was


def test_efforts_are_those_that_the_model_takes() -> None:
    assert (
        body(
            HELLO,
            settings=Settings(max_tokens=9, effort="xhigh"),
            abilities=Abilities(efforts=("low", "high")),
        )["reasoning_effort"]
        == "high"
    )


def test_a_schema_is_strict_where_it_can_be() -> None:
    fitted = body(HELLO, settings=Settings(max_tokens=9, output_schema=SCHEMA))["response_format"]
    assert fitted == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "schema": {**SCHEMA, "additionalProperties": False},
            "strict": True,
        },
    }
    free: dict[str, object] = {"type": "object", "additionalProperties": {"type": "string"}}
    assert body(HELLO, settings=Settings(max_tokens=9, output_schema=free))["response_format"][
        "json_schema"
    ] == {"name": "answer", "schema": free}


def test_extras_go_over_what_we_would_send() -> None:
    extra = {
        "seed": 7,
        "max_tokens": 5,
        "stream_options": {"include_obfuscation": False},
        "tools": [
            {"type": "function", "function": {"name": "look", "strict": True}},
            {"type": "web_search"},
        ],
    }
    told = body(HELLO, settings=Settings(max_tokens=9, extra=extra), tools=(LOOK,))
    assert (told["seed"], told["max_tokens"], told["stream_options"]) == (
        7,
        5,
        {"include_usage": True, "include_obfuscation": False},
    )
    assert told["tools"][0]["function"] == {
        "name": "look",
        "description": "Looks.",
        "parameters": LOOK.parameters,
        "strict": True,
    }
    assert told["tools"][1:] == [{"type": "web_search"}]
    assert body(HELLO, settings=Settings(max_tokens=9, extra={"tools": [{"type": "web_search"}]}))[
        "tools"
    ] == [{"type": "web_search"}]


@pytest.mark.parametrize(
    "extra", [{"messages": []}, {"tools": "look"}, {"tools": [1]}, {"x": object()}]
)
def test_extras_that_cannot_be_sent_are_refused(extra: dict[str, object]) -> None:
    with pytest.raises(AgentError) as raised:
        body(HELLO, settings=Settings(max_tokens=9, extra=extra))
    assert raised.value.kind is ErrorKind.INVALID


# ---------------------------------------------------------------- breakpoints


def marks(told: dict[str, Any]) -> list[tuple[int, int]]:
    """Which parts of which messages carry one."""
    found = [
        (m, p)
        for m, message in enumerate(told["messages"])
        for p, part in enumerate(message["content"] or ())
        if "cache_control" in part
    ]
    assert json.dumps(told).count("cache_control") == len(found)
    return found


def test_claude_behind_a_router_has_breakpoints_after_the_system_and_at_the_ends() -> None:
    def told(*messages: Message, **options: Any) -> dict[str, Any]:
        return body(
            *messages,
            server="openrouter",
            system=(SystemBlock(text="Be kind."),),
            tools=(LOOK,),
            **{"model_id": "anthropic/claude-x", **options},
        )

    steps = (
        HELLO,
        Message.assistant([CALL]),
        SEEN,
        Message.assistant([TextPart(text="And?"), ToolCall(id="call_2", name="look")]),
    )
    last = Message.tool(
        [ToolResult(call_id="call_2", name="look", content=(TextPart(text="x"), PNG))]
    )
    assert marks(told(HELLO)) == [(0, 0), (1, 0)]
    assert marks(told(*steps[:3])) == [(0, 0), (1, 0), (3, 0)]
    assert marks(told(*steps, last)) == [(0, 0), (3, 0), (6, 1)]
    assert (
        json.dumps(told(*steps, last, settings=Settings(max_tokens=9, cache=False))).count(
            "cache_control"
        )
        == 0
    )
    assert json.dumps(told(*steps, last, model_id="openai/gpt-x")).count("cache_control") == 0


def test_a_blank_result_carries_no_breakpoint() -> None:
    blank = Message.tool([ToolResult(call_id="call_1", name="look", content=" ")])
    assert marks(
        body(
            HELLO,
            Message.assistant([CALL]),
            blank,
            server="openrouter",
            model_id="anthropic/claude-x",
        )
    ) == [(0, 0)]


# ---------------------------------------------------------------- servers


@pytest.mark.parametrize(
    ("address", "said", "called", "name"),
    [
        ("https://api.openai.com/v1", "", "", "openai"),
        ("https://mine.openai.azure.com/openai/v1", "", "", "openai"),
        ("https://API.DeepSeek.com", "", "", "deepseek"),
        ("https://api.deepseek.com.evil.test/v1", "", "", "other"),
        ("http://localhost:11434/v1", "", "", "ollama"),
        ("http://127.0.0.1:8080/v1", "", "", "other"),
        ("http://127.0.0.1:8080/v1", "vllm", "ollama", "vllm"),
        ("http://127.0.0.1:8080/v1", "", "llama.cpp", "llama.cpp"),
        ("https://openrouter.ai/api/v1", "", "groq", "openrouter"),
        ("https://openrouter.ai/api/v1", "groq", "", "groq"),
        ("http://127.0.0.1:8080/v1", "LM Studio", "", "lmstudio"),
        ("http://127.0.0.1:8080/v1", "", "llama-cpp", "llama.cpp"),
        ("https://example.test", "", "local", "other"),
    ],
)
def test_a_server_is_known_by_what_is_said_of_it_then_by_its_host_then_by_its_name(
    address: str, said: str, called: str, name: str
) -> None:
    assert server_at(address, said, called).name == name


def test_every_row_of_the_table_is_one_that_can_be_found() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(server.hosts or server.owner for server in SERVERS)
    for server in SERVERS:
        assert all(server_at(f"https://{host}/v1") is server for host in server.hosts)
        assert not server.owner or server_owning(server.owner) is server
        assert not server.reasoning_always or server.reasoning == "reasoning_content"
    assert server_owning("") is OTHER


def test_every_server_of_the_table_is_in_the_documents() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
    told = re.findall(
        r"`([\w.]+)`",
        "".join(
            re.findall(r"^\|(.*?)\|", text[text.index("## Compatible servers") :], re.MULTILINE)
        ),
    )
    assert [name for name in NAMES if name not in told] == []


# ---------------------------------------------------------------- any history


MESSAGES = st.lists(
    st.one_of(
        values_of(Message),
        st.lists(
            st.one_of(
                st.builds(
                    ReasoningPart,
                    text=nasty_text,
                    provider=st.just("openai-chat"),
                    provider_data=st.sampled_from(
                        [
                            None,
                            '{"field":"reasoning"}',
                            '{"field":"content"}',
                            '{"field":1}',
                            "nope",
                        ]
                    ),
                ),
                st.builds(
                    ProviderPart,
                    provider=st.just("openai-chat"),
                    data=st.sampled_from(['{"reasoning_details":[{"type":"x"}]}', "[]", "{half"]),
                ),
                st.builds(
                    ToolCall,
                    id=st.sampled_from(["", "a", "b c", "x" * 90]),
                    name=nasty_text,
                    arguments_json=nasty_text,
                    provider=st.sampled_from([None, "openai-chat"]),
                    provider_data=st.sampled_from([None, '{"extra_content":{}}', "[1]", "nope"]),
                ),
                st.builds(TextPart, text=nasty_text),
            ),
            max_size=4,
        ).map(Message.assistant),
        st.builds(Message.system, nasty_text),
    ),
    max_size=5,
)
CASES = st.sampled_from([*ROW.values()])


@settings(max_examples=300)
@given(MESSAGES, st.integers(0, 6), CASES, st.booleans())
def test_any_history_becomes_a_request_that_the_server_takes(
    messages: list[Message], settled: int, server: ServerTraits, cached: bool
) -> None:
    history = [*with_images_only(repair_history(messages)), Message.user("Go")]
    told = body(
        *history,
        server=server.name,
        settled=settled,
        model_id="anthropic/x" if cached else "x",
        system=(SystemBlock(text="Be kind."),),
    )
    open_calls: set[str] = set()
    before = ""
    for place, message in enumerate(told["messages"]):
        role = message["role"]
        assert (role == server.system_role) is (place == 0) or server.later_system
        if role == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls
        assert not (server.after_tools and before == "tool" and role == "user")
        open_calls |= _check(message, server)
        before = role
    assert not open_calls


def _check(message: dict[str, Any], server: ServerTraits) -> set[str]:
    role, content = message["role"], message["content"]
    known = {
        "role",
        "content",
        "tool_calls",
        "tool_call_id",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
    }
    assert message.keys() <= known
    assert role in ("user", "assistant", "tool", server.system_role)
    if role == "user":
        assert content
    if isinstance(content, list):
        assert content
        assert {part["type"] for part in content} <= (
            {"text", "image_url", "file", "input_audio"} if role == "user" else {"text"}
        )
    calls = message.get("tool_calls", [])
    assert isinstance(content, str | list) or (role == "assistant" and calls)
    for call in calls:
        assert re.fullmatch(server.call_id, call["id"])
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    ids = {call["id"] for call in calls}
    assert len(ids) == len(calls)
    return ids


@given(MESSAGES, st.integers(0, 6), CASES, st.booleans())
def test_a_history_that_grew_gives_the_bytes_of_one_that_came_at_once(
    messages: list[Message], settled: int, server: ServerTraits, cached: bool
) -> None:
    encoder, grown = (
        RequestEncoder("anthropic/x" if cached else "x", server),
        History([HELLO], settled),
    )
    messages = with_images_only(messages)
    for message in messages:
        encoder.encode(ModelRequest(messages=grown, tools=(LOOK,), settings=PLAIN))
        grown.append(message)
    whole = History([HELLO, *messages], settled)
    again = RequestEncoder("anthropic/x" if cached else "x", server).encode(
        ModelRequest(messages=whole, tools=(LOOK,), settings=PLAIN)
    )
    assert encoder.encode(ModelRequest(messages=grown, tools=(LOOK,), settings=PLAIN)) == again


def test_one_history_is_encoded_for_each_server_apart() -> None:
    history = History(THINKING)
    request = ModelRequest(messages=history, settings=PLAIN)
    told = {
        name: json.loads(RequestEncoder("x", server).encode(request))["messages"][1]
        for name, server in ROW.items()
    }
    assert "reasoning_content" in told["deepseek"]
    assert "reasoning" in told["vllm"]
    assert told["openai"].keys() == {"role", "content", "tool_calls"}
