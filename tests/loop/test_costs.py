"""What a run costs: where it is said, and a limit on it, which is an end like any other."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles import (
    PlayedModel,
    agent,
    asks,
    call,
    end,
    fails,
    gives,
    open_runtime,
    says,
    watch,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import FallbackModel
from treadle.budget.ledger import BYTES_PER_TOKEN
from treadle.budget.spending import Spending
from treadle.config import Config, Price
from treadle.errors import AgentError
from treadle.journal.entries import ModelRequested, ModelResponded, RunFinished
from treadle.messages import events
from treadle.models.model import Delta, ModelRequest, TextDelta
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.types import Limits, Settings, Usage

DOLLAR_A_TOKEN = Price(input=1_000_000, output=1_000_000)


def priced(price: Price = DOLLAR_A_TOKEN, *names: str, **more: Any) -> Runtime:
    return open_runtime(
        config=Config(prices=dict.fromkeys(names or ("script:*", "played:*"), price)), **more
    )


def used(tokens_in: int, tokens_out: int, **more: int) -> dict[str, int]:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out, **more}


# ---------------------------------------------------------------- where it is said


async def test_the_cost_of_each_response_is_in_the_journal_and_everything_else_adds_it_up() -> None:
    async with priced(Price(input=1_000, output=10_000, cache_read=100, cache_write=2_000)) as rt:
        script = [
            asks(call("look"), usage=used(100, 10, cache_read_tokens=1_000, cache_write_tokens=50)),
            says("done", usage=used(1, 2)),
        ]
        seen = await watch(script, gives("look"), runtime=rt)
        info = await rt.journal.info(seen.result.run_id)
    assert [event.cost_usd for event in seen.of(events.UsageReported)] == [0.4, 0.021]
    assert [
        record.entry.cost_usd for record in seen.records if isinstance(record.entry, ModelResponded)
    ] == [0.4, 0.021]
    assert (
        seen.result.metrics.cost_usd == seen.of(events.RunEnd)[0].cost_usd == info.cost_usd == 0.421
    )
    (spending,) = info.spending
    assert (spending.model, spending.responses, spending.unpriced, spending.cost_usd) == (
        "script:inline",
        2,
        0,
        0.421,
    )
    assert spending.usage == seen.result.metrics.usage
    assert not seen.of(events.Warned)


async def test_what_has_no_price_has_no_cost_and_nobody_is_told_that_it_was_nothing() -> None:
    seen = await watch([says("hi")])
    assert seen.result.metrics.cost_usd is None
    assert "cost_usd" not in json.loads(seen.events[-1].to_json())
    assert "cost_usd" not in json.loads(seen.of(events.UsageReported)[0].to_json())
    assert not seen.of(events.Warned)


@pytest.mark.usefixtures("store")
async def test_a_run_of_which_something_has_no_price_says_so_once_and_tells_the_sum_of_the_rest() -> (
    None
):
    async with priced(DOLLAR_A_TOKEN, "script:inline") as rt:
        waits = agent([asks(call("look"), usage=used(1, 1))], gives("look", needs_approval=True))
        first = await rt.run(waits, "go", on_ask="wait", session="s")
        (open_call,) = (await rt.journal.load(first.run_id)).current.open_calls
        told: list[events.Event] = []
        other = PlayedModel([TextDelta("hi"), end()])
        last = await rt.resume(
            first.run_id, waits, approve={open_call.id}, model=other, on_event=told.append
        )
    assert (first.metrics.cost_usd, last.metrics.cost_usd, last.metrics.usage.total_tokens) == (
        2.0,
        2.0,
        17,
    )
    (warning,) = [event for event in told if isinstance(event, events.Warned)]
    assert "once a model was used whose price is not known" in warning.text


async def test_what_a_failed_attempt_is_known_to_have_used_counts_too() -> None:
    async with priced() as rt:
        seen = await watch([says("hi", usage=used(3, 4))], runtime=rt)
        state = await rt.journal.load(seen.result.run_id)
    spent = Usage(input_tokens=100, output_tokens=7)
    at = datetime(2030, 11, 21, tzinfo=UTC)
    state.apply(ModelRequested(at=at, turn=2, attempt=2, spent=spent, spent_usd=107.0))
    assert state.ledger.cost_usd == 114.0
    assert state.ledger.usage == Usage(input_tokens=103, output_tokens=11)
    assert state.ledger.turns == 1
    assert state.spending.by_day["2030-11-21", "script:inline"] == Spending(
        model="script:inline",
        day="2030-11-21",
        responses=0,
        unpriced=0,
        usage=spent,
        cost_usd=107.0,
    )


async def test_the_end_of_a_run_says_what_its_cost_is_made_of() -> None:
    async with priced() as rt:
        seen = await watch([says("hi", usage=used(3, 4))], runtime=rt)
    finished = seen.records[-1].entry
    assert isinstance(finished, RunFinished)
    assert [(part.model, part.responses, part.cost_usd) for part in finished.spending] == [
        ("script:inline", 1, 7.0)
    ]


# ---------------------------------------------------------------- a limit


async def test_a_price_that_nobody_knows_is_refused_before_the_run_where_money_is_limited() -> None:
    async with open_runtime() as rt:
        with pytest.raises(
            AgentError, match=r"price of 'script:inline' is not known.*prices: .*input: "
        ) as caught:
            await rt.run(agent([says("hi")]), "go", limits=Limits(cost_usd=1))
        assert caught.value.kind == "invalid"
        assert not await rt.journal.runs()


async def test_a_model_without_a_price_cannot_take_over_a_session_whose_runs_are_limited() -> None:
    async with priced(DOLLAR_A_TOKEN, "script:inline") as rt:
        limited = agent([says("hi"), says("again")], limits=Limits(cost_usd=1000))
        session = rt.session("s", agent=limited)
        assert (await session.send("go")).success
        session.use(model=PlayedModel([TextDelta("hi"), end()]))
        with pytest.raises(AgentError, match="price of 'played:model' is not known"):
            await session.send("go")


async def test_a_run_does_not_ask_again_once_its_money_is_spent() -> None:
    async with priced() as rt:
        model = ScriptedModel([asks(call("look"), usage=used(30, 5)) for _ in range(9)])
        seen = await watch(
            model,
            gives("look"),
            runtime=rt,
            limits=Limits(cost_usd=100),
            settings=Settings(max_tokens=5),
        )
    assert seen.outcome == "cost_limit"
    assert seen.result.metrics.cost_usd == 35.0 * len(model.requests)
    assert seen.result.metrics.cost_usd < 100


async def test_the_output_is_clamped_to_what_is_left_and_an_answer_cut_by_that_names_the_money() -> (
    None
):
    async with priced(Price(input=0, output=1_000_000)) as rt:
        model = ScriptedModel([says("This is lo", stop="max_tokens", usage=used(10, 40))])
        seen = await watch(model, runtime=rt, limits=Limits(cost_usd=40, tokens=100_000))
    assert model.requests[0].settings.max_tokens == 40
    assert (seen.outcome, seen.result.text) == ("cost_limit", "This is lo")
    asked = next(
        record.entry for record in seen.records if isinstance(record.entry, ModelRequested)
    )
    assert (asked.max_tokens, asked.clamped_by) == (40, "cost_limit")


async def test_of_two_limits_that_clamp_the_tighter_one_is_the_end() -> None:
    async with priced(Price(input=0, output=1_000_000)) as rt:
        seen = await watch(
            [says("lo", stop="max_tokens", usage=used(10, 40))],
            runtime=rt,
            limits=Limits(cost_usd=5_000, tokens=200),
        )
    assert seen.outcome == "token_limit"


async def test_an_answer_cut_by_the_models_own_setting_is_truncated_also_where_money_is_limited() -> (
    None
):
    async with priced() as rt:
        limits = Limits(cost_usd=1_000_000)
        seen = await watch(
            [says("lo", stop="max_tokens", usage=used(1, 8))],
            runtime=rt,
            limits=limits,
            settings=Settings(max_tokens=8),
        )
    assert seen.outcome == "truncated"


async def test_what_is_free_is_never_too_dear() -> None:
    async with priced(Price(input=0, output=0)) as rt:
        seen = await watch(
            [says("hi", usage=used(10**6, 10**6))], runtime=rt, limits=Limits(cost_usd=0.000001)
        )
    assert (seen.outcome, seen.result.metrics.cost_usd) == ("completed", 0.0)


async def test_a_request_whose_input_alone_is_too_dear_is_not_sent() -> None:
    async with priced(Price(input=1_000_000, output=0)) as rt:
        model = ScriptedModel([says("hi")])
        seen = await watch(model, runtime=rt, prompt="x" * 3_000, limits=Limits(cost_usd=900))
    assert (seen.outcome, model.requests, seen.result.metrics.cost_usd) == ("cost_limit", [], None)


@pytest.mark.usefixtures("store")
async def test_a_run_that_goes_on_keeps_what_it_has_spent_and_its_limit() -> None:
    async with priced() as rt:
        entries = [asks(call("look"), usage=used(30, 5)), says("done", usage=used(30, 5))]
        waits = agent(
            entries,
            gives("look", needs_approval=True),
            limits=Limits(cost_usd=300),
            settings=Settings(max_tokens=5),
        )
        first = await rt.run(waits, "go", on_ask="wait", session="s")
        assert first.outcome == "approval_needed"
        state = await rt.journal.load(first.run_id)
        (open_call,) = state.current.open_calls
        last = await rt.resume(first.run_id, waits, approve={open_call.id})
        assert (last.outcome, last.metrics.cost_usd) == ("completed", 70.0)
        assert (await rt.journal.load(first.run_id)).ledger.limits.cost_usd == 300


@pytest.mark.usefixtures("store")
async def test_a_run_that_had_switched_and_goes_on_with_the_first_model_alone_pays_what_that_one_costs() -> (
    None
):
    def named(name: str, *entries: dict[str, Any]) -> ScriptedModel:
        return ScriptedModel(entries, name=name)

    look, ask = gives("look", needs_approval=True), asks(call("look"), usage=used(1, 0))
    async with open_runtime(
        config=Config(
            prices={"a:1": Price(input=1_000_000, output=0), "b:2": Price(input=0, output=0)}
        )
    ) as rt:
        both = FallbackModel(named("a:1", fails("rate_limit")), named("b:2", ask))
        held = await rt.run(agent(both, look), "go", on_ask="wait")
        (open_call,) = (await rt.journal.load(held.run_id)).current.open_calls
        alone = agent(named("a:1", says("lost"), says("done", usage=used(7, 0))), look)
        done = await rt.resume(held.run_id, alone, approve={open_call.id})
        spending = (await rt.journal.info(held.run_id)).spending
    assert (held.metrics.cost_usd, done.text, done.metrics.cost_usd) == (0.0, "done", 7.0)
    assert [(part.model, part.cost_usd) for part in spending] == [("b:2", 0.0), ("a:1", 7.0)]


class Greedy(ScriptedModel):
    """Takes all the output that it may, and as many tokens of input as its new text can be; calls a
    tool in each turn but the last.
    """

    def __init__(self, turns: int) -> None:
        super().__init__([])
        self._turns, self._context = turns, 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        messages = list(request.messages)
        new = messages[
            next(
                (n for n in range(len(messages), 0, -1) if messages[n - 1].role == "assistant"), 0
            ) :
        ]
        tokens = self._context + sum(len(message.to_json()) for message in new) // BYTES_PER_TOKEN
        usage = used(tokens, request.settings.max_tokens or 0)
        self._context = sum(usage.values())
        answer = (
            says("ok", usage=usage)
            if len(self.requests) == self._turns
            else asks(call("look", at=len(self.requests)), usage=usage)
        )
        async for delta in ScriptedModel([answer]).stream(request):
            yield delta


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(0, 900),
    st.integers(1, 80),
    st.integers(50, 9_000),
    st.integers(0, 3),
    st.integers(0, 3),
)
async def test_no_run_spends_more_than_its_limit(
    turns: int, result: int, wanted: int, limit: int, usd_in: int, usd_out: int
) -> None:
    price = Price(input=usd_in * 1e6, output=usd_out * 1e6)
    async with priced(price) as rt:
        seen = await watch(
            Greedy(turns),
            gives("look", "y" * result),
            runtime=rt,
            limits=Limits(cost_usd=limit),
            settings=Settings(max_tokens=wanted),
        )
    assert (seen.result.metrics.cost_usd or 0) <= limit
    assert seen.outcome in ("completed", "cost_limit")
