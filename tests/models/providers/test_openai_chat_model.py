"""A model over a server of Chat Completions: how it is reached, how tokens are counted, how an
answer is made to fit a schema.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.models.providers.loopback import Answer, Server, Step, document, serving
from tests.models.providers.speech import HELLO, KEY
from tests.models.providers.speeches.openai_chat import ChatSpeech, chunk
from treadle import Runtime
from treadle.config import load
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message
from treadle.models.model import ModelRequest, ToolDefinition, fold_stream
from treadle.models.providers.openai_chat import ChatModel, connect
from treadle.models.providers.openai_chat.servers import OTHER, SERVERS
from treadle.types import Settings, SystemBlock

ROW = {server.name: server for server in (*SERVERS, OTHER)}
LOOK = ToolDefinition(
    name="look", description="Looks.", parameters={"type": "object", "properties": {}}
)
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
}
FITTING = ModelRequest(
    messages=[Message.user("Hello")], settings=Settings(max_tokens=9, output_schema=SCHEMA)
)

ModelOn = Callable[..., ChatModel]


@pytest.fixture
async def model_on() -> AsyncIterator[ModelOn]:
    connections = []

    def on(server: Server, row: str = "other", *, path: str = "/v1", **options: Any) -> ChatModel:
        connections.append(connect(api_key=KEY, base_url=server.url + path))
        return ChatModel("some-model", connection=connections[-1], server=ROW[row], **options)

    yield on
    for connection in connections:
        await connection.aclose()


def answer(*frames: dict[str, Any]) -> Answer:
    return Answer(
        steps=tuple(ChatSpeech.data(frame) for frame in (*frames, chunk({}, finish="stop")))
    )


# ---------------------------------------------------------------- reaching it


async def test_a_server_of_ones_own_is_asked_without_a_key(tmp_path: Path) -> None:
    async with serving(answer(chunk({"content": "Hello."}))) as server:
        home = tmp_path / "home"
        home.mkdir()
        (home / "config.yaml").write_text(
            f'{{"providers": {{"local": {{"type": "openai-chat", "base_url": "{server.url}/v1"}}}}}}'
        )
        async with Runtime(
            config=load({"TREADLE_HOME": str(home), "HOME": str(tmp_path)}, cwd=tmp_path)
        ) as runtime:
            model = runtime.models.get("local:any/model:7b", scope="test")
            assert (await fold_stream(model.stream(HELLO))).text == "Hello."
    (seen,) = server.seen
    assert (seen.target, seen.json["model"], model.name) == (
        "/v1/chat/completions",
        "any/model:7b",
        "local:any/model:7b",
    )
    assert "authorization" not in seen.headers


async def test_what_a_provider_is_called_or_said_to_be_decides_its_row(tmp_path: Path) -> None:
    text = """
providers:
  mistral: {type: openai-chat, base_url: "http://127.0.0.1:9/v1"}
  mine: {type: openai-chat, base_url: "http://127.0.0.1:9/v1", server: deepseek}
  wrong: {type: openai-chat, base_url: "http://127.0.0.1:9/v1", server: deepsea}
