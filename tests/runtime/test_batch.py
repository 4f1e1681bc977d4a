"""`Runtime.batch`: many prompts over the batch APIs of the vendors, whose rules a server on loopback
enforces.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from typing_extensions import override

import treadle
from tests.doubles import open_runtime, says
from tests.models.providers.loopback import Answer, document
from tests.models.providers.speech import Call
from tests.vendors.batches import MODELS, WIRES, BatchServer, batch_server
from treadle import Agent, AgentError, FallbackModel, Handoff, Limits, Runtime, handoff, tool
from treadle._internal.redaction import Secret
from treadle.budget.prices import BATCH, UNKNOWN, BatchPrice, configured
from treadle.config import Config, Price, Provider
from treadle.journal.entries import ModelBatched, ModelRequested, ModelResponded
from treadle.models.providers.anthropic import AnthropicModel, connect
from treadle.models.providers.batching.anthropic import AnthropicBatches
from treadle.models.providers.batching.policy import BatchPolicy
from treadle.testing import FakeClock, ScriptedModel
from treadle.types import Outcome, Usage, now

GATHER_S = 77.0
POLICY = BatchPolicy(gather_s=GATHER_S, poll_s=10, most_poll_s=30)


class Gathering(FakeClock):
    """A clock on which only requests that gather take their time."""

    @override
    async def sleep(self, seconds: float) -> None:
        if seconds == GATHER_S:
            await anyio.sleep_forever()
        await super().sleep(seconds)


@tool(effect="pure")
def look(place: str) -> str:
    """Look at a place."""
    return f"rain in {place}"


def agent_on(wire: str, **fields: Any) -> Agent[Any, Any]:
    return Agent(name="tester", model=f"{wire}:{MODELS[wire]}", **fields)


def runtime_of(server: BatchServer, wire: str = "anthropic", **more: Any) -> Runtime:
    return open_runtime(config=server.config(wire), **({"clock": Gathering()} | more))


async def let_others_run() -> None:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


async def entries_of(rt: Runtime, run_id: str) -> list[Any]:
    return [record.entry for record in await rt.journal.read(run_id)]


# ---------------------------------------------------------------- what it does


@pytest.mark.parametrize("wire", WIRES)
async def test_all_prompts_go_out_together_at_half_price(wire: str) -> None:
    async with batch_server() as server, runtime_of(server, wire) as rt:
        prompts = [f"p{n}" for n in range(5)]
        results = await rt.batch(
            agent_on(wire), prompts, batch_id="b", policy=POLICY, user_id="u", tags=["t"]
        )
        assert [result.text for result in results] == [f"Echo: p{n}" for n in range(5)]
        assert [len(held.requests) for held in server.held] == [5]
        assert server.ordinary == []
        # five input tokens for a dollar each; one to four of them come from the cache
        assert [result.metrics.cost_usd for result in results] == [2.5] * 5
        assert [row.cost_usd for row in await rt.journal.costs("tag")] == [12.5]
        assert {(r.user_id, r.agent) for r in await rt.journal.runs()} == {("u", "tester")}
        kinds: list[type[object]] = [type(entry) for entry in await entries_of(rt, "b-3")]
        assert kinds[1:5] == [ModelRequested, ModelBatched, ModelBatched, ModelResponded]
        assert (await rt.journal.load("b-3")).started.batch == "b"  # type: ignore[union-attr]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_run_with_tools_makes_a_second_round(wire: str) -> None:
    def reply(text: str) -> str | Call:
        return (
            f"It is: {text}" if "rain" in text else Call("c1", "look", (f'{{"place":"{text}"}}',))
        )

    async with batch_server(reply=reply) as server, runtime_of(server, wire) as rt:
        one = agent_on(wire, tools=[look])
        results = await rt.batch(one, ["Rome", "Oslo"], policy=POLICY)
        assert [result.text for result in results] == ["It is: rain in Rome", "It is: rain in Oslo"]
        assert [len(held.requests) for held in server.held] == [2, 2]
        assert len({*server.custom_ids}) == 4


async def test_an_agent_that_takes_over_stays_in_the_batch() -> None:
    def reply(text: str) -> str | Call:
        return Call("c1", "transfer_to_other", ('{"reason":"r"}',)) if text == "go" else "Done."

    async with batch_server(reply=reply) as server, runtime_of(server) as rt:
        other: Handoff[Any, Any] = handoff(agent_on("anthropic").with_(name="other"))
        results = await rt.batch(agent_on("anthropic", handoffs=[other]), ["go"], policy=POLICY)
        assert (results[0].text, results[0].agent) == ("Done.", "other")
        assert len(server.held) == 2
        assert server.ordinary == []


async def test_a_request_waits_a_limited_time_for_a_busy_run() -> None:
    looking, seen = anyio.Event(), anyio.Event()

    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        looking.set()
        await seen.wait()
        return "seen"

    def reply(text: str) -> str | Call:
        calls = {
            "slow": Call("c1", "wait", ("{}",)),
            "fast": Call("c1", "look", ('{"place":"x"}',)),
        }
        return calls.get(text, "Done.")

    class Impatient(FakeClock):
        @override
        async def sleep(self, seconds: float) -> None:
            if seconds == GATHER_S:
                await looking.wait()
            await super().sleep(seconds)

    async with batch_server(reply=reply) as server, runtime_of(server, clock=Impatient()) as rt:
        results = list[Any]()

        async def run() -> None:
            results.extend(
                await rt.batch(
                    agent_on("anthropic", tools=[look, wait]), ["slow", "fast"], policy=POLICY
                )
            )

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            with anyio.fail_after(10):
                while len(server.held) < 2:
                    await let_others_run()
            seen.set()
        assert [result.text for result in results] == ["Done.", "Done."]
        assert [len(held.requests) for held in server.held][1:] == [1, 1]


async def test_more_requests_than_a_batch_takes_go_out_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AnthropicBatches, "requests_max", 2)
    async with batch_server() as server, runtime_of(server) as rt:
        results = await rt.batch(agent_on("anthropic"), ["a", "b", "c", "d", "e"], policy=POLICY)
        assert [result.text for result in results] == [f"Echo: {p}" for p in "abcde"]
        assert sorted(len(held.requests) for held in server.held) == [1, 2, 2]


async def test_the_price_limit_of_a_run_is_that_of_the_batch() -> None:
    limits = Limits(cost_usd=4.0)
    price = {"anthropic:*": Price(input=20_000, output=1_000)}
    async with batch_server() as server:
        config = Config(providers=server.config("anthropic").providers, prices=price)
        async with open_runtime(config=config, clock=Gathering()) as rt:
            one = agent_on("anthropic")
            (batched,) = await rt.batch(one, ["a" * 100], policy=POLICY, limits=limits)
            alone = await rt.run(one, "a" * 100, limits=limits)
    assert batched.outcome is Outcome.COMPLETED
    sent = [*server.held[0].requests.values(), *server.ordinary]
    assert 2 * sent[1]["max_tokens"] < sent[0]["max_tokens"] < 7000, "what the limit leaves"
    assert alone.metrics.cost_usd == 2 * (batched.metrics.cost_usd or 0)


@pytest.mark.parametrize("fees", [0.0, 1000.0])
def test_tokens_cost_half_and_fees_are_not_reduced(fees: float) -> None:
    price = Price(input=2, output=8, cache_read=1, web_searches=fees)
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000, web_searches=3)
    rates = configured(price)(now())
    half = rates.of(BATCH, now())
    assert half is not None
    assert half.cost_usd(usage) == 3 + 3 * fees / 1000
    assert rates.cost_usd(usage) == 6 + 3 * fees / 1000
    assert half.dearest(10).token_out * 2 == rates.dearest(10).token_out
    assert BatchPrice(UNKNOWN).tariff is None


# ---------------------------------------------------------------- polling


async def test_questions_become_rarer_and_a_busy_provider_is_asked_later() -> None:
    clock = Gathering()
    async with batch_server(looks=6) as server, runtime_of(server, clock=clock) as rt:
        original = server.answer

        def answer() -> Answer:
            looks = sum(seen.method == "GET" for seen in server.seen)
            if server.seen[-1].method == "GET" and looks == 2:
                return document({"type": "error"}, status=429, headers={"retry-after": "120"})
            if server.seen[-1].method == "GET" and looks == 4:
                return document({"type": "error"}, status=503)
            return original()

        server.answer = answer
        (result,) = await rt.batch(agent_on("anthropic"), ["a"], policy=POLICY)
    assert result.text == "Echo: a"
    assert result.metrics.retries == 0
    assert clock.waits[0] == 10
    assert 120 in clock.waits
    assert max(wait for wait in clock.waits if wait != 120) == 30
    assert len(server.held) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_an_overloaded_request_is_sent_again_in_a_batch(wire: str) -> None:
    asked = list[str]()

    def reply(text: str) -> str:
        asked.append(text)
        return "HTTP 429" if asked.count("b") == 1 and text == "b" else f"Echo: {text}"

    async with batch_server(reply=reply) as server, runtime_of(server, wire) as rt:
        results = await rt.batch(agent_on(wire), ["a", "b"], policy=POLICY)
        assert [result.text for result in results] == ["Echo: a", "Echo: b"]
        assert [len(held.requests) for held in server.held] == [2, 1]
        assert results[1].metrics.retries == 1
        assert results[1].metrics.cost_usd == 2.5


@pytest.mark.parametrize("wire", WIRES)
async def test_a_rejected_request_ends_its_run_and_no_other(wire: str) -> None:
    def reply(text: str) -> str:
        return "HTTP 400" if text == "b" else f"Echo: {text}"

    async with batch_server(reply=reply) as server, runtime_of(server, wire) as rt:
        good, bad = await rt.batch(agent_on(wire), ["a", "b"], policy=POLICY)
    assert good.text == "Echo: a"
    assert bad.outcome is Outcome.ERROR
    assert bad.error is not None
    assert "400" in bad.error.message
    assert bad.metrics.cost_usd is None


@pytest.mark.parametrize("wire", WIRES)
async def test_a_request_without_a_result_says_what_to_do(wire: str) -> None:
    async with batch_server() as server, runtime_of(server, wire) as rt:
        for server.fate in ("expired", "cancelled", "lost"):
            (result,) = await rt.batch(agent_on(wire), ["a"], policy=POLICY)
            assert result.outcome is Outcome.ERROR
            assert result.error is not None
            words = "console" if server.fate == "lost" else "another batch_id"
            assert words in result.error.message
    assert len(server.held) == 3, "none is sent again"


# ---------------------------------------------------------------- the submission


@pytest.mark.parametrize("wire", WIRES)
async def test_a_batch_whose_acceptance_got_lost_is_found_again(wire: str) -> None:
    async with batch_server(loses_answer=True, looks=5) as server, runtime_of(server, wire) as rt:
        results = await rt.batch(agent_on(wire), ["a", "b"], policy=POLICY)
        assert [result.text for result in results] == ["Echo: a", "Echo: b"]
    assert len(server.held) == 1
    assert len({*server.custom_ids}) == 2


async def test_a_batch_that_was_not_accepted_is_submitted_again() -> None:
    async with batch_server() as server, runtime_of(server) as rt:
        server.fails = [document({"type": "error"}, status=503)]
        results = await rt.batch(agent_on("anthropic"), ["a", "b"], policy=POLICY)
        assert [result.text for result in results] == ["Echo: a", "Echo: b"]
        assert [result.metrics.retries for result in results] == [1, 1]
    assert [len(held.requests) for held in server.held] == [2]


async def test_an_unknown_acceptance_is_an_error_and_not_a_second_batch() -> None:
    async with batch_server() as server, runtime_of(server) as rt:
        server.fails = [
            document({"type": "error"}, status=500),
            *(document({"type": "error"}, status=403) for _ in range(2)),
        ]
        results = await rt.batch(agent_on("anthropic"), ["a", "b"], policy=POLICY)
    assert [result.outcome for result in results] == [Outcome.ERROR] * 2
    for result in results:
        assert result.error is not None
        assert "it is unknown whether the provider accepted batch" in result.error.message
    assert server.held == []


# ---------------------------------------------------------------- cancellation and continuation


async def until_held(server: BatchServer) -> None:
    with anyio.fail_after(10):
        while not server.held:
            await let_others_run()


async def in_progress(
    server: BatchServer, rt: Runtime, then: Callable[[anyio.CancelScope], Awaitable[object]]
) -> list[Any]:
    """Call `then` while two runs wait for a batch that is never over."""
    results, scope = list[Any](), anyio.CancelScope()

    async def run() -> None:
        with scope:
            batch = rt.batch(agent_on("anthropic"), ["a", "b"], batch_id="b", policy=POLICY)
            results.extend(await batch)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until_held(server)
        await then(scope)
    return results


class Stopped(Gathering):
    """A clock on which nothing is asked for a second time."""

    @override
    async def sleep(self, seconds: float) -> None:
        if seconds == 15:
            await anyio.sleep_forever()
        await super().sleep(seconds)


async def test_cancelling_the_call_cancels_the_batch_at_the_provider() -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        scope.cancel()

    async with batch_server(looks=9**9) as server, runtime_of(server, clock=Stopped()) as rt:
        await in_progress(server, rt, cancel)
        assert [held.fate for held in server.held] == ["cancelled"]
        assert {info.outcome for info in await rt.journal.runs()} == {Outcome.CANCELLED}


async def test_cancelling_the_call_before_the_batch_is_accepted_cancels_it_too() -> None:
    scope = anyio.CancelScope()
    async with (
        batch_server(looks=9**9, on_created=scope.cancel) as server,
        runtime_of(server, clock=Stopped()) as rt,
    ):
        with scope:
            await rt.batch(agent_on("anthropic"), ["a", "b"], policy=POLICY)
        assert [held.fate for held in server.held] == ["cancelled"]


async def test_a_closed_runtime_leaves_the_batch_to_the_next(tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path}/runs.db"

    async def close(rt: Runtime, _: anyio.CancelScope) -> None:
        await rt.aclose()

    async with batch_server(looks=9**9) as server:
        config = server.config("anthropic")
        async with Runtime.open(journal, config=config) as rt:
            with pytest.raises(BaseExceptionGroup) as caught:
                await in_progress(server, rt, partial(close, rt))
            assert "resume it" in str(caught.value.exceptions[0])
        server.held[0].looks = 1
        async with Runtime.open(journal, config=config) as rt:
            results = await rt.batch(agent_on("anthropic"), ["a", "b"], batch_id="b")
            assert [result.text for result in results] == ["Echo: a", "Echo: b"]
            again = await rt.batch(agent_on("anthropic"), ["a", "b"], batch_id="b")
            assert [result.text for result in again] == ["Echo: a", "Echo: b"]
        assert [(len(held.requests), held.fate) for held in server.held] == [(2, "")]


# ---------------------------------------------------------------- without a provider


async def test_a_script_needs_no_provider(tmp_path: Path) -> None:
    script = tmp_path / "one.json"
    script.write_text(json.dumps([says("From a file.")]))
    async with open_runtime() as rt:
        one = Agent[Any, str](name="one", model=ScriptedModel([says("One."), says("Two.")]))
        results = await rt.batch(one, ["a", "b"], batch_id="b")
        assert sorted(result.text for result in results) == ["One.", "Two."]
        assert [r.text for r in await rt.batch(one, ["a", "b"], batch_id="b")] == [
            result.text for result in results
        ]
        two = Agent[Any, str](name="two", model=f"script:{script}")
        assert [r.text for r in await rt.batch(two, ["a", "b"])] == ["From a file."] * 2


def test_it_blocks_without_an_event_loop() -> None:
    with treadle.open() as rt:
        one = Agent[Any, str](name="one", model=ScriptedModel([says("One.")]))
        assert [result.text for result in rt.batch(one, ["a"])] == ["One."]


def _no_batches(**fields: Any) -> Config:
    provider = Provider(type="openai-chat", api_key=Secret("test-key-1"), **fields)
    return Config(providers={"other": provider})


async def test_a_provider_without_batches_is_an_error_or_asked_at_once() -> None:
    async with batch_server() as server:
        config = _no_batches(base_url=f"{server.url}/v1")
        async with open_runtime(config=config) as rt:
            one = Agent[Any, str](name="one", model="other:m")
            with pytest.raises(AgentError, match=r"'other:m' has no batch API .* ordinary=True"):
                await rt.batch(one, ["a"])
            (result,) = await rt.batch(one, ["a"], ordinary=True)
            assert result.text == "Echo: a"
            assert len(server.ordinary) == 1


async def test_models_that_are_no_names_are_refused() -> None:
    model = AnthropicModel("m", connection=connect(api_key="k", base_url="http://127.0.0.1:1"))
    async with open_runtime() as rt:
        for given, kind in (
            (model, "AnthropicModel"),
            (FallbackModel(model, ScriptedModel([])), "Fallback"),
        ):
            one = Agent[Any, str](name="one", model=given)
            with pytest.raises(AgentError, match=f"one model by its name, not a {kind}"):
                await rt.batch(one, ["a"])


@pytest.mark.parametrize(
    ("prompts", "options", "said"),
    [
        ("one", {}, "takes a list of prompts, not a str"),
        (["a", ""], {}, "prompt 1 of the batch: the prompt is empty"),
        (["a"], {"batch_id": "a/b"}, "is not a valid run id"),
        (["a"], {"session": "s"}, "a run has no option 'session'"),
        (["a"], {"run_id": "r"}, "a run has no option 'run_id'"),
    ],
)
async def test_invalid_input_starts_nothing(prompts: Any, options: Any, said: str) -> None:
    async with open_runtime() as rt:
        one = Agent[Any, str](name="one", model=ScriptedModel([says("One.")]))
        with pytest.raises(AgentError, match=said):
            await rt.batch(one, prompts, **options)
        assert await rt.journal.runs() == []
        assert await rt.batch(one, []) == []


def test_a_policy_takes_seconds() -> None:
    for wrong in ({"gather_s": -1}, {"poll_s": 0}, {"most_poll_s": "1"}):
        with pytest.raises(AgentError, match="pass seconds, at least"):
            BatchPolicy(**wrong)  # type: ignore[arg-type]


async def test_other_prompts_under_one_id_stop_the_others_without_ending_them() -> None:
    async with batch_server(looks=1) as server, runtime_of(server) as rt:
        one = agent_on("anthropic")
        await rt.batch(one, ["a"], batch_id="b", policy=POLICY)
        with pytest.raises(AgentError, match="exists with another prompt"):
            await rt.batch(one, ["other", "b", "c"], batch_id="b", policy=POLICY)
        assert {info.status for info in await rt.journal.runs()} <= {"finished", "stopped"}
        results = await rt.batch(one, ["a", "b", "c"], batch_id="b", policy=POLICY)
        assert [result.text for result in results] == ["Echo: a", "Echo: b", "Echo: c"]
        assert len({*server.custom_ids}) == 3, "none was paid for twice"
