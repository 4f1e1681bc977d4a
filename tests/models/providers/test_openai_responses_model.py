"""What is particular to OpenAI as a model; what holds for every wire is test_contract.py's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.models.providers.loopback import Server, document, serving
from tests.models.providers.speech import HELLO, KEY, call, stream, text
from tests.models.providers.speeches.openai_responses import OpenAIResponsesSpeech
from treadle._internal.redaction import Secret
from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message, TextPart
from treadle.models.model import ModelRequest, ToolDefinition, fold_stream
from treadle.models.providers.openai_responses import OpenAIResponsesModel, connect, model_over
from treadle.models.providers.wires import connect_to
from treadle.types import Settings, StopReason, SystemBlock

SPEECH = OpenAIResponsesSpeech()
LOOK = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})


@pytest.fixture
async def models() -> AsyncIterator[list[OpenAIResponsesModel]]:
    made: list[OpenAIResponsesModel] = []
    yield made
    for model in made:
        await model.aclose()


def on(
    server: Server, models: list[OpenAIResponsesModel], **options: object
) -> OpenAIResponsesModel:
    models.append(
        OpenAIResponsesModel(
            "gpt-test", connection=connect(api_key=KEY, base_url=server.url), **options
        )
    )  # pyright: ignore[reportArgumentType]  the keywords of the class
    return models[-1]


def endpoint(**fields: object) -> Endpoint:
    plain = {
        "name": "openai",
        "type": "openai",
        "base_url": None,
        "api_key": Secret(KEY),
        "auth_token": None,
        "key_origin": "",
        "preamble": "",
        "timeout_s": 9.0,
        "headers": {},
    }
    return Endpoint(**{**plain, **fields})  # pyright: ignore[reportArgumentType]  its fields


async def test_tokens_are_counted_without_what_counting_does_not_take(
    models: list[OpenAIResponsesModel],
) -> None:
    settings = Settings(max_tokens=9, effort="low", temperature=0.5, extra={"service_tier": "flex"})
    request = ModelRequest(
        messages=[Message.user("Hello")],
        tools=(LOOK,),
        system=(SystemBlock(text="Be kind."),),
        settings=settings,
    )
    async with serving(document({"object": "response.input_tokens", "input_tokens": 41})) as server:
        assert await on(server, models, own_host=True).count_tokens(request) == 41
    assert server.seen[0].target == "/responses/input_tokens"
    assert set(server.seen[0].json) == {"model", "input", "instructions", "tools", "reasoning"}


async def test_another_servers_tokens_are_estimated(models: list[OpenAIResponsesModel]) -> None:
    async with serving() as server:
        assert 0 < await on(server, models).count_tokens(HELLO) < 20
    assert server.connections == 0


def test_stop_sequences_are_named_as_what_the_model_refuses() -> None:
    connection = connect(api_key=KEY, base_url="http://127.0.0.1:9")
    assert OpenAIResponsesModel("gpt-test", connection=connection).refuses == {"stop"}
    assert OpenAIResponsesModel(
        "gpt-test", connection=connection, abilities=Abilities(temperature=False)
    ).refuses == {"stop", "temperature"}


async def test_a_schema_that_is_no_object_is_asked_for_in_the_prompt(
    models: list[OpenAIResponsesModel],
) -> None:
    request = ModelRequest(
        messages=HELLO.messages,
        settings=Settings(output_schema={"type": "array", "items": {"type": "integer"}}),
    )
    async with serving(stream(SPEECH, text("[1]"))) as server:
        assert (await fold_stream(on(server, models).stream(request))).text == "[1]"
    assert "text" not in server.seen[0].json
    assert "JSON Schema" in str(server.seen[0].json["instructions"])


async def test_a_schema_is_a_tool_where_the_model_has_no_other_way(
    models: list[OpenAIResponsesModel],
) -> None:
    request = ModelRequest(
        messages=HELLO.messages,
        settings=Settings(
            output_schema={"type": "object", "properties": {"a": {"type": "integer"}}}
        ),
    )
    async with serving(
        stream(SPEECH, call("final_answer", '{"a":', "1}"), end=StopReason.TOOL_USE)
    ) as server:
        response = await fold_stream(
            on(server, models, abilities=Abilities(structured_output="tool")).stream(request)
        )
    assert (response.parts, response.stop_reason) == (
        (TextPart(text='{"a":1}'),),
        StopReason.COMPLETE,
    )
    assert server.seen[0].json["tool_choice"] == {"type": "function", "name": "final_answer"}


def test_no_key_is_said_before_anything_is_asked() -> None:
    for key in (None, "", "  "):
        with pytest.raises(AgentError, match="OPENAI_API_KEY") as raised:
            connect(api_key=key)
        assert raised.value.kind is ErrorKind.AUTH
    with pytest.raises(AgentError, match="invalid characters") as raised:
        connect(api_key="two words")
    assert raised.value.kind is ErrorKind.AUTH
    assert "two words" not in raised.value.message


async def test_headers_of_the_configuration_are_sent(models: list[OpenAIResponsesModel]) -> None:
    async with serving(stream(SPEECH, text("Good day"))) as server:
        connection = connect_to(
            endpoint(base_url=server.url, headers={"OpenAI-Project": Secret("proj_1")})
        )
        models.append(
            model_over(connection, endpoint(base_url=server.url, name="mine"), "gpt-test", UNKNOWN)
        )
        assert models[-1].name == "mine:gpt-test"
        await fold_stream(models[-1].stream(HELLO))
    assert server.seen[0].headers["openai-project"] == "proj_1"
    assert "prompt_cache_key" not in server.seen[0].json


@pytest.mark.parametrize(
    ("base_url", "own"),
    [
        (None, True),
        ("https://api.openai.com/v1", True),
        ("https://api.openai.com.example/v1", False),
        ("http://127.0.0.1:8080/v1", False),
    ],
)
def test_only_openai_itself_is_given_cache_keys_and_asked_to_count(
    base_url: str | None, own: bool
) -> None:
    at = endpoint(base_url=base_url)
    model = model_over(connect_to(at), at, "gpt-test", UNKNOWN)
    assert (b"prompt_cache_key" in model._encoder.encode(HELLO)) is own
