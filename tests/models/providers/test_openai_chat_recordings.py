"""Every recorded exchange of Chat Completions, replayed by a server: answers become the right
parts, and we ask as the recorded programs asked.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.models.providers.chat_recordings import (
    FOLDER,
    NAMES,
    OPENAI,
    Json,
    chunks_of,
    exchanges,
    is_refused,
    message_of,
    request_of,
    same,
    whole_of,
)
from tests.models.providers.loopback import serving
from tests.models.providers.recordings import answer
from tests.models.providers.speech import HELLO, KEY
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import Fold, ModelRequest, ModelResponse, fold_stream
from treadle.models.providers.openai_chat import ChatModel, connect
from treadle.models.providers.openai_chat.stream import ChatDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import StopReason

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="the folder `shared` with the recordings is not beside this checkout",
)

REFUSED = [
    name for name in NAMES if any(is_refused(exchange["response"]) for exchange in exchanges(name))
]
STREAMS = [
    name
    for name in NAMES
    if name not in REFUSED and exchanges(name)[0]["response"]["body"].startswith("data:")
]
STOPS = {
    "stop": StopReason.COMPLETE,
    "tool_calls": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "function_call": StopReason.TOOL_USE,
}
KINDS = {
    400: ErrorKind.INVALID,
    401: ErrorKind.AUTH,
    403: ErrorKind.AUTH,
    404: ErrorKind.INVALID,
    429: ErrorKind.RATE_LIMIT,
    500: ErrorKind.NETWORK,
}


def asked(body: Json | None, before: list[ModelResponse]) -> ModelRequest:
    """A completion that is no chat is not ours to ask for; its answer is read all the same."""
    return (
        request_of(body, [response.parts for response in before])
        if body and "messages" in body
        else HELLO
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED])
async def test_a_recording_is_understood_and_asked_for_alike(name: str) -> None:
    recorded = exchanges(name)
    responses: list[ModelResponse] = []
    async with serving(*(answer(exchange["response"]) for exchange in recorded)) as server:
        connection = connect(api_key=KEY, base_url=f"{server.url}/v1")
        for exchange in recorded:
            body = exchange["request"] and exchange["request"]["body"]
            model = ChatModel((body or {}).get("model", "m"), connection=connection, server=OPENAI)
            responses.append(await fold_stream(model.stream(asked(body, responses))))
        await connection.aclose()
    for exchange, response, seen in zip(recorded, responses, server.seen, strict=True):
        _assert_understood(whole_of(exchange["response"]), response)
        if exchange["request"] is not None and "messages" in exchange["request"]["body"]:
            _assert_asked_alike(exchange["request"]["body"], seen.json)


def _assert_understood(whole: Json, response: ModelResponse) -> None:
    choice = whole["choices"][0]
    said = same(choice["message"])
    assert message_of(response.parts) == {
        name: value for name, value in said.items() if name in ("role", "content", "tool_calls")
    }
    assert [call.arguments_json for call in response.tool_calls] == [
        call["function"]["arguments"] for call in said.get("tool_calls", [])
    ]
    assert (response.id, response.model, response.raw_stop_reason) == (
        whole["id"],
        whole["model"],
        choice["finish_reason"],
    )
    assert response.stop_reason is (
        StopReason.TOOL_USE if response.tool_calls else STOPS[choice["finish_reason"]]
    )
    usage = whole.get("usage") or {}
    assert response.usage.total_input_tokens == usage.get("prompt_tokens", 0)
    assert response.usage.cache_read_tokens == (usage.get("prompt_tokens_details") or {}).get(
        "cached_tokens", 0
    )
    assert response.usage.output_tokens == usage.get("completion_tokens", 0)
    assert response.usage.reasoning_tokens == (usage.get("completion_tokens_details") or {}).get(
        "reasoning_tokens", 0
    )


def _assert_asked_alike(recorded: Json, sent: Json) -> None:
    """The whole body, but for streaming and for a limit that the recorded program did not set."""
    passed_over = {"stream", "stream_options", "max_tokens", "max_completion_tokens"}
    assert _told(sent, passed_over) == _told(recorded, passed_over)
    limit = recorded.get("max_completion_tokens") or recorded.get("max_tokens")
    assert limit in (None, sent["max_completion_tokens"])


def _told(body: Json, passed_over: set[str]) -> Any:
    return same({name: value for name, value in body.items() if name not in passed_over})


@pytest.mark.parametrize("name", REFUSED)
async def test_a_recorded_error_is_of_the_right_kind(name: str) -> None:
    exchange = next(exchange for exchange in exchanges(name) if is_refused(exchange["response"]))
    async with serving(answer(exchange["response"])) as server:
        connection = connect(api_key=KEY, base_url=f"{server.url}/v1")
        with pytest.raises(AgentError) as raised:
            await fold_stream(ChatModel("m", connection=connection, server=OPENAI).stream(HELLO))
        await connection.aclose()
    response, error = exchange["response"], raised.value
    if response["status"] != 200:
        assert (error.kind, error.status) == (KINDS[response["status"]], response["status"])
        assert json.loads(response["body"])["error"]["message"] in error.message


# ---------------------------------------------------------------- cut


def _replayed(body: bytes) -> tuple[ModelResponse | None, AgentError | None]:
    decoder, fold = ChatDecoder(Refusals("").in_stream), Fold()
    for delta in (*decoder.feed(body), *(decoder.finish() if decoder.end is None else ())):
        fold.add(delta)
    if decoder.end is not None:
        fold.add(decoder.end)
        return fold.response(), decoder.failure
    return None, decoder.failure


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_at_any_byte_is_whole_or_an_error(name: str) -> None:
    """Whole: nothing of what the model said is missing, and why it ended is known.

    What it took is, where the count was cut off.
    """
    body: bytes = exchanges(name)[-1]["response"]["body"].encode()
    whole, _ = _replayed(body)
    assert whole is not None
    ended = body.index(json.dumps(whole.raw_stop_reason).encode())
    for cut in range(len(body)):
        response, failure = _replayed(body[:cut])
        if response is not None:
            assert cut > ended
            assert (response.parts, response.stop_reason, response.raw_stop_reason) == (
                whole.parts,
                whole.stop_reason,
                whole.raw_stop_reason,
            )
        else:
            assert failure is not None
            assert failure.kind is ErrorKind.NETWORK


@pytest.mark.parametrize("name", STREAMS)
def test_however_a_stream_is_cut_into_pieces_the_response_is_the_same(name: str) -> None:
    body: bytes = exchanges(name)[0]["response"]["body"].encode()
    whole, _ = _replayed(body)
    for size in (1, 7, 100):
        decoder, fold = ChatDecoder(Refusals("").in_stream), Fold()
        for start in range(0, len(body), size):
            for delta in decoder.feed(body[start : start + size]):
                fold.add(delta)
        assert decoder.end is not None
        fold.add(decoder.end)
        assert fold.response() == whole
        assert len(chunks_of(exchanges(name)[0]["response"])) > 1
