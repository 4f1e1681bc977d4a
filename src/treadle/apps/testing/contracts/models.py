"""Contract of models, over the fixture `model`: a `Model` that answers `HELLO` with text, any number
of times. Import its tests: `from treadle.testing.contracts.models import *`.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import Final

import anyio
import anyio.lowlevel

from treadle.errors import AgentError
from treadle.messages.message import Message, TextPart, ToolCall, ToolResult
from treadle.models.model import (
    Delta,
    Model,
    ModelRequest,
    ModelResponse,
    ResponseEnd,
    ToolDefinition,
    fold_stream,
)
from treadle.types import Settings, StopReason, now

WITHIN_S: Final = 30.0
HELLO: Final = ModelRequest(messages=[Message.user("Hello")], settings=Settings(max_tokens=100))
_TOOL: Final = ToolDefinition(
    name="look", description="Look around.", parameters={"type": "object", "properties": {}}
)


async def _answer(model: Model, request: ModelRequest = HELLO) -> ModelResponse:
    with anyio.fail_after(WITHIN_S):
        return await fold_stream(model.stream(request))


async def test_a_model_has_a_name_and_says_which_settings_it_refuses(model: Model) -> None:
    provider, colon, name = model.name.partition(":")
    assert provider
    assert colon
    assert name
    assert model.refuses <= {*Settings.__struct_fields__, "images"}


async def test_a_response_ends_once_and_at_its_end(model: Model) -> None:
    deltas: list[Delta] = []
    with anyio.fail_after(WITHIN_S):
        async with aclosing(model.stream(HELLO)) as stream:
            async for delta in stream:
                deltas.append(delta)
    assert [isinstance(delta, ResponseEnd) for delta in deltas].count(True) == 1
    assert isinstance(deltas[-1], ResponseEnd)


async def test_a_response_has_text_usage_and_a_stop_reason(model: Model) -> None:
    response = await _answer(model)
    assert response.text
    assert response.stop_reason is StopReason.COMPLETE
    assert response.usage.input_tokens >= 0
    assert response.usage.output_tokens >= 0


async def test_a_request_is_left_as_it_was(model: Model) -> None:
    messages = [Message.user("Hello")]
    before = [message.to_json() for message in messages]
    await _answer(model, ModelRequest(messages=messages, settings=HELLO.settings))
    assert [message.to_json() for message in messages] == before


async def test_tools_and_their_results_can_be_in_a_conversation(model: Model) -> None:
    call = ToolCall(id="call_1", name="look")
    result = ToolResult(call_id="call_1", name="look", content="a lake")
    messages = [
        Message.user("Look around."),
        Message(id="msg_2", role="assistant", parts=(call,), created_at=now()),
        Message(id="msg_3", role="tool", parts=(result,), created_at=now()),
        Message(id="msg_4", role="assistant", parts=(TextPart(text="A lake."),), created_at=now()),
        Message.user("Hello"),
    ]
    request = ModelRequest(messages=messages, tools=(_TOOL,), settings=HELLO.settings)
    assert (await _answer(model, request)).parts


async def test_responses_at_the_same_time_do_not_mix(model: Model) -> None:
    answers: list[ModelResponse] = []

    async def ask() -> None:
        answers.append(await _answer(model))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(ask)
    assert len(answers) == 5
    assert all(answer.text for answer in answers)


async def test_a_stream_that_is_closed_early_leaves_the_model_usable(model: Model) -> None:
    with anyio.fail_after(WITHIN_S):
        async with aclosing(model.stream(HELLO)) as stream:
            async for _ in stream:
                break
    assert (await _answer(model)).text


async def test_a_cancelled_request_ends_and_leaves_the_model_usable(model: Model) -> None:
    with anyio.CancelScope() as scope:
        async with aclosing(model.stream(HELLO)) as stream:
            async for _ in stream:
                scope.cancel()
                await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (await _answer(model)).text


async def test_an_empty_conversation_is_answered_or_refused_with_an_agent_error(
    model: Model,
) -> None:
    with suppress(AgentError):  # every other exception fails the test
        await _answer(model, ModelRequest(messages=[], settings=HELLO.settings))
