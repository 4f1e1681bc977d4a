"""Every recorded exchange, replayed by a server: the vendor's answers become the right parts, and
we ask as the recorded programs asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.models.providers.gemini_recordings import (
    FOLDER,
    NAMES,
    chunks_of,
    exchanges,
    model_id_of,
    parts_of,
    request_of,
    same,
    told,
)
from tests.models.providers.loopback import Answer, Server, Step, serving
from tests.models.providers.recordings import answer
from tests.models.providers.speech import HELLO, KEY
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import ReasoningPart
from treadle.models.model import Delta, Fold, ModelNotice, ModelResponse, fold_stream
from treadle.models.providers.gemini import GeminiModel, connect
from treadle.models.providers.gemini.stream import ContentDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import StopReason, Usage

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="the folder `shared` with the recordings is not beside this checkout",
)

ERRORS = {"error_400_auth": ErrorKind.AUTH, "error_404_model": ErrorKind.INVALID}
STREAMS = [
    ("curated_stream_tool_args_partial", 0),
    ("stream_native_output_tools", 1),
    ("stream_tool_thought_signature", 0),
    ("stream_tools_iter", 2),
]

Json = dict[str, Any]


@asynccontextmanager
async def asking(server: Server, model_id: str) -> AsyncIterator[GeminiModel]:
    connection = connect(api_key=KEY, base_url=server.url, timeout_s=10)
    try:
        yield GeminiModel(model_id, connection=connection)
    finally:
        await connection.aclose()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ERRORS])
async def test_a_recording_is_understood_and_asked_for_alike(name: str) -> None:
    recorded = exchanges(name)
    model_id = model_id_of(recorded[0])
    responses: list[ModelResponse] = []
    async with (
        serving(*(answer(e["response"]) for e in recorded)) as server,
        asking(server, model_id) as model,
    ):
        for exchange in recorded:
            body = exchange["request"] and exchange["request"]["body"]
            request = request_of(body, [r.parts for r in responses]) if body else HELLO
            responses.append(await fold_stream(model.stream(request)))
    for exchange, response, seen in zip(recorded, responses, server.seen, strict=True):
        _assert_understood(chunks_of(exchange["response"]), response, model_id)
        if exchange["request"] is not None:
            _assert_asked_alike(exchange["request"], seen.target, seen.json)


def _assert_understood(chunks: list[Json], response: ModelResponse, model_id: str) -> None:
    last = chunks[-1]
    assert parts_of(response.parts, model_id) == same(told(chunks))
    assert (response.id, response.model, response.raw_stop_reason) == (
        last["responseId"],
        last["modelVersion"],
        last["candidates"][0]["finishReason"],
    )
    ends = {
        "STOP": StopReason.TOOL_USE if response.tool_calls else StopReason.COMPLETE,
        "SAFETY": StopReason.REFUSAL,
        "MAX_TOKENS": StopReason.MAX_TOKENS,
    }
    assert response.stop_reason is ends[response.raw_stop_reason]
    counts = last["usageMetadata"]
    thoughts, cached = counts.get("thoughtsTokenCount", 0), counts.get("cachedContentTokenCount", 0)
    assert response.usage == Usage(
        input_tokens=counts["promptTokenCount"] - cached,
        output_tokens=counts.get("candidatesTokenCount", 0) + thoughts,
        cache_read_tokens=cached,
        reasoning_tokens=thoughts,
    )


def _assert_asked_alike(recorded: Json, target: str, sent: Json) -> None:
    """The whole body and the address: but for streaming, and for the bound on output tokens where
    the recorded program set none.
    """
    assert target == recorded["path"].partition(":")[0] + ":streamGenerateContent?alt=sse"
    theirs, ours = same(recorded["body"]), same(sent)
    if "maxOutputTokens" not in theirs["generationConfig"]:
        del ours["generationConfig"]["maxOutputTokens"]
    assert ours == theirs


@pytest.mark.parametrize("name", ERRORS)
async def test_a_recorded_error_is_of_the_right_kind(name: str) -> None:
    (exchange,) = exchanges(name)
    async with (
        serving(answer(exchange["response"])) as server,
        asking(server, "gemini-3.8-flash") as model,
    ):
        with pytest.raises(AgentError) as raised:
            await fold_stream(model.stream(HELLO))
    error = raised.value
    assert (error.kind, error.status) == (ERRORS[name], exchange["response"]["status"])
    assert (
        "API key not valid" if error.kind is ErrorKind.AUTH else "is not found for API version"
    ) in error.message
    assert (
        "GEMINI_API_KEY" if error.kind is ErrorKind.AUTH else "Check the model's name"
    ) in error.message


async def test_a_recorded_refusal_names_the_category() -> None:
    (exchange,) = exchanges("safety_blocked")
    async with (
        serving(answer(exchange["response"])) as server,
        asking(server, "gemini-1.5-flash") as model,
    ):
        deltas: list[Delta] = [delta async for delta in model.stream(HELLO)]
    assert (
        ModelNotice("the provider refused to continue: SAFETY: HARM_CATEGORY_HATE_SPEECH") in deltas
    )


def test_thoughts_are_reasoning() -> None:
    (exchange,) = exchanges("stream_thinking")
    response, _ = _replayed(exchange["response"]["body"].encode())
    assert response is not None
    chunks = chunks_of(exchange["response"])
    said = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    assert "".join(
        part.text for part in response.parts if isinstance(part, ReasoningPart)
    ) == "".join(p["text"] for p in said if p.get("thought"))
    assert response.text == "".join(p["text"] for p in said if not p.get("thought"))


def test_arguments_that_come_in_pieces_are_one_text() -> None:
    response, _ = _replayed(
        exchanges("curated_stream_tool_args_partial")[0]["response"]["body"].encode()
    )
    assert response is not None
    assert [(call.name, call.arguments_json) for call in response.tool_calls] == [
        ("getWeather", '{"location":"Boston"}'),
        ("getWeather", '{"location":"San Francisco"}'),
    ]
    assert [call.provider_data is not None for call in response.tool_calls] == [True, False]


def _replayed(body: bytes) -> tuple[ModelResponse | None, AgentError | None]:
    decoder, fold = ContentDecoder(Refusals("").in_stream, "gemini-test"), Fold()
    for delta in (*decoder.feed(body), *decoder.finish()):
        fold.add(delta)
    if decoder.end is not None:
        fold.add(decoder.end)
        return fold.response(), decoder.failure
    return None, decoder.failure


def _said(response: ModelResponse | None) -> object:
    """Without the ids that we gave."""
    assert response is not None
    return (
        [getattr(part, "arguments_json", part) for part in response.parts],
        response.usage,
        response.stop_reason,
    )


@pytest.mark.parametrize(("name", "number"), STREAMS)
def test_a_stream_cut_at_any_byte_is_whole_or_an_error(name: str, number: int) -> None:
    body: bytes = exchanges(name)[number]["response"]["body"].encode()
    whole, _ = _replayed(body)
    said_all = body.rindex(b"}") + 1
    for cut in range(len(body)):
        response, failure = _replayed(body[:cut])
        if cut >= said_all:
            assert _said(response) == _said(whole)
        else:
            assert response is None
            assert failure is not None
            assert failure.kind is ErrorKind.NETWORK


@pytest.mark.parametrize(("name", "number"), STREAMS)
async def test_a_connection_cut_at_a_byte_is_an_error(name: str, number: int) -> None:
    body: bytes = exchanges(name)[number]["response"]["body"].encode()
    cuts = [*range(1, len(body), len(body) // 24), len(body) - 1]
    async with (
        serving(*(Answer(steps=(body[:cut], Step.CUT)) for cut in cuts)) as server,
        asking(server, "gemini-test") as model,
    ):
        for _ in cuts:
            with anyio.fail_after(20), pytest.raises(AgentError) as raised:
                await fold_stream(model.stream(HELLO))
            assert raised.value.kind is ErrorKind.NETWORK