"""
    (tmp_path / "config.yaml").write_text(text)
    async with Runtime(
        config=load({"TREADLE_HOME": str(tmp_path), "HOME": str(tmp_path)}, cwd=tmp_path)
    ) as runtime:
        abilities = {
            name: runtime.models.get(f"{name}:m", scope="test").abilities
            for name in ("mistral", "mine")
        }  # pyright: ignore[reportAttributeAccessIssue]  its own
        assert (abilities["mistral"].structured_output, abilities["mine"].structured_output) == (
            None,
            "prompt",
        )
        with pytest.raises(
            AgentError, match=r"providers\.wrong\.server is 'deepsea'; use one of: openai, "
        ) as raised:
            runtime.models.get("wrong:m", scope="test")
    assert raised.value.kind is ErrorKind.INVALID


def test_openai_itself_wants_a_key() -> None:
    with pytest.raises(AgentError, match="OPENAI_API_KEY") as raised:
        connect()
    assert raised.value.kind is ErrorKind.AUTH
    for key in ("two words", "line\nbreak", "ünïcode"):
        with pytest.raises(AgentError) as raised:
            connect(api_key=key)
        assert key not in raised.value.message


async def test_headers_of_a_gateway_go_over_ours() -> None:
    async with serving(answer(chunk({"content": "Hello."}))) as server:
        connection = connect(
            api_key=KEY,
            base_url=server.url,
            headers={"Api-Key": KEY, "Authorization": "Basic x", "X-Title": "Test"},
        )
        await fold_stream(ChatModel("m", connection=connection).stream(HELLO))
        await connection.aclose()
    (seen,) = server.seen
    assert (seen.headers["api-key"], seen.headers["authorization"], seen.headers["x-title"]) == (
        KEY,
        "Basic x",
        "Test",
    )
    assert seen.target == "/chat/completions"


async def test_an_address_that_lacks_its_version_says_where_to_look(model_on: ModelOn) -> None:
    async with serving(document({"detail": "Not Found"}, status=404)) as server:
        with pytest.raises(AgentError, match="base_url") as raised:
            await fold_stream(model_on(server, path="").stream(HELLO))
    assert raised.value.kind is ErrorKind.INVALID


async def test_a_stream_that_ends_without_done_is_whole(model_on: ModelOn) -> None:
    async with serving(answer(chunk({"content": "Yes."}))) as server:
        assert (await fold_stream(model_on(server).stream(HELLO))).text == "Yes."


async def test_comments_hold_no_dead_answer_open() -> None:
    pings = Answer(
        steps=(ChatSpeech.data(chunk({"content": "Yes"})), Step.PINGS), ping=ChatSpeech.ping
    )
    async with serving(pings) as server:
        connection = connect(api_key=KEY, base_url=server.url, timeout_s=0.3)
        with anyio.fail_after(20), pytest.raises(AgentError) as raised:
            await fold_stream(ChatModel("m", connection=connection).stream(HELLO))
        await connection.aclose()
    assert raised.value.kind is ErrorKind.TIMEOUT


# ---------------------------------------------------------------- counting


async def test_llama_cpp_turns_the_messages_into_a_text_and_counts_that(model_on: ModelOn) -> None:
    request = ModelRequest(
        messages=HELLO.messages,
        tools=(LOOK,),
        system=(SystemBlock(text="Be kind."),),
        settings=Settings(max_tokens=9),
    )
    async with serving(
        document({"prompt": "<s>Be kind. Hello"}),
        document({"tokens": [1, {"id": 2, "piece": "x"}, 3]}),
    ) as server:
        assert await model_on(server, "llama.cpp").count_tokens(request) == 3
    template, tokens = server.seen
    assert (template.target, tokens.target) == ("/apply-template", "/tokenize")
    assert template.json["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
    ]
    assert [tool["function"]["name"] for tool in template.json["tools"]] == ["look"]
    assert tokens.json == {
        "content": "<s>Be kind. Hello",
        "add_special": True,
        "parse_special": True,
    }


async def test_a_server_that_nobody_told_about_is_asked_once_who_it_is(model_on: ModelOn) -> None:
    models = document({"object": "list", "data": [{"id": "m", "owned_by": "vllm", "root": "x"}]})
    async with serving(models, document({"count": 7}), document({"count": 8})) as server:
        model = model_on(server)
        assert [await model.count_tokens(HELLO), await model.count_tokens(HELLO)] == [7, 8]
    assert [seen.target for seen in server.seen] == ["/v1/models", "/tokenize", "/tokenize"]
    assert server.seen[0].method == "GET"


@pytest.mark.parametrize(
    "models",
    [
        document({"data": [{"id": "m", "owned_by": "somebody"}]}),
        document({"data": []}),
        document({"detail": "no"}, status=404),
    ],
)
async def test_where_nobody_counts_it_is_an_estimate(model_on: ModelOn, models: Answer) -> None:
    async with serving(models) as server:
        model = model_on(server)
        first, second = await model.count_tokens(HELLO), await model.count_tokens(HELLO)
    assert 1 < first == second < 50
    assert len(server.seen) == 1


async def test_a_hosted_server_is_not_asked_what_it_cannot_tell(model_on: ModelOn) -> None:
    async with serving() as server:
        assert await model_on(server, "openai").count_tokens(HELLO) > 1
    assert server.seen == []


# ---------------------------------------------------------------- schemas


async def test_a_server_with_schemas_is_given_it(model_on: ModelOn) -> None:
    async with serving(answer(chunk({"content": '{"a":1}'}))) as server:
        assert (await fold_stream(model_on(server, "vllm").stream(FITTING))).text == '{"a":1}'
    assert server.seen[0].json["response_format"]["type"] == "json_schema"


async def test_a_server_that_only_holds_an_answer_to_json_is_told_the_schema_in_words(
    model_on: ModelOn,
) -> None:
    async with serving(*[answer(chunk({"content": '{"a":1}'}))] * 2) as server:
        model = model_on(server, "deepseek")
        assert (await fold_stream(model.stream(FITTING))).text == '{"a":1}'
        await fold_stream(model.stream(HELLO))
    first, second = server.seen
    assert first.json["response_format"] == {"type": "json_object"}
    assert '"required":["a"]' in first.json["messages"][0]["content"]
    assert "response_format" not in second.json
    assert second.json["messages"][0]["role"] == "user"


async def test_a_server_that_holds_to_no_schema_while_it_streams_answers_with_a_call(
    model_on: ModelOn,
) -> None:
    called = chunk(
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "c",
                    "function": {"name": "final_answer", "arguments": '{"a":1}'},
                }
            ]
        }
    )
    async with serving(answer(called)) as server:
        assert (await fold_stream(model_on(server, "groq").stream(FITTING))).text == '{"a":1}'
    assert server.seen[0].json["tools"][0]["function"]["name"] == "final_answer"
    assert "response_format" not in server.seen[0].json


async def test_what_is_known_of_a_model_goes_before_what_its_server_usually_does(
    model_on: ModelOn,
) -> None:
    async with serving(answer(chunk({"content": '{"a":1}'}))) as server:
        model = model_on(
            server, "groq", abilities=Abilities(structured_output="native", temperature=False)
        )
        await fold_stream(model.stream(FITTING))
    assert server.seen[0].json["response_format"]["type"] == "json_schema"
    assert model.refuses == {"temperature"}
