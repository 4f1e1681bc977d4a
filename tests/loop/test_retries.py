"""Retries: what is asked again, after what wait, and that nothing of a failed attempt is left."""

from __future__ import annotations

import pytest

from tests.doubles import (
    PlayedModel,
    Step,
    agent,
    end,
    gives,
    open_runtime,
    says,
    text,
    watch,
    wishes,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle.errors import AgentError, ErrorKind
from treadle.messages import events
from treadle.models.model import (
    ArgumentsDelta,
    PartEnd,
    ReasoningDelta,
    Restart,
    TextDelta,
    ToolCallStart,
)
from treadle.models.retry import LONGEST_WAIT_S, RetryPolicy
from treadle.testing import FakeClock, ScriptedModel
from treadle.types import Settings


def cut(kind: str = "network", **more: object) -> AgentError:
    return AgentError(kind, "it was cut", **more)  # pyright: ignore[reportArgumentType]  whatever the test says


async def test_a_transient_failure_is_asked_again() -> None:
    clock = FakeClock()
    model = ScriptedModel(
        [
            {"error": {"kind": "rate_limit", "status": 429, "retry_after_s": 7}},
            {"error": {"kind": "network"}},
            says("Hello."),
        ]
    )
    seen = await watch(model, runtime=open_runtime(clock=clock))
    assert (seen.outcome, seen.result.output) == ("completed", "Hello.")
    assert clock.waits == [7, 0.5 * 0.5 * 2**2]
    assert [(e.attempt, e.kind, e.wait_s) for e in seen.of(events.Retry)] == [
        (1, "rate_limit", 7),
        (2, "network", 1.0),
    ]
    assert model.requests[0].messages == model.requests[2].messages
    metrics = seen.result.metrics
    assert (metrics.turns, metrics.retries, metrics.invocations) == (1, 2, 2), (
        "the second attempt reached nobody"
    )
    assert metrics.duration_s == 8
    assert seen.entries[1:4] == ["model.requested"] * 3


async def test_after_three_retries_the_error_is_the_end() -> None:
    clock = FakeClock()
    seen = await watch(
        [{"error": {"kind": "network", "status": 503}}] * 9, runtime=open_runtime(clock=clock)
    )
    assert seen.outcome == "error"
    assert seen.result.error is not None
    assert (seen.result.error.kind, seen.result.error.status) == (ErrorKind.NETWORK, 503)
    assert clock.waits == [0.5, 1.0, 2.0]
    assert (seen.result.metrics.retries, seen.result.metrics.invocations) == (3, 4)


@pytest.mark.parametrize("kind", ["invalid", "auth", "agent", "context_overflow"])
async def test_what_asking_again_cannot_mend_is_not_asked_again(kind: str) -> None:
    model = PlayedModel([cut(kind, status=400)], text("never"))
    seen = await watch(model)
    assert len(model.requests) == 1
    assert not seen.of(events.Retry)


async def test_each_turn_has_its_own_retries() -> None:
    failing: list[list[Step]] = [[cut()], [cut()], [cut()]]
    model = PlayedModel(*failing, wishes(("c1", "look", "{}")), *failing, text("done"))
    seen = await watch(model, gives("look"))
    assert (seen.outcome, seen.result.metrics.retries) == ("completed", 6)


async def test_how_often_and_how_long_can_be_said() -> None:
    clock = FakeClock()
    rt = open_runtime(clock=clock, retries=RetryPolicy(retries=1, base_s=4, cap_s=5))
    seen = await watch(PlayedModel([cut()], [cut()], text("never")), runtime=rt)
    assert (seen.outcome, clock.waits) == ("error", [2.5])


def test_a_wait_is_what_the_provider_said_or_a_random_part_of_a_growing_bound() -> None:
    policy = RetryPolicy()
    assert policy.wait_s(1, cut(retry_after_s=0.0), 0.9) == 0
    assert policy.wait_s(1, cut(retry_after_s=3.5), 0.9) == 3.5
    assert policy.wait_s(1, cut(retry_after_s=1e9), 0.9) == LONGEST_WAIT_S
    assert policy.wait_s(1, cut(retry_after_s=float("inf")), 0.9) == LONGEST_WAIT_S
    for nonsense in (-1.0, float("nan"), None):
        assert policy.wait_s(2, cut(retry_after_s=nonsense), 0.5) == 1.0
    assert policy.wait_s(3, cut(), 0.0) == 0
    assert policy.wait_s(50, cut(), 1.0) == policy.cap_s


# ---------------------------------------------------------------- nothing is left of a failed attempt


async def test_a_stream_cut_in_its_text_leaves_no_doubled_text() -> None:
    model = PlayedModel(
        [ReasoningDelta("Hm"), TextDelta("Hello, "), TextDelta("wor"), cut()], text("Hello, world.")
    )
    seen = await watch(model)
    assert seen.result.output == "Hello, world."
    assert [m.text for m in seen.result.messages] == ["go", "Hello, world."]
    assert [(event.attempt, event.text) for event in seen.of(events.TextDelta)] == [
        (1, "Hello, "),
        (1, "wor"),
        (2, "Hello, world."),
    ]
    assert len({event.message_id for event in seen.of(events.TextDelta)}) == 1
    assert seen.of(events.MessageAdded)[0].message.id == seen.of(events.TextDelta)[0].message_id


async def test_an_attempt_cut_in_its_reasoning_closes_it_before_the_retry() -> None:
    seen = await watch(PlayedModel([ReasoningDelta("Hm"), cut()], text("Hi.")))
    begin = seen.kinds.index("reasoning_start")
    assert seen.kinds[begin : begin + 4] == [
        "reasoning_start",
        "reasoning_delta",
        "reasoning_end",
        "retry",
    ]


async def test_an_attempt_cut_after_a_whole_call_runs_nothing() -> None:
    model = PlayedModel(
        [
            *wishes(("c1", "look", "{}"))[:-1],
            ToolCallStart("c2", "look"),
            ArgumentsDelta('{"a'),
            cut(),
        ],
        text("done"),
    )
    seen = await watch(model, gives("look"))
    assert seen.outcome == "completed"
    assert seen.results == []
    assert "tool_call" not in seen.kinds


async def test_a_call_that_comes_again_in_the_next_attempt_keeps_its_id() -> None:
    half = wishes(("c1", "look", "{}"))[:-1]
    seen = await watch(
        PlayedModel([*half, cut()], wishes(("c1", "look", "{}")), text("done")), gives("look")
    )
    assert [c.id for m in seen.result.messages for c in m.tool_calls] == ["c1"]


async def test_a_stream_that_ends_without_its_end_is_asked_again() -> None:
    seen = await watch(
        PlayedModel([TextDelta("He")], [TextDelta("Hello."), PartEnd()], text("Hello."))
    )
    assert (seen.outcome, seen.result.output, seen.result.metrics.retries) == (
        "completed",
        "Hello.",
        2,
    )


async def test_a_provider_that_begins_anew_uses_up_no_retry() -> None:
    begins_anew: list[Step] = [
        TextDelta("a"),
        Restart(),
        TextDelta("b"),
        Restart(),
        TextDelta("c"),
        Restart(),
        cut(),
    ]
    seen = await watch(PlayedModel(begins_anew, [cut()], [cut()], [TextDelta("d"), end()]))
    assert (seen.outcome, seen.result.output) == ("completed", "d")
    assert (seen.result.metrics.retries, seen.of(events.TextDelta)[-1].attempt) == (3, 7)
    assert [event.attempt for event in seen.of(events.Retry)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(temperature=0.5), "`temperature` is deprecated for this model."),
        (
            Settings(effort="max"),
            "Unsupported value: 'reasoning.effort' does not support 'max' with this model.",
        ),
        (Settings(thinking=False), '"thinking.type.disabled" is not supported for this model.'),
        (Settings(tool_choice="any"), 'tool_choice: type "tool" and "any" are not supported'),
        (Settings(), "thinking.display: Extra inputs are not permitted"),
    ],
)
async def test_a_setting_that_the_provider_refuses_by_name_is_left_out_for_the_rest_of_the_run(
    settings: Settings, words: str
) -> None:
    refused = AgentError("invalid", words, status=400, request_id="req_7")
    model = PlayedModel([refused], wishes(("c1", "look", "{}")), text("done"))
    seen = await watch(model, gives("look"), settings=settings)
    assert seen.outcome == "completed"
    asked = [request.settings for request in model.requests]
    assert asked[0] != asked[1] == asked[2]
    (warning,) = seen.of(events.Warned)
    assert warning.text.endswith(f"it is left out from here on ({words}; request req_7)")


@pytest.mark.usefixtures("store")
async def test_a_resumed_run_does_not_repeat_a_setting_that_was_refused() -> None:
    refused = AgentError("invalid", "`temperature` is deprecated for this model.", status=400)
    model = PlayedModel([refused], wishes(("c1", "send", "{}")), text("done"))
    one, settings = agent(model, gives("send", needs_approval=True)), Settings(temperature=0.5)
    async with open_runtime() as runtime:
        waits = await runtime.run(one, "Send it.", settings=settings, on_ask="wait")
        assert (
            await runtime.resume(waits.run_id, agent=one, approve=["c1"])
        ).outcome == "completed"
    assert [request.settings.temperature for request in model.requests] == [0.5, None, None]


async def test_a_request_that_is_refused_for_something_else_is_not_asked_again() -> None:
    for words in (
        "messages.3: `tool_use` ids were found without `tool_result`",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ):
        model = PlayedModel([AgentError("invalid", words, status=400)], text("never"))
        seen = await watch(model, settings=Settings(thinking=True))
        assert (seen.outcome, len(model.requests)) == ("error", 1)
