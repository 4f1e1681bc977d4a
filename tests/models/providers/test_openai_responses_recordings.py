"""Every recorded exchange, replayed by a server: the vendor's answers become the right parts, and
we ask as the recorded programs asked.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.models.providers.loopback import serving
from tests.models.providers.openai_recordings import (
    FOLDER,
    NAMES,
    exchanges,
    is_refused,
    items_of,
    request_of,
    response_error,
    response_of,
    same,
)
from tests.models.providers.recordings import answer
from tests.models.providers.speech import HELLO, KEY
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import Fold, ModelResponse, fold_stream
from treadle.models.providers.known_models import known
from treadle.models.providers.openai_responses import OpenAIResponsesModel, connect
from treadle.models.providers.openai_responses.stream import ResponsesDecoder
from treadle.models.providers.refusals import Refusals
from treadle.types import StopReason, Usage

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="the folder `shared` with the recordings is not beside this checkout",
)

KINDS = {
    400: ErrorKind.INVALID,
    401: ErrorKind.AUTH,
    403: ErrorKind.AUTH,
    404: ErrorKind.INVALID,
    429: ErrorKind.RATE_LIMIT,
    500: ErrorKind.NETWORK,
}
IN_STREAM = {
    "insufficient_quota": ErrorKind.RATE_LIMIT,
    "rate_limit_exceeded": ErrorKind.RATE_LIMIT,
    "context_length_exceeded": ErrorKind.CONTEXT_OVERFLOW,
}
CALLS = ("function_call", "custom_tool_call")
HOSTED = ("_call", "_call_output", "_list_tools", "tool_search_output", "mcp_approval_request")


def whole(response: dict[str, Any]) -> bool:
    return not is_refused(response)


@pytest.mark.parametrize("name", NAMES)
async def test_a_recording_is_understood_and_asked_for_alike(name: str) -> None:
    recorded = exchanges(name)
    responses: list[ModelResponse] = []
    model_id = next((e["request"]["body"]["model"] for e in recorded if e["request"]), "gpt-5")
    async with serving(*(answer(e["response"]) for e in recorded)) as server:
        connection = connect(api_key=KEY, base_url=server.url, timeout_s=10)
        model = OpenAIResponsesModel(
            model_id, connection=connection, abilities=known("openai", None, model_id)
        )
        for exchange in recorded:
            request = (
                request_of(exchange["request"]["body"], [r.parts for r in responses])
                if exchange["request"]
                else HELLO
            )
            if is_refused(exchange["response"]):
                with pytest.raises(AgentError) as raised:
                    await fold_stream(model.stream(request))
                _assert_told(exchange["response"], raised.value)
            else:
                responses.append(await fold_stream(model.stream(request)))
        await connection.aclose()
    for exchange, response in zip(
        [e for e in recorded if whole(e["response"])], responses, strict=True
    ):
        _assert_understood(response_of(exchange["response"]), response)
    for exchange, seen in zip(recorded, server.seen, strict=True):
        if exchange["request"] is not None:
            _assert_asked_alike(exchange["request"]["body"], seen.json)


def _assert_understood(said: dict[str, Any], response: ModelResponse) -> None:
    empty = [
        i
        for i in said["output"]
        if i["type"] == "reasoning"
        and not i.get("encrypted_content")
        and not i["summary"]
        and not i.get("content")
    ]
    expected = [same(item) for item in said["output"] if item not in empty]
    found = items_of(response.parts)
    # nothing follows it, and so it does not go back
    while expected and expected[-1].get("type") == "reasoning":
        expected.pop()
    assert found == expected
    assert (response.id, response.model) == (said["id"], said["model"])
    called = any(item["type"] in CALLS for item in said["output"])
    assert response.raw_stop_reason == (
        (said.get("incomplete_details") or {}).get("reason") or said["status"]
    )
    if said["status"] == "completed":
        assert response.stop_reason is (StopReason.TOOL_USE if called else StopReason.COMPLETE)
    usage = said["usage"]
    cached, written = (
        usage["input_tokens_details"]["cached_tokens"],
        usage["input_tokens_details"].get("cache_write_tokens", 0),
    )
    assert response.usage == Usage(
        input_tokens=usage["input_tokens"] - cached - written,
        output_tokens=usage["output_tokens"],
        cache_read_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=usage["output_tokens_details"]["reasoning_tokens"],
        web_searches=sum(
            item["type"] == "web_search_call" and item["action"]["type"] == "search"
            for item in said["output"]
        ),
    )


def _assert_asked_alike(recorded: dict[str, Any], sent: dict[str, Any]) -> None:
    """The whole body: but for the model, streaming and storing, a limit where none was recorded,
    and what is said below.
    """
    assert sent["store"] is False
    assert sent["stream"] is True
    passed_over = {
        "model",
        "stream",
        "store",
        "input",
        "tools",
        "include",
        *({"max_output_tokens"} - recorded.keys()),
    }
    meant = {
        k: same(v) for k, v in recorded.items() if k not in passed_over and v not in (None, "")
    }
    assert {k: same(v) for k, v in sent.items() if k not in passed_over} == meant
    assert set(sent.get("include", [])) >= set(recorded.get("include", []))
    # programs that did not ask for reasoning back: we ask for it wherever there is any
    if "include" not in recorded:
        assert sent.get("include", []) in ([], ["reasoning.encrypted_content"])
    # hosted tools follow ours
    assert _sorted(sent.get("tools", [])) == _sorted(recorded.get("tools", []))
    given = (
        [{"role": "user", "content": recorded["input"]}]
        if isinstance(recorded["input"], str)
        else recorded["input"]
    )
    assert _comparable(sent["input"]) == _comparable(given)


def _sorted(tools: list[dict[str, Any]]) -> list[Any]:
    return sorted((same(tool) for tool in tools), key=lambda tool: json.dumps(tool, sort_keys=True))


def _comparable(items: list[dict[str, Any]]) -> list[Any]:
    """Items of hosted tools go back as the vendor made them: the recorded programs made them anew,
    each in its own way, so only what we say is compared.
    """
    plain = [same(item) for item in items]
    return [
        item
        for item in plain
        if "role" in item
        or item["type"] in ("function_call", "reasoning")
        or not item["type"].endswith(HOSTED)
    ]


def _assert_told(response: dict[str, Any], error: AgentError) -> None:
    assert error.status == response["status"]
    assert KEY not in error.message
    said = response_error(response)
    assert str(said["message"])[:60] in error.message
    if response["status"] == 200:
        assert error.kind is IN_STREAM.get(said.get("code"), ErrorKind.NETWORK)
    elif "context_length" not in response["body"]:
        assert error.kind is KINDS[response["status"]]


def _replayed(body: bytes) -> tuple[ModelResponse | None, AgentError | None]:
    decoder, fold = ResponsesDecoder(Refusals("").in_stream), Fold()
    for delta in (*decoder.feed(body), *(decoder.finish() if decoder.end is None else ())):
        fold.add(delta)
    if decoder.end is not None:
        fold.add(decoder.end)
        return fold.response(), decoder.failure
    return None, decoder.failure


@pytest.mark.parametrize("name", ["responses_stream_phase", "responses_stream_function_call"])
def test_a_stream_cut_at_any_byte_is_whole_or_an_error(name: str) -> None:
    body: bytes = exchanges(name)[0]["response"]["body"].encode()
    complete, _ = _replayed(body)
    assert complete is not None
    said_all = body.rindex(b"}") + 1
    for cut in range(0, len(body), 7 if len(body) > 20_000 else 1):
        response, failure = _replayed(body[:cut])
        if cut >= said_all:
            assert response == complete
        else:
            assert response is None
            assert failure is not None
            assert failure.kind is ErrorKind.NETWORK


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("responses_stream")])
def test_a_stream_in_which_any_event_is_lost_is_whole_or_an_error(name: str) -> None:
    body: str = exchanges(name)[0]["response"]["body"]
    complete, _ = _replayed(body.encode())
    assert complete is not None
    events = body.replace("\r\n", "\n").strip().split("\n\n")
    for lost in range(len(events)):
        response, failure = _replayed(
            "\n\n".join([*events[:lost], *events[lost + 1 :], ""]).encode() + b"\n"
        )
        if response is None:
            assert failure is not None
            assert failure.kind is ErrorKind.NETWORK
        else:
            assert _shown(response) == _shown(complete), events[lost]


def _shown(response: ModelResponse) -> list[object]:
    """Encrypted reasoning is encrypted anew each time that it is said."""
    items = items_of(response.parts)
    return [{k: v for k, v in item.items() if k != "encrypted_content"} for item in items]
