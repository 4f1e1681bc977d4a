"""Every recorded exchange, replayed by a server: the vendor's answers become the right parts, and
we ask as the recorded programs asked.
"""

from __future__ import annotations

import json
from typing import Any, cast

import anyio
import pytest

from tests.models.providers.conftest import ModelOn
from tests.models.providers.loopback import Answer, Step, serving
from tests.models.providers.recordings import (
    FOLDER,
    NAMES,
    answer,
    blocks_of,
    exchanges,
    message_of,
    request_of,
    same,
)
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message
from treadle.models.model import Fold, ModelRequest, ModelResponse, fold_stream
from treadle.models.providers.anthropic.stream import MessagesDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import Settings, StopReason, Usage

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="the folder `shared` with the recordings is not beside this checkout",
)

HELLO = ModelRequest(messages=[Message.user("Hello")], settings=Settings(max_tokens=100))
ERRORS = {
    "error_400_effort": ErrorKind.INVALID,
    "error_401_auth": ErrorKind.AUTH,
    "error_404_model": ErrorKind.INVALID,
    "error_429_rate_limit": ErrorKind.RATE_LIMIT,
    "error_529_overloaded": ErrorKind.RATE_LIMIT,
    "stream_error_event_overloaded": ErrorKind.RATE_LIMIT,
}
STOPS = {
    "end_turn": StopReason.COMPLETE,
    "tool_use": StopReason.TOOL_USE,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ERRORS])
async def test_a_recording_is_understood_and_asked_for_alike(name: str, model_on: ModelOn) -> None:
    recorded = exchanges(name)
    responses: list[ModelResponse] = []
    async with serving(*(answer(e["response"]) for e in recorded)) as server:
        model = model_on(server, abilities=Abilities(system_messages=True))
        for exchange in recorded:
            body = exchange["request"] and exchange["request"]["body"]
            request = request_of(body, [r.parts for r in responses]) if body else HELLO
            responses.append(await fold_stream(model.stream(request)))
    for exchange, response, seen in zip(recorded, responses, server.seen, strict=True):
        _assert_understood(message_of(exchange["response"]), response)
        if exchange["request"] is not None:
            _assert_asked_alike(exchange["request"]["body"], seen.json)


def _assert_understood(message: dict[str, object], response: ModelResponse) -> None:
    blocks = [b for b in same(message["content"]) if (b["type"], b.get("text")) != ("text", "")]
    assert blocks_of(response.parts) == blocks
    assert (response.id, response.model, response.raw_stop_reason) == (
        message["id"],
        message["model"],
        message["stop_reason"],
    )
    assert response.stop_reason is STOPS[response.raw_stop_reason]
    usage = cast("dict[str, Any]", message["usage"])
    assert response.usage == sum(
        (_billed(one) for one in usage.get("iterations") or () if one["type"] == "compaction"),
        _billed(usage),
    )
    container = message.get("container")
    assert response.provider_data == (
        json.dumps({"container": {"id": container["id"]}}, separators=(",", ":"))
        if isinstance(container, dict)
        else None
    )


def _billed(counts: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=counts["input_tokens"],
        output_tokens=counts["output_tokens"],
        cache_read_tokens=counts.get("cache_read_input_tokens", 0),
        cache_write_tokens=counts.get("cache_creation_input_tokens", 0),
        reasoning_tokens=(counts.get("output_tokens_details") or {}).get("thinking_tokens", 0),
        cache_write_1h_tokens=(counts.get("cache_creation") or {}).get(
            "ephemeral_1h_input_tokens", 0
        ),
        web_searches=(counts.get("server_tool_use") or {}).get("web_search_requests", 0),
    )


def _assert_asked_alike(recorded: dict[str, object], sent: dict[str, object]) -> None:
    """The whole body: but for the model, for streaming, and for the temperature that this version
    of the API has removed.
    """
    passed_over = ("model", "stream", "temperature")
    assert same({k: v for k, v in sent.items() if k not in passed_over}) == same(
        {k: v for k, v in recorded.items() if k not in passed_over}
    )


@pytest.mark.parametrize("name", ERRORS)
async def test_a_recorded_error_is_of_the_right_kind(name: str, model_on: ModelOn) -> None:
    (exchange,) = exchanges(name)
    async with serving(answer(exchange["response"])) as server:
        with pytest.raises(AgentError) as raised:
            await fold_stream(model_on(server).stream(HELLO))
    error = raised.value
    assert error.kind is ERRORS[name]
    assert error.status == exchange["response"]["status"]
    said = next(
        json.loads(line.removeprefix("data: "))
        for line in exchange["response"]["body"].splitlines()
        if '"error"' in line and "{" in line
    )
    assert said["error"]["message"] in error.message
    assert error.request_id
    assert error.retry_after_s == (12.0 if name == "error_429_rate_limit" else None)


async def test_a_second_beginning_inside_a_stream_voids_the_first(model_on: ModelOn) -> None:
    (exchange,) = exchanges("curated_stream_spliced_message_start")
    async with serving(answer(exchange["response"])) as server:
        response = await fold_stream(model_on(server).stream(HELLO))
    assert response.id == "msg_second"
    assert response.parts[0].provider_data == '{"signature":"sig-second"}'  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  it is a reasoning part
    assert [(c.id, c.arguments) for c in response.tool_calls] == [
        ("toolu_second", {"value": "Sparkle Day"})
    ]


def _replayed(body: bytes) -> tuple[ModelResponse | None, AgentError | None]:
    decoder, fold = MessagesDecoder(Refusals("").in_stream), Fold()
    for delta in (*decoder.feed(body), *(decoder.finish() if decoder.end is None else ())):
        fold.add(delta)
    if decoder.end is not None:
        fold.add(decoder.end)
        return fold.response(), decoder.failure
    return None, decoder.failure


@pytest.mark.parametrize("name", ["stream_tool_calls", "stream_thinking_text"])
def test_a_stream_cut_at_any_byte_is_whole_or_an_error(name: str) -> None:
    body: bytes = exchanges(name)[0]["response"]["body"].encode()
    whole, _ = _replayed(body)
    assert whole is not None
    said_all = body.rindex(b"}") + 1
    for cut in range(len(body)):
        response, failure = _replayed(body[:cut])
        if cut >= said_all:
            assert response == whole
        else:
            assert response is None
            assert failure is not None
            assert failure.kind is ErrorKind.NETWORK


@pytest.mark.parametrize("name", ["stream_tool_calls", "stream_thinking_text"])
async def test_a_connection_cut_at_a_byte_is_an_error(name: str, model_on: ModelOn) -> None:
    body: bytes = exchanges(name)[0]["response"]["body"].encode()
    said_all = body.rindex(b"}") + 1
    cuts = [*range(1, said_all, said_all // 24), said_all - 1]
    async with serving(*(Answer(steps=(body[:cut], Step.CUT)) for cut in cuts)) as server:
        model = model_on(server)
        for _ in cuts:
            with anyio.fail_after(20), pytest.raises(AgentError) as raised:
                await fold_stream(model.stream(HELLO))
            assert raised.value.kind is ErrorKind.NETWORK
