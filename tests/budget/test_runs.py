"""Limits of tokens and money as a run meets them: what an attempt may cost is kept for it, what is
lost counts, and the journal tells the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles import (
    PlayedModel,
    WatchedJournal,
    agent,
    asks,
    call,
    end,
    fails,
    gives,
    open_runtime,
    says,
    watch,
    wishes,
)
from tests.loop.test_costs import priced
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle.config import Price
from treadle.errors import AgentError
from treadle.journal.entries import Entry, ModelRequested
from treadle.journal.run_state import RunState
from treadle.messages import events
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel
from treadle.types import Limits, Settings, Usage


def requested(seen: Any) -> list[ModelRequested]:
    return [record.entry for record in seen.records if isinstance(record.entry, ModelRequested)]


def cut() -> AgentError:
    return AgentError("network", "it was cut")


SHORT = Settings(max_tokens=1_000)


# ---------------------------------------------------------------- what is kept


async def test_what_an_attempt_may_cost_stands_in_the_journal_before_it_is_made() -> None:
    async with priced(Price(input=1_000, output=10_000)) as rt:
        seen = await watch(
            [says("hi")], runtime=rt, limits=Limits(tokens=50_000, cost_usd=1_000), settings=SHORT
        )
    (entry,) = requested(seen)
    assert entry.reserved is not None
    assert (entry.reserved.output_tokens, entry.reserved.output_usd) == (1_000, 10.0)
    assert 0 < entry.reserved.input_tokens < 1_000
    assert entry.reserved.input_usd == entry.reserved.input_tokens / 1_000


async def test_where_no_limit_asks_nothing_is_kept() -> None:
    (entry,) = requested(await watch([says("hi")]))
    assert entry.reserved is None


# ---------------------------------------------------------------- what is lost


async def test_an_attempt_whose_stream_was_cut_counts_as_what_it_may_have_cost() -> None:
    rt = open_runtime()
    model = PlayedModel(
        [TextDelta("half"), cut()],
        [TextDelta("whole"), end(usage=Usage(input_tokens=50, output_tokens=10))],
    )
    seen = await watch(model, runtime=rt, limits=Limits(tokens=10_000), settings=SHORT)
    first, _ = requested(seen)
    assert first.reserved is not None
    assert seen.outcome == "completed"
    left = (await rt.journal.load(seen.result.run_id)).ledger.output_left(10**6)
    # what came is counted, and asked for again
    assert left.tokens == 10_000 - first.reserved.tokens - 60 - 60
    assert seen.result.metrics.usage.total_tokens == 60, (
        "nobody knows what was lost: it is no usage"
    )


@pytest.mark.parametrize("sent", [True, False])
async def test_an_attempt_of_which_nothing_came_counts_where_it_had_left(sent: bool) -> None:
    rt = open_runtime()
    model = PlayedModel(
        [AgentError("network", "no line", sent=sent)],
        [TextDelta("whole"), end(usage=Usage(input_tokens=50, output_tokens=10))],
    )
    seen = await watch(model, runtime=rt, limits=Limits(tokens=10_000), settings=SHORT)
    first, _ = requested(seen)
    assert first.reserved is not None
    left = (await rt.journal.load(seen.result.run_id)).ledger.output_left(10**6)
    assert left.tokens == 10_000 - first.reserved.tokens * sent - 60 - 60


async def test_an_attempt_that_the_provider_refused_costs_nothing() -> None:
    rt = open_runtime()
    seen = await watch(
        ScriptedModel([fails("network", status=503), says("hi")]),
        runtime=rt,
        limits=Limits(tokens=10_000),
        settings=SHORT,
    )
    assert seen.outcome == "completed"
    assert (await rt.journal.load(seen.result.run_id)).ledger.output_left(
        10**6
    ).tokens == 10_000 - 15 - 15


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [(Limits(tokens=1_500), "token_limit"), (Limits(cost_usd=15.0), "cost_limit")],
)
async def test_an_attempt_that_does_not_fit_once_more_is_not_made(
    limits: Limits, outcome: str
) -> None:
    model = PlayedModel([TextDelta("half"), cut()], [TextDelta("never"), end()])
    async with priced(Price(input=1_000, output=10_000)) as rt:
        seen = await watch(model, runtime=rt, limits=limits, settings=SHORT)
    assert (seen.outcome, len(model.requests)) == (outcome, 1)
    assert seen.result.text == "half"


@pytest.mark.usefixtures("store")
async def test_an_attempt_that_was_cut_with_its_process_counts_when_the_run_is_taken_up() -> None:
    rt = open_runtime()
    model = [asks(call("look"), usage={"input_tokens": 100, "output_tokens": 10}), says("done")]
    whole = await watch(
        model, gives("look"), runtime=rt, limits=Limits(tokens=10_000), settings=SHORT
    )
    _, second = requested(whole)
    assert second.reserved is not None
    records = [record for record in await rt.journal.read_bytes(whole.result.run_id)]
    at = [i for i, record in enumerate(whole.records) if isinstance(record.entry, ModelRequested)][
        1
    ]
    other = open_runtime()
    await other.journal.add_run(records[: at + 1])
    result = await other.resume(whole.result.run_id, agent([*model], gives("look")))
    assert result.success
    left = (await other.journal.load(whole.result.run_id)).ledger.output_left(10**6)
    assert left.tokens == 10_000 - 110 - second.reserved.tokens - 15 - 15
    poor = open_runtime()
    await poor.journal.add_run(records[: at + 1])
    ended = await poor.resume(
        whole.result.run_id,
        agent([*model], gives("look")),
        limits=Limits(tokens=110 + second.reserved.tokens + 50),
    )
    assert ended.outcome == "token_limit"


# ---------------------------------------------------------------- near the end


async def test_near_the_end_of_the_tokens_the_model_is_told_and_asked_for_its_answer() -> None:
    model = ScriptedModel(
        [
            asks(call("look", at=i), usage={"input_tokens": 100 + 400 * i, "output_tokens": 300})
            for i in range(9)
        ]
    )
    seen = await watch(model, gives("look"), limits=Limits(tokens=3_000), settings=SHORT)
    assert seen.outcome == "token_limit"
    (warning,) = seen.of(events.LimitWarning)
    assert warning.limit == "tokens"
    assert 0 < warning.left < 3_000
    last = model.requests[-1]
    assert last.settings.tool_choice == "none"
    assert "limit of tokens" in last.messages[-1].text
    assert requested(seen)[-1].last == "token_limit"
    assert seen.result.metrics.usage.total_tokens <= 3_000


async def test_an_answer_in_the_last_turn_that_tokens_allow_is_an_answer() -> None:
    script = [
        asks(call("look"), usage={"input_tokens": 1_000, "output_tokens": 300}),
        says("with what I have", usage={"input_tokens": 1_350, "output_tokens": 50}),
    ]
    seen = await watch(script, gives("look"), limits=Limits(tokens=3_200), settings=SHORT)
    assert (seen.outcome, seen.result.text) == ("completed", "with what I have")
    assert [event.limit for event in seen.of(events.LimitWarning)] == ["tokens"]


async def test_near_the_end_of_the_money_the_model_is_told_and_asked_for_its_answer() -> None:
    model = ScriptedModel(
        [
            asks(call("look", at=i), usage={"input_tokens": 100, "output_tokens": 300})
            for i in range(50)
        ]
    )
    async with priced(Price(input=1_000, output=10_000)) as rt:
        seen = await watch(
            model, gives("look"), runtime=rt, limits=Limits(cost_usd=20.0), settings=SHORT
        )
    assert seen.outcome == "cost_limit"
    (warning,) = seen.of(events.LimitWarning)
    assert warning.limit == "cost_usd"
    assert 0 < warning.left < 20
    assert model.requests[-1].settings.tool_choice == "none"
    assert seen.result.metrics.cost_usd is not None
    assert seen.result.metrics.cost_usd <= 20


# ---------------------------------------------------------------- the journal tells the same

turns = st.lists(
    st.tuples(
        st.sampled_from(["calls", "cut", "refused", "untold", "two calls"]),
        st.integers(0, 400),
        st.integers(0, 400),
    ),
    max_size=8,
)


def played(steps: Sequence[tuple[str, int, int]]) -> PlayedModel:
    script: list[Any] = []
    for number, (what, asked, said) in enumerate(steps):
        usage = Usage(input_tokens=asked + 1, output_tokens=said)
        match what:
            case "cut":
                script.append([TextDelta("half"), cut()])
            case "refused":
                script.append([AgentError("network", "busy", status=503)])
            case "untold":
                script.append([*wishes((f"c{number}", "look", "{}"))[:-1], end(usage=Usage())])
            case _:
                wished = [
                    (f"c{number}{k}", "look", f'{{"at": {number}{k}}}')
                    for k in range(1 + (what == "two calls"))
                ]
                script.append([*wishes(*wished)[:-1], end(usage=usage)])
    return PlayedModel(*script, [TextDelta("done"), end()])


@settings(max_examples=150, deadline=None)
@given(turns, st.none() | st.integers(500, 20_000), st.none() | st.integers(5, 200))
async def test_any_beginning_of_a_journal_comes_to_what_the_run_had_spent_then(
    steps: list[tuple[str, int, int]], tokens: int | None, money: int | None
) -> None:
    journal = WatchedJournal()
    live: dict[int, list[int]] = {}
    async with priced(Price(input=1_000, output=10_000), journal=journal) as rt:

        async def at(entries: Sequence[Entry]) -> None:
            (job,) = rt._runs._jobs.values()  # pyright: ignore[reportPrivateUsage]  the ledger under way is nobody's to see
            state = job.run.state
            live[state.seq] = spent_of(state)

        journal.at = at
        result = await rt.run(
            agent(played(steps), gives("look")),
            "go",
            limits=Limits(tokens=tokens, cost_usd=money, turns=30),
            settings=SHORT,
        )
        records = await journal.read(result.run_id)
    assert live
    again = RunState()
    for record in records:
        again.apply(record.entry)
        if record.seq in live:
            assert spent_of(again) == live[record.seq]


def spent_of(state: RunState) -> list[int]:
    return [*state.ledger._account.spent]  # pyright: ignore[reportPrivateUsage]  likewise
