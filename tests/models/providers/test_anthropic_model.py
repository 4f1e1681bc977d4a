"""What is particular to Claude as a model; what holds for every wire is test_contract.py's."""

from __future__ import annotations

import pytest

from tests.models.providers.claude import START, STOP, WHOLE, ending
from tests.models.providers.conftest import ModelOn
from tests.models.providers.loopback import document, serving, stream
from tests.models.providers.speech import HELLO, MODEL
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message
from treadle.models.model import (
    Delta,
    ModelNotice,
    ModelRequest,
    ResponseEnd,
    ToolDefinition,
    fold_stream,
)
from treadle.types import Settings, StopReason, SystemBlock


async def test_betas_of_the_extras_are_a_header(model_on: ModelOn) -> None:
    async with serving(stream(*WHOLE)) as server:
        await fold_stream(
            model_on(server).stream(
                ModelRequest(
                    messages=HELLO.messages,
                    settings=Settings(max_tokens=5, extra={"betas": ["a-1", "b-2"]}),
                )
            )
        )
    (seen,) = server.seen
    assert seen.headers["anthropic-beta"] == "a-1,b-2"
    assert seen.json["stream"] is True
    assert "betas" not in seen.json


async def test_tokens_are_counted_without_what_counting_does_not_take(model_on: ModelOn) -> None:
    tools = (ToolDefinition(name="look", description="Looks.", parameters={"type": "object"}),)
    request = ModelRequest(
        messages=[Message.user("Hello")],
        tools=tools,
        system=(SystemBlock(text="Be kind."),),
        settings=Settings(max_tokens=9, temperature=0.5),
    )
    async with serving(document({"input_tokens": 41})) as server:
        assert await model_on(server).count_tokens(request) == 41
    assert server.seen[0].target == "/v1/messages/count_tokens"
    assert set(server.seen[0].json) == {"model", "messages", "system", "tools"}


async def test_a_count_that_is_none_is_an_error(model_on: ModelOn) -> None:
    async with serving(document({"tokens": "many"})) as server:
        with pytest.raises(AgentError, match="cannot be read") as raised:
            await model_on(server).count_tokens(HELLO)
    assert raised.value.kind is ErrorKind.NETWORK


async def test_a_refusal_says_why_to_the_person(model_on: ModelOn) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    deltas: list[Delta] = []
    async with serving(stream(START, ending("refusal", stop_details=details), STOP)) as server:
        async for delta in model_on(server).stream(HELLO):
            deltas.append(delta)
    assert ModelNotice("the provider refused to continue: cyber: Not this.") in deltas
    assert isinstance(deltas[-1], ResponseEnd)
    assert deltas[-1].stop_reason is StopReason.REFUSAL


async def test_temperature_is_named_as_what_the_model_refuses_and_sent_when_given(
    model_on: ModelOn,
) -> None:
    async with serving(stream(*WHOLE)) as server:
        model = model_on(server)
        assert model.refuses == {"temperature"}
        assert model.name == f"anthropic:{MODEL}"
        await fold_stream(
            model.stream(
                ModelRequest(
                    messages=HELLO.messages, settings=Settings(max_tokens=5, temperature=0.25)
                )
            )
        )
    assert server.seen[0].json["temperature"] == 0.25


async def test_an_answer_s_schema_goes_in_the_api_s_words_and_as_a_tool_where_it_has_none(
    model_on: ModelOn,
) -> None:
    """An open object, or a bound, is answered by a 400."""
    bounded = {
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 0}},
        "required": ["age"],
    }
    a_map = {"type": "object", "additionalProperties": {"type": "integer"}}
    async with serving(stream(*WHOLE), stream(*WHOLE)) as server:
        for schema in (bounded, a_map):
            await fold_stream(
                model_on(server).stream(
                    ModelRequest(
                        messages=HELLO.messages,
                        settings=Settings(max_tokens=5, output_schema=schema),
                    )
                )
            )
    native, by_tool = (seen.json for seen in server.seen)
    age = {"type": "integer", "description": "(minimum: 0)"}
    assert native["output_config"] == {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {"age": age},
                "required": ["age"],
                "additionalProperties": False,
            },
        }
    }
    assert "output_config" not in by_tool
    (tool,) = by_tool["tools"]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]  JSON
    assert (tool["name"], tool["input_schema"]) == ("final_answer", a_map)
