"""Gemini over our own connection: where it is asked, with which key, and an answer that takes
several requests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from tests.models.providers.loopback import Answer, Step, document, serving
from tests.models.providers.speech import HELLO, KEY
from treadle._internal.redaction import Secret
from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message, TextPart
from treadle.models.model import ModelRequest, TextDelta, ToolDefinition, fold_stream
from treadle.models.providers.gemini import GeminiModel, connect, model_over
from treadle.models.providers.gemini.model import RESPONSE_TOKENS_MAX
from treadle.models.providers.wires import connect_to
from treadle.types import Settings, StopReason, Usage

LOOK = ToolDefinition(name="look", description="Looks.", parameters={"type": "object"})
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}

Json = dict[str, Any]
Asking = Callable[..., GeminiModel]


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    connections = []

    def model_at(
        url: str,
        model_id: str = "gemini-3.8-flash",
        *,
        abilities: Abilities | None = None,
        **credentials: str,
    ) -> GeminiModel:
        connections.append(connect(base_url=url, timeout_s=10, **(credentials or {"api_key": KEY})))
        return GeminiModel(model_id, connection=connections[-1], abilities=abilities or Abilities())

    yield model_at
    for connection in connections:
        await connection.aclose()


def sse(
    *parts: Json, finish: str | None = None, token: str | None = None, counts: Json | None = None
) -> bytes:
    candidate = {"content": {"parts": list(parts), "role": "model"}} | (
        {"finishReason": finish} if finish else {}
    )
    chunk = {
        "candidates": [{**candidate, **({"continuationToken": token} if token else {})}],
        "modelVersion": "m",
        "responseId": "r",
    }
    return f"data: {json.dumps({**chunk, **({'usageMetadata': counts} if counts else {})})}\r\n\r\n".encode()


YES = Answer(steps=(sse({"text": "Yes."}, finish="STOP"),))


# ---------------------------------------------------------------- where and as whom


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("", "/v1beta"),
        ("/", "/v1beta"),
        ("/v1beta", "/v1beta"),
        ("/v1", "/v1"),
        ("/v1alpha/", "/v1alpha"),
        ("/proxy", "/proxy/v1beta"),
    ],
)
async def test_an_address_keeps_its_version(asking: Asking, path: str, asked: str) -> None:
    async with serving(YES) as server:
        await fold_stream(asking(server.url + path).stream(HELLO))
    assert server.seen[0].target == f"{asked}/models/gemini-3.8-flash:streamGenerateContent?alt=sse"


async def test_an_address_within_a_project_is_taken(asking: Asking) -> None:
    place = "/v1/projects/p/locations/global/publishers/google"
    async with serving(YES) as server:
        await fold_stream(asking(server.url + place, auth_token="token").stream(HELLO))
    assert server.seen[0].target == f"{place}/models/gemini-3.8-flash:streamGenerateContent?alt=sse"


async def test_an_odd_id_stays_in_its_place_in_the_path(asking: Asking) -> None:
    async with serving(YES, YES) as server:
        await fold_stream(asking(server.url, "../a?b#c d").stream(HELLO))
        await fold_stream(asking(server.url, "tunedModels/mine").stream(HELLO))
    assert [seen.target.partition(":")[0] for seen in server.seen] == [
        "/v1beta/models/..%2Fa%3Fb%23c%20d",
        "/v1beta/tunedModels/mine",
    ]


async def test_a_key_and_a_token_go_into_headers_of_their_own(asking: Asking) -> None:
    async with serving(YES, YES) as server:
        await fold_stream(asking(server.url, api_key=KEY).stream(HELLO))
        await fold_stream(asking(server.url, auth_token=KEY).stream(HELLO))
    first, second = server.seen
    assert (first.headers.get("x-goog-api-key"), first.headers.get("authorization")) == (KEY, None)
    assert (second.headers.get("x-goog-api-key"), second.headers.get("authorization")) == (
        None,
        f"Bearer {KEY}",
    )
    assert KEY not in first.target + second.target


@pytest.mark.parametrize(
    "credentials", [{}, {"api_key": " "}, {"api_key": "two words"}, {"auth_token": "ké"}]
)
def test_a_key_that_is_none_is_an_error_at_once(credentials: dict[str, str]) -> None:
    with pytest.raises(AgentError) as raised:
        connect(**credentials)
    assert raised.value.kind is ErrorKind.AUTH
    assert "two words" not in raised.value.message


async def test_an_endpoint_says_all_that_is_needed() -> None:
    async with serving(
        document(
            {"error": {"code": 400, "message": "No.", "details": [{"reason": "API_KEY_INVALID"}]}},
            status=400,
        )
    ) as server:
        endpoint = Endpoint(
            name="corp",
            type="gemini",
            base_url=server.url,
            api_key=Secret(KEY),
            auth_token=None,
            key_origin="GEMINI_API_KEY",
            preamble="",
            timeout_s=10,
            headers={"X-Team": Secret("a")},
        )
        connection = connect_to(endpoint)
        model = model_over(connection, endpoint, "gemini-3.8-flash", Abilities())
        with pytest.raises(AgentError, match="Check the key of GEMINI_API_KEY") as raised:
            await fold_stream(model.stream(HELLO))
        await model.aclose()
    assert raised.value.kind is ErrorKind.AUTH
    assert model.name == "corp:gemini-3.8-flash"
    assert server.seen[0].headers["x-team"] == "a"


# ---------------------------------------------------------------- what a model takes


def test_older_models_refuse_to_be_asked_to_think() -> None:
    connection = connect(api_key=KEY)
    assert GeminiModel("gemini-2.0-flash", connection=connection).refuses == {"thinking", "effort"}
    assert GeminiModel("gemini-2.5-flash", connection=connection).refuses == frozenset()
    assert GeminiModel(
        "gemini-4-argon",
        connection=connection,
        abilities=Abilities(temperature=False, images=False),
    ).refuses == {"temperature", "images"}


async def test_a_schema_is_asked_for_with_tools_only_where_the_model_takes_both(
    asking: Asking,
) -> None:
    request = ModelRequest(
        messages=[Message.user("Hello")],
        tools=(LOOK,),
        settings=Settings(max_tokens=9, output_schema=CITY),
    )
    answered = Answer(
        steps=(
            sse(
                {"functionCall": {"name": "final_answer", "args": {"city": "Rome"}}}, finish="STOP"
            ),
        )
    )
    async with serving(
        Answer(steps=(sse({"text": '{"city":"Rome"}'}, finish="STOP"),)), answered
    ) as server:
        native = await fold_stream(asking(server.url).stream(request))
        by_tool = await fold_stream(asking(server.url, "gemini-2.5-flash").stream(request))
    assert json.loads(native.text) == json.loads(by_tool.text) == {"city": "Rome"}
    assert by_tool.stop_reason is StopReason.COMPLETE
    first, second = (seen.json for seen in server.seen)
    assert first["generationConfig"] == {
        "maxOutputTokens": 9,
        "responseMimeType": "application/json",
        "responseJsonSchema": CITY,
    }
    assert second["generationConfig"] == {"maxOutputTokens": 9}
    assert [f["name"] for f in second["tools"][0]["functionDeclarations"]] == [
        "look",
        "final_answer",
    ]  # pyright: ignore[reportIndexIssue]  JSON


async def test_a_count_is_asked_of_the_model(asking: Asking) -> None:
    async with serving(document({"totalTokens": 41})) as server:
        assert await asking(server.url).count_tokens(HELLO) == 41
    assert server.seen[0].target == "/v1beta/models/gemini-3.8-flash:countTokens"


# ---------------------------------------------------------------- an answer in several requests

LONG = ModelRequest(
    messages=[Message.user("Hello")], settings=Settings(max_tokens=2 * RESPONSE_TOKENS_MAX + 1)
)


def counts(prompt: int, said: int) -> Json:
    return {"promptTokenCount": prompt, "candidatesTokenCount": said}


async def test_an_answer_that_is_too_long_for_one_response_is_one_answer(asking: Asking) -> None:
    first = Answer(
        steps=(
            sse({"text": "Once "}),
            sse({"text": "upon "}, finish="CONTINUATION", token="t1", counts=counts(9, 2)),
        )
    )
    second = Answer(
        steps=(sse({"text": "a "}), sse(finish="CONTINUATION", token="t2", counts=counts(11, 1)))
    )
    third = Answer(steps=(sse({"text": "time."}, finish="STOP", counts=counts(12, 1)),))
    async with serving(first, second, third) as server:
        response = await fold_stream(asking(server.url).stream(LONG))
    assert response.parts == (TextPart(text="Once upon a time."),)
    assert (response.stop_reason, response.usage) == (
        StopReason.COMPLETE,
        Usage(input_tokens=32, output_tokens=4),
    )
    bodies = [seen.json for seen in server.seen]
    assert [body.pop("continuationToken", None) for body in bodies] == [None, "t1", "t2"]
    assert bodies[0] == bodies[1] == bodies[2]


async def test_the_last_token_that_was_given_is_gone_on_with(asking: Asking) -> None:
    first = Answer(
        steps=(
            sse({"text": "Once "}, token="t1"),
            sse({"text": "upon "}, token="t2"),
            sse({"text": "a "}),
            sse(finish="CONTINUATION"),
        )
    )
    async with serving(first, Answer(steps=(sse({"text": "time."}, finish="STOP"),))) as server:
        response = await fold_stream(asking(server.url).stream(LONG))
    assert (response.text, server.seen[1].json["continuationToken"]) == ("Once upon a time.", "t2")


@pytest.mark.parametrize("token", [None, "t1"])
async def test_an_answer_that_gets_no_further_is_cut(asking: Asking, token: str | None) -> None:
    stuck = [
        Answer(steps=(sse({"text": "On "}, finish="CONTINUATION", token=t),)) for t in ("t1", token)
    ]
    async with serving(*stuck) as server:
        response = await fold_stream(asking(server.url).stream(LONG))
    assert (response.text, response.stop_reason, response.raw_stop_reason) == (
        "On On ",
        StopReason.MAX_TOKENS,
        "CONTINUATION",
    )
    assert len(server.seen) == 2


async def test_a_continuation_that_fails_fails_the_answer(asking: Asking) -> None:
    first = Answer(steps=(sse({"text": "Once "}, finish="CONTINUATION", token="t1"),))
    async with serving(first, Answer(steps=(sse({"text": "upon "}), Step.CUT))) as server:
        with pytest.raises(AgentError) as raised:
            await fold_stream(asking(server.url).stream(LONG))
    assert raised.value.kind is ErrorKind.NETWORK


async def test_leaving_in_the_middle_of_a_continuation_closes_it(asking: Asking) -> None:
    first = Answer(steps=(sse({"text": "Once "}, finish="CONTINUATION", token="t1"),))
    async with serving(first, Answer(steps=(sse({"text": "upon "}), Step.HANG))) as server:
        with anyio.fail_after(20):
            async with aclosing(asking(server.url).stream(LONG)) as deltas:
                async for delta in deltas:
                    if delta == TextDelta("upon "):
                        break
            await server.gone.wait()


async def test_no_more_is_asked_for_than_so_long_an_answer_can_need(asking: Asking) -> None:
    """Each request pays for all of the input again: from then on it is the run that asks, within
    what it may spend.
    """
    endless = [
        Answer(steps=(sse({"text": "On "}, finish="CONTINUATION", token=f"t{n}"),))
        for n in range(5)
    ]
    async with serving(*endless) as server:
        response = await fold_stream(asking(server.url).stream(LONG))
    assert (response.text, response.stop_reason, len(server.seen)) == (
        "On On On ",
        StopReason.PAUSE,
        3,
    )


async def test_a_call_that_is_not_gone_on_with_is_told_as_cut(asking: Asking) -> None:
    begun = {
        "functionCall": {
            "name": "look",
            "partialArgs": [{"jsonPath": "$.at", "stringValue": "ho"}],
            "willContinue": True,
        }
    }
    async with serving(Answer(steps=(sse(begun, finish="CONTINUATION", token="t1"),))) as server:
        response = await fold_stream(asking(server.url).stream(HELLO))
    assert [call.arguments_json for call in response.tool_calls] == ['{"at":"ho"}']
    assert response.stop_reason is StopReason.MAX_TOKENS


async def test_a_shorter_answer_that_stops_so_is_a_pause(asking: Asking) -> None:
    async with serving(
        Answer(steps=(sse({"text": "Once "}, finish="CONTINUATION", token="t1"),))
    ) as server:
        response = await fold_stream(asking(server.url).stream(HELLO))
    assert (response.text, response.stop_reason, response.raw_stop_reason) == (
        "Once ",
        StopReason.PAUSE,
        "CONTINUATION",
    )
