"""Tools that providers run, and calls that are held to their schemas: what is sent for the
settings, and what people are shown.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from tests.doubles import open_runtime
from tests.models.providers.loopback import document, serving
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent
from treadle._internal.redaction import Redactor
from treadle.cli.render import Text
from treadle.config import Config, Provider, Secret
from treadle.errors import AgentError
from treadle.messages import events
from treadle.messages.history import History
from treadle.messages.message import Message
from treadle.models.model import Fold, ModelRequest, ToolDefinition
from treadle.models.providers.anthropic.request import RequestEncoder as Claude
from treadle.models.providers.anthropic.stream import MessagesDecoder
from treadle.models.providers.decoding import Decoder
from treadle.models.providers.gemini.request import RequestEncoder as Gemini
from treadle.models.providers.gemini.stream import ContentDecoder
from treadle.models.providers.known_models import known
from treadle.models.providers.openai_chat.request import RequestEncoder as Chat
from treadle.models.providers.openai_chat.servers import OTHER
from treadle.models.providers.openai_responses.request import RequestEncoder as Responses
from treadle.models.providers.openai_responses.stream import ResponsesDecoder
from treadle.types import CodeExecution, FileSearch, Settings, WebSearch, now

ALL = Settings(max_tokens=100, hosted_tools=("web_search", "web_fetch", "code_execution"))
STRICT = Settings(max_tokens=100, strict_tools=True)
HELLO = Message.user("Hello")
NAMED = {
    "type": "object",
    "properties": {"a": {"type": "string", "minLength": 1}},
    "required": ["a"],
    "additionalProperties": False,
}
LOOK = ToolDefinition(name="look", description="Looks.", parameters=NAMED)
ANY = ToolDefinition(name="any", description="Any.", parameters={"type": "object"})


def claude(model_id: str, settings: Settings, *tools: ToolDefinition) -> dict[str, Any]:
    encoder = Claude(model_id, abilities=known("anthropic", None, model_id))
    return json.loads(
        encoder.encode(ModelRequest(messages=(HELLO,), settings=settings, tools=tools)).body
    )


def sent(
    encoder: Responses | Gemini | Chat, settings: Settings, *tools: ToolDefinition
) -> dict[str, Any]:
    return json.loads(
        encoder.encode(ModelRequest(messages=(HELLO,), settings=settings, tools=tools))
    )


@pytest.mark.parametrize(
    ("model_id", "types"),
    [
        (
            "claude-opus-5-5",
            ["web_search_20260209", "web_fetch_20260209", "code_execution_20260120"],
        ),
        (
            "claude-haiku-4-5",
            ["web_search_20250305", "web_fetch_20250910", "code_execution_20250825"],
        ),
    ],
)
def test_claude_gets_the_versions_that_it_takes_and_details_from_the_extras(
    model_id: str, types: list[str]
) -> None:
    detailed = ALL.over(Settings(extra={"tools": [{"name": "web_search", "max_uses": 3}]}))
    ours, search, fetch, run = claude(model_id, detailed, LOOK)["tools"]
    assert ours["name"] == "look"
    assert [search["type"], fetch["type"], run["type"]] == types
    assert search["max_uses"] == 3
    own = ToolDefinition(name="web_search", description="Ours.", parameters=NAMED)
    assert [
        tool["name"]
        for tool in claude(model_id, Settings(hosted_tools=("web_search",)), own)["tools"]
    ] == ["web_search"]


def test_openai_gets_its_own_tools_and_details_from_the_extras() -> None:
    detailed = ALL.over(
        Settings(extra={"tools": [{"type": "web_search", "search_context_size": "low"}]})
    )
    assert sent(Responses("gpt-6-sol"), detailed)["tools"] == [
        {"type": "web_search", "search_context_size": "low"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
    ]


def test_gemini_gets_its_own_tools_and_older_models_only_without_functions() -> None:
    body = sent(Gemini("gemini-3.8-flash"), ALL, LOOK)
    assert body["tools"][1:] == [{"googleSearch": {}}, {"urlContext": {}}, {"codeExecution": {}}]
    assert body["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert len(sent(Gemini("gemini-2.5-pro"), ALL, LOOK)["tools"]) == 1
    assert len(sent(Gemini("gemini-2.5-pro"), ALL)["tools"]) == 3


def test_strict_tools_are_strict_where_their_schema_can_be_said_exactly() -> None:
    held, loose = claude("claude-opus-5-5", STRICT, LOOK, ANY)["tools"]
    assert (held["strict"], held["input_schema"]["properties"]) == (
        True,
        {"a": {"type": "string", "description": "(minLength: 1)"}},
    )
    assert ("strict" in loose, loose["input_schema"]) == (False, {"type": "object"})
    assert "strict" not in claude("claude-opus-5-5", Settings(), LOOK)["tools"][0]
    assert (
        sum(
            "strict" in tool
            for tool in claude(
                "claude-opus-5-5",
                STRICT,
                *[
                    ToolDefinition(name=f"t{i}", description="", parameters=NAMED)
                    for i in range(30)
                ],
            )["tools"]
        )
        == 20
    )
    assert [
        tool["strict"]
        for tool in sent(Responses("gpt-6-sol"), Settings(strict_tools=False), LOOK)["tools"]
    ] == [False]
    assert sent(Chat("some-model", OTHER), STRICT, LOOK)["tools"][0]["function"]["strict"] is True
    assert sent(Gemini("gemini-3.8-flash"), STRICT, LOOK)["toolConfig"] == {
        "functionCallingConfig": {"mode": "VALIDATED"}
    }


def refused(data: bytes) -> AgentError:
    return AgentError("invalid", data.decode())


def claude_searches() -> Message:
    blocks: list[Any] = [
        {
            "type": "server_tool_use",
            "id": "srv_1",
            "name": "web_search",
            "input": {"query": "agent\nruntimes"},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
    ]
    body: dict[str, Any] = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [*blocks, {"type": "text", "text": "Found."}],
        "stop_reason": "end_turn",
    }
    return folded(MessagesDecoder(refused), body)


def openai_searches() -> Message:
    items = [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"query": "agent runtimes", "type": "search"},
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Found."}],
        },
    ]
    body: dict[str, Any] = {"object": "response", "id": "r", "status": "completed", "output": items}
    return folded(ResponsesDecoder(refused), body)


def gemini_searches() -> Message:
    parts = [
        {
            "toolCall": {
                "id": "1",
                "toolType": "WEB_SEARCH",
                "args": {"queries": ["agent runtimes"]},
            }
        },
        {"text": "Found."},
    ]
    body: dict[str, Any] = {
        "candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}]
    }
    return folded(ContentDecoder(refused, "gemini-3.8-flash", 1), body)


def folded(decoder: Decoder, body: dict[str, Any]) -> Message:
    fold = Fold()
    for delta in decoder.take_body(json.dumps(body).encode()):
        fold.add(delta)
    assert decoder.end is not None
    fold.add(decoder.end)
    return Message.assistant(fold.response().parts)


@pytest.mark.parametrize(
    "message",
    [claude_searches(), openai_searches(), gemini_searches()],
    ids=["claude", "openai", "gemini"],
)
def test_a_search_of_the_provider_is_shown_in_one_line(
    message: Message, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message.hosted_calls == ("web_search agent runtimes",)
    text = Text(BytesIO(), Redactor(), quiet=False, verbose=False, typed=False)
    text.show(
        events.MessageAdded(run_id="run_1", session_id=None, seq=1, at=now(), message=message)
    )
    assert "• web_search agent runtimes" in capsys.readouterr().err


def test_a_search_goes_back_as_it_came() -> None:
    history = History([HELLO, claude_searches(), HELLO])
    body = json.loads(
        Claude("claude-opus-5-5").encode(ModelRequest(messages=history, settings=Settings())).body
    )
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]


# ---------------------------------------------------------------- typed tools

TYPED = Settings(hosted_tools=(WebSearch(max_uses=3, allowed_domains=["a.org"]), CodeExecution()))
FILES = Settings(
    hosted_tools=("web_search", WebSearch(allowed_domains=["a.org"]), FileSearch(stores=["vs_1"]))
)


def test_typed_tools_are_sent_with_their_details() -> None:
    search, run = claude("claude-opus-5-5", TYPED)["tools"]
    assert search == {
        "type": "web_search_20260209",
        "name": "web_search",
        "max_uses": 3,
        "allowed_domains": ["a.org"],
    }
    assert run["type"] == "code_execution_20260120"
    assert sent(Responses("gpt-6-sol"), FILES)["tools"] == [
        {"type": "web_search", "filters": {"allowed_domains": ["a.org"]}},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
    ]
    plain = Settings(hosted_tools=(WebSearch(), CodeExecution()))
    assert sent(Gemini("gemini-3.8-flash"), plain)["tools"] == [
        {"googleSearch": {}},
        {"codeExecution": {}},
    ]


@pytest.mark.parametrize(
    ("encoder", "settings", "says"),
    [
        (Claude("claude-opus-5-5"), FILES, "FileSearch.*leave it out, or choose OpenAI"),
        (Responses("gpt-6-sol"), TYPED, "WebSearch.*leave out its details, or choose Claude"),
        (Gemini("gemini-3.8-flash"), TYPED, "WebSearch.*leave out its details, or choose Claude"),
        (Gemini("gemini-3.8-flash"), FILES, "WebSearch.*leave out its details"),
    ],
)
def test_a_typed_tool_that_a_provider_cannot_run_as_stated_is_refused_and_never_widened(
    encoder: Any, settings: Settings, says: str
) -> None:
    notes = encoder.heads.notes if isinstance(encoder, Claude) else encoder.notes
    with pytest.raises(AgentError, match=says):
        notes(settings)
    request = ModelRequest(messages=(HELLO,), settings=settings)
    encoded = encoder.encode(request)
    body: Any = json.loads(encoded.body if isinstance(encoder, Claude) else encoded)
    assert {"type": "web_search"} not in body.get("tools", [])  # of a fallback, which has no notes
    assert {"googleSearch": {}} not in body.get("tools", [])


@pytest.mark.parametrize(
    "tools",
    [
        [WebSearch()],
        (WebSearch(max_uses=0),),
        (WebSearch(allowed_domains="a.org"),),
        (FileSearch(stores=[]),),
        ("file_search",),
    ],
)
def test_hosted_tools_that_cannot_be_right_are_refused(tools: Any) -> None:
    with pytest.raises(AgentError, match=r"WebSearch\(max_uses=3\)"):
        Settings(hosted_tools=tools)


OPENAI_ITEM = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["loom"]}
OPENAI_TEXT = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Found."}],
}
OPENAI = {"object": "response", "id": "r", "status": "completed"}


@pytest.mark.usefixtures("store")
async def test_the_calls_of_a_typed_tool_are_in_the_history_and_go_back() -> None:
    body = document({**OPENAI, "output": [OPENAI_ITEM, OPENAI_TEXT]})
    settings = Settings(hosted_tools=(FileSearch(stores=["vs_1"]),))
    agent = Agent(name="a", model="openai:gpt-6-sol", settings=settings)
    async with serving(body, body) as server:
        provider = Provider(type="openai", base_url=server.url, api_key=Secret("key"))
        async with open_runtime(config=Config(providers={"openai": provider})) as rt:
            first = await rt.run(agent, "Find it.", session="s")
            await rt.run(agent, "Again.", session="s")
            started = (await rt.journal.load(first.run_id)).started
    assert started is not None
    assert started.settings.hosted_tools == (FileSearch(stores=("vs_1",)),)
    assert [m.hosted_calls for m in first.messages] == [(), ("file_search loom",)]
    again: Any = server.seen[1].json["input"]
    assert OPENAI_ITEM in again
    assert server.seen[1].json["tools"] == server.seen[0].json["tools"]


async def test_a_run_with_a_typed_tool_that_its_provider_lacks_does_not_start() -> None:
    settings = Settings(hosted_tools=(FileSearch(stores=["vs_1"]),))
    provider = Provider(type="anthropic", base_url="http://127.0.0.1:9", api_key=Secret("key"))
    async with open_runtime(config=Config(providers={"anthropic": provider})) as rt:
        with pytest.raises(AgentError, match="FileSearch"):
            await rt.run(Agent(name="a", model="anthropic:m"), "Find it.", settings=settings)
        assert await rt.journal.runs() == []
