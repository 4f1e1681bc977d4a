"""What vendors report beside an answer: request ids, rate limits, tiers, prices and cache misses
reach the journal, events, costs and `runs show`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.doubles import open_runtime
from tests.events.telemetry.traces import Watched
from tests.models.providers.loopback import Answer, Server, document, serving, stream
from tests.models.providers.speeches.gemini import GeminiSpeech
from tests.models.providers.speeches.openai_responses import OpenAIResponsesSpeech
from treadle import Agent, Runtime, Settings
from treadle.budget.price_list import Prices
from treadle.cli.response_notes import response_notes
from treadle.cli.story import Story
from treadle.config import Config
from treadle.journal.entries import ModelResponded
from treadle.messages.events import UsageReported
from treadle.messages.message import Message
from treadle.messages.response_details import CacheMiss, RateLimit, ResponseDetails
from treadle.models.model import Model, ModelRequest, complete
from treadle.models.providers.anthropic.connecting import connect
from treadle.models.providers.anthropic.model import AnthropicModel
from treadle.models.providers.gemini.model import GeminiModel
from treadle.models.providers.openai_chat.model import ChatModel
from treadle.models.providers.openai_chat.servers import server_at
from treadle.models.providers.openai_responses.model import OpenAIResponsesModel
from treadle.types import Usage

LIMITED = {
    "request-id": "req_1",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-limit": "50",
}
HELLO = ModelRequest(
    messages=[Message.user("Hello")], settings=Settings(max_tokens=100, service_tier="flex")
)
READ = {
    "input_tokens": 10,
    "cache_read_input_tokens": 5_000,
    "cache_creation_input_tokens": 0,
    "output_tokens": 5,
}
WRITTEN = {
    "input_tokens": 10,
    "cache_read_input_tokens": 40,
    "cache_creation_input_tokens": 5_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 4_000},
    "output_tokens": 5,
    "server_tool_use": {"web_search_requests": 3},
    "speed": "fast",
}
MISSED = {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 4_900}}


def claude(number: int, usage: dict[str, Any], diagnostics: Any = None, **answer: Any) -> Answer:
    message: dict[str, Any] = {
        "id": f"msg_{number}",
        "model": "claude-opus-5-5",
        "content": [],
        "usage": usage,
        "diagnostics": diagnostics,
    }
    block = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": "Hi."},
    }
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 5},
    }
    return stream(
        {"type": "message_start", "message": message},
        block,
        {"type": "content_block_stop", "index": 0},
        end,
        {"type": "message_stop"},
        **answer,
    )


@asynccontextmanager
async def over(
    at: Server, model: Any, watched: Watched | None = None, **options: Any
) -> AsyncGenerator[tuple[Runtime, Model]]:
    connection = connect(api_key="k", base_url=at.url)
    try:
        async with open_runtime(tracer=watched.tracer) if watched else open_runtime() as rt:
            yield rt, model("claude-opus-5-5", connection=connection, **options)
    finally:
        await connection.aclose()


async def responses(rt: Runtime, run_id: str) -> list[ModelResponded]:
    return [
        record.entry
        for record in await rt.journal.read(run_id)
        if isinstance(record.entry, ModelResponded)
    ]


async def test_what_claude_reports_is_journalled_told_and_shown() -> None:
    answers = (
        claude(1, READ, headers=LIMITED),
        claude(2, WRITTEN, MISSED),
        claude(3, {**READ, "cache_read_input_tokens": 90}, {"cache_miss_reason": None}),
    )
    async with (
        serving(*answers) as server,
        over(server, AnthropicModel, watched := Watched(), own_host=True) as (rt, model),
    ):
        session = rt.session(agent=Agent(name="a", model=model))
        async with session.stream("one") as run:
            told = [event async for event in run if isinstance(event, UsageReported)]
            first = run.result.run_id
        second = (
            await session.send("two", settings=Settings(cache="1h", service_tier="fast"))
        ).run_id
        third = (await session.send("three")).run_id
        (one,), (two,), (three,) = [
            await responses(rt, run_id) for run_id in (first, second, third)
        ]
        story = Story.of(await rt.journal.read(third))
    spans = [span.attributes or {} for span in watched.spans if span.name.startswith("chat")]
    assert (spans[0]["treadle.request_id"], spans[0]["treadle.rate_limit.requests.remaining"]) == (
        "req_1",
        49,
    )
    assert (spans[1]["treadle.service_tier"], spans[1]["treadle.cache_miss"]) == (
        "fast",
        "tools_changed",
    )
    limits = (RateLimit(name="requests", remaining=49, limit=50),)
    assert one.details == told[0].details == ResponseDetails(request_id="req_1", rate_limits=limits)
    assert two.details == ResponseDetails(
        service_tier="fast", cache_miss=CacheMiss(reason="tools_changed", tokens=4_900)
    )
    assert (
        two.usage.cache_write_tokens,
        two.usage.cache_write_1h_tokens,
        two.usage.web_searches,
    ) == (5_000, 4_000, 3)
    asked = [seen.json for seen in server.seen]
    assert [body["diagnostics"] for body in asked] == [
        {"previous_message_id": None},
        {"previous_message_id": "msg_1"},
        {"previous_message_id": "msg_2"},
    ]
    assert (asked[1]["speed"], server.seen[1].headers["anthropic-beta"]) == (
        "fast",
        "fast-mode-2026-02-01",
    )
    assert (
        json.dumps(asked[1]).count('"ttl": "1h"')
        == json.dumps(asked[1]).count("cache_control")
        == 2
    )
    ((text, _),) = response_notes(story, two, verbose=False)[three.message.id]
    assert text == "cache: 90 of about 5.0k tokens expected were read; the provider gives no reason"
    assert await Prices(Config()).of("anthropic:claude-opus-5-5").cost_usd(
        two.usage, two.at, "", two.details
    ) == pytest.approx((10 * 8 + 40 * 0.4 + 1_000 * 10 + 4_000 * 16 + 5 * 40) / 1e6 + 0.03)


async def test_another_host_is_asked_for_no_diagnosis() -> None:
    async with (
        serving(claude(1, READ), claude(2, READ)) as server,
        over(server, AnthropicModel) as (rt, model),
    ):
        await rt.run(Agent(name="a", model=model), "one")
        await rt.run(Agent(name="a", model=model), "one", settings=Settings(cache=False))
    assert "diagnostics" not in server.seen[0].json


async def test_a_request_that_is_refused_for_its_diagnosis_goes_without_a_cache() -> None:
    refused = document(
        {
            "error": {
                "type": "invalid_request_error",
                "message": "diagnostics: Extra inputs are not permitted",
            }
        },
        status=400,
    )
    async with (
        serving(refused, claude(1, READ)) as server,
        over(server, AnthropicModel, own_host=True) as (rt, model),
    ):
        assert (await rt.run(Agent(name="a", model=model), "one")).text == "Hi."
    assert "diagnostics" not in server.seen[1].json


async def test_what_gpt_reports() -> None:
    speech = OpenAIResponsesSpeech()
    ended = {
        "service_tier": "priority",
        "prompt_cache_diagnostics": {
            "type": "cache_miss",
            "reason": "input_changed",
            "comparison_reusable_tokens": 1_500,
        },
        "id": "resp_1",
        "output": [
            {
                "type": "web_search_call",
                "id": "w",
                "status": "completed",
                "action": {"type": "search", "query": "x"},
            },
            {
                "type": "web_search_call",
                "id": "v",
                "status": "completed",
                "action": {"type": "open_page", "url": "https://x"},
            },
            {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]},
        ],
        "usage": {
            "input_tokens": 9,
            "output_tokens": 1,
            "input_tokens_details": {
                "cache_write_tokens": 5,
                "cache_write_tokens_details": {"ttl_12h_tokens": 5},
            },
        },
    }
    limits = {
        "x-request-id": "req_2",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "1m2.5s",
    }
    async with serving(document(ended, headers=limits), document(ended), document(ended)) as server:
        connection = speech.connection(server.url, timeout_s=10)
        model = OpenAIResponsesModel("gpt-6.1-sol", connection=connection, own_host=True)
        async with open_runtime() as rt:
            session = rt.session(
                agent=Agent(
                    name="a", model=model, settings=Settings(cache="1h", service_tier="fast")
                )
            )
            result = await session.send("one")
            await session.send("two")
            (response,) = await responses(rt, result.run_id)
        await connection.aclose()
    assert response.details == ResponseDetails(
        request_id="req_2",
        service_tier="priority",
        cache_miss=CacheMiss(reason="input_changed", tokens=1_500),
        rate_limits=(RateLimit(name="tokens", remaining=100, reset_s=62.5),),
    )
    assert (response.usage.web_searches, response.usage.cache_write_1h_tokens) == (1, 5)
    asked = [seen.json for seen in server.seen]
    assert [body["prompt_cache_options"] for body in asked] == [
        {"ttl": "12h"},
        {"ttl": "12h", "comparison_response_id": "resp_1"},
    ]
    assert asked[0]["service_tier"] == "priority"


@pytest.mark.parametrize(("byok", "cost_usd"), [(False, 0.95), (True, 1.95)])
async def test_the_cost_that_openrouter_reports_is_the_cost(byok: bool, cost_usd: float) -> None:
    usage = {
        "prompt_tokens": 194,
        "completion_tokens": 2,
        "cost": 0.95,
        "is_byok": byok,
        "cost_details": {"upstream_inference_cost": 1.0},
    }
    chunks: Sequence[dict[str, Any]] = [
        {
            "id": "gen-1",
            "choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}],
        },
        {"id": "gen-1", "choices": [], "usage": usage},
    ]
    answer = Answer(
        steps=[
            *(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks),
            b"data: [DONE]\n\n",
        ]
    )
    async with (
        serving(answer) as server,
        over(server, ChatModel, server=server_at("https://openrouter.ai")) as (rt, model),
    ):
        result = await rt.run(
            Agent(name="a", model=model), "one", settings=Settings(service_tier="flex")
        )
    assert server.seen[0].json["service_tier"] == "flex"
    assert result.metrics.cost_usd == cost_usd


@pytest.mark.parametrize(("model_id", "searches"), [("gemini-3.5-flash", 2), ("gemini-2.5-pro", 1)])
async def test_searches_and_the_tier_of_gemini(model_id: str, searches: int) -> None:
    speech = GeminiSpeech()
    said: dict[str, Any] = {
        "content": {"role": "model", "parts": [{"text": "Hi."}]},
        "finishReason": "STOP",
    }
    chunk = {
        "candidates": [{**said, "groundingMetadata": {"webSearchQueries": ["a", "b"]}}],
        "usageMetadata": {"promptTokenCount": 3},
    }
    async with serving(document(chunk, headers={"x-gemini-service-tier": "flex"})) as server:
        connection = speech.connection(server.url, timeout_s=10)
        response = await complete(GeminiModel(model_id, connection=connection), HELLO)
        await connection.aclose()
    assert (response.usage, response.details) == (
        Usage(input_tokens=3, web_searches=searches),
        ResponseDetails(service_tier="flex"),
    )
    assert server.seen[0].json["serviceTier"] == "flex"
