"""What all people together may use: counted in the database, reserved before it is used, and told
when it is used up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlmodel import Session, select

from tests.service.at_hand import PASSWORD, AtHand, opened, problem
from tests.service.chatting import ObedientModel, Person, Served, said, serving, signed_in
from tests.service.database.postgres import postgres_server, postgres_urls
from tests.service.database.ready import ready_url
from tests.service.test_replicas import Places, at_hand, in_folder, work
from treadle.agents.agent import Agent
from treadle.apps.assistant.application import SHARE
from treadle.config import Price
from treadle.service import shares, totals
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import Reserved, Spent, SpentByAll
from treadle.service.problems import HttpProblem
from treadle.service.queueing import account
from treadle.service.running import decide, open_calls, start_run
from treadle.service.shares import look
from treadle.service.spending import RunSpending
from treadle.service.state import Service
from treadle.tools.approval import Approve
from treadle.types import Limits, new_id

TASKS = Agent(name="tasks", model=ObedientModel(), limits=Limits(turns=16))

pytestmark = pytest.mark.anyio
__all__ = ["postgres_server", "postgres_urls"]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        ready_url(tmp_path / "service.db")
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_urls")("database")
    )


async def two(stack: AsyncExitStack, folder: Path, database: str, **caps: Any) -> list[AtHand]:
    """Two services over one database, as two processes would be."""
    folders = [folder / name for name in ("here", "there")]
    for one in folders:
        one.mkdir(exist_ok=True)
    return [
        await stack.enter_async_context(opened(one, database=database, limits={"totals": caps}))
        for one in folders
    ]


async def values(hand: AtHand, name: str) -> Mapping[str, float]:
    families = {
        family.name: family
        for family in text_string_to_metric_families((await hand.http.get("/metrics")).text)
    }
    return {
        next(iter(sample.labels.values())): sample.value
        for sample in families[name].samples
        if not sample.name.endswith("_created")
    }


# ---------------------------------------------------------------- accounts


async def test_accounts_of_an_hour_are_limited_for_all_addresses_and_processes(
    tmp_path: Path, database: str
) -> None:
    statuses: Counter[int] = Counter()

    async def register(hand: AtHand, name: str) -> None:
        answer = await hand.http.post(
            "/auth/register", json={"username": name, "password": PASSWORD}
        )
        statuses[answer.status_code] += 1
        if answer.status_code == 503:
            assert "accounts" in problem(answer, 503)
            assert 3000 < int(answer.headers["retry-after"]) <= 3601

    async with AsyncExitStack() as stack:
        hands = await two(stack, tmp_path, database, accounts_per_hour=3)
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(register, hands[number % 2], f"name{number}")
        assert statuses == {201: 3, 503: 9}
        assert (await values(hands[0], "treadle_used_by_all"))["accounts"] == 3
        assert (await values(hands[0], "treadle_limit_of_all"))["accounts_per_hour"] == 3
    async with opened(
        tmp_path / "here", database=database, limits={"totals": {"accounts_per_hour": 3}}
    ) as hand:
        await register(hand, "after a restart")
        assert (await values(hand, "treadle_refusals")) == {"all accounts": 1}
    assert statuses == {201: 3, 503: 10}


# ---------------------------------------------------------------- tokens and money


async def test_shares_of_runs_that_begin_at_once_do_not_pass_the_limit_together(
    tmp_path: Path, database: str
) -> None:
    begun, refused = list[str](), list[HttpProblem]()
    over = anyio.Event()

    async def run(hand: AtHand, scope: Scope) -> None:
        try:
            async with hand.service.limits.run(scope, new_id("run"), TASKS) as spending:
                begun.append(spending.reserved_for or "")
                await over.wait()
                spending.count(1000, 0.01)
        except HttpProblem as e:
            refused.append(e)
        if len(begun) + len(refused) == 10:
            over.set()

    async with AsyncExitStack() as stack:
        hands = await two(stack, tmp_path, database, tokens_per_day=3 * SHARE.tokens + 1)
        scopes = [await somebody(hands[0], f"name{number}") for number in range(10)]
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for number, scope in enumerate(scopes):
                    group.start_soon(run, hands[number % 2], scope)
                while len(begun) + len(refused) < 10:
                    await anyio.lowlevel.checkpoint()
                over.set()
        assert len(begun) == 3
        assert [one.status_code for one in refused] == [503] * 7
        used = await hands[1].service.database.read_unscoped(hands[1].service.limits.totals.used)
        assert used[:4] == (3000, pytest.approx(0.03), 0, 0)


async def somebody(hand: AtHand, name: str) -> Scope:
    account_id, _ = await signed_in(hand.service, f"{name} {new_id('x')}"[:64])
    return Scope(Identity(account_id, "token"))


async def test_what_is_reserved_is_told_to_come_back_soon_and_what_is_used_up_tomorrow(
    tmp_path: Path,
) -> None:
    most = SHARE.tokens + 16
    async with (
        serving(tmp_path, totals={"tokens_per_day": most}) as served,
        served.person() as ada,
        served.person("bob") as bob,
    ):
        async with ada.events("POST", "/chat", json=said("wait")) as events:
            run_id = (await anext(events)).data["run_id"]
            await served.model.waits.wait()
            soon = await bob.ask("POST", "/chat", json=said("hello"))
            assert "reserved" in problem(soon, 503)
            assert int(soon.headers["retry-after"]) <= 6
            assert "reserved" in problem(
                await bob.ask("POST", "/runs", json={"agent": "tasks", "prompt": "hello"}), 503
            )
            completion = {"model": "tasks", "messages": [{"role": "user", "content": "hello"}]}
            assert "reserved" in problem_of_v1(
                await bob.ask("POST", "/v1/chat/completions", json=completion)
            )
            assert (
                await served.service.runtime.journal.load(run_id)
            ).ledger.limits.tokens == SHARE.tokens
            served.model.go.set()
            assert [event.kind async for event in events][-1] == "reply"
        assert (await bob.chat("hello"))["response"]
        await served.service.database.run_unscoped(_all_but(most, totals.LEAST_TOKENS - 1))
        tomorrow = await bob.ask("POST", "/chat", json=said("hello"))
        assert "tomorrow" in problem(tomorrow, 503)
        assert 0 < int(tomorrow.headers["retry-after"]) <= 86_401
    async with (
        serving(tmp_path, totals={"tokens_per_day": most}) as served,
        served.person("cat") as cat,
    ):
        problem(await cat.ask("POST", "/chat", json=said("hello")), 503)
        assert await cat.ask("GET", "/conversations")


def problem_of_v1(answer: Any) -> str:
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    return answer.json()["error"]["message"]


def _all_but(most: int, left: int) -> Any:
    def work(session: Session) -> None:
        row = session.exec(select(SpentByAll)).one()
        row.tokens = most - left
        session.add(row)

    return work


async def test_money_is_limited_likewise(tmp_path: Path) -> None:
    async with opened(tmp_path, limits={"totals": {"cost_usd_per_day": 0.5}}) as hand:
        limits, scope = hand.service.limits, await somebody(hand, "ada")
        async with (
            limits.run(scope, "run_1", TASKS) as first,
            limits.run(scope, "run_2", TASKS) as second,
        ):
            with pytest.raises(HttpProblem, match="reserved"):
                await limits.run(scope, "run_3", TASKS).__aenter__()
            first.count(1, 0.25)
            second.count(1, 0.2)
        async with limits.run(scope, "run_3", TASKS) as last:  # alone, with what is left
            last.count(1, 0.1)
        with pytest.raises(HttpProblem, match="tomorrow") as caught:
            await limits.run(scope, "run_4", TASKS).__aenter__()
        assert caught.value.status_code == 503
        used = await values(hand, "treadle_used_by_all")
        assert used["cost_usd"] == pytest.approx(0.55)
        assert used["reserved_usd"] == 0


async def test_a_limit_below_the_least_share_lets_runs_begin_one_at_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path, totals={"tokens_per_day": 20}) as served, served.person() as ada:
        assert [
            (await ada.ask("POST", "/chat", json=said("hello"))).status_code for _ in range(3)
        ] == [200, 200, 503]


async def test_a_run_is_limited_to_the_money_that_is_left_where_prices_are_known(
    tmp_path: Path,
) -> None:
    (tmp_path / "unpriced").mkdir()
    async with (
        serving(
            tmp_path,
            totals={"cost_usd_per_day": 0.2},
            prices={"test:obedient": Price(input=1, output=1)},
        ) as served,
        served.person() as ada,
    ):
        assert (await limits_of(served, ada)).cost_usd == pytest.approx(0.2)
        await served.service.database.run_unscoped(
            partial(served.service.limits.totals.settle, run_id=None, tokens=1, cost_usd=0.15)
        )
        assert 0.04 < ((await limits_of(served, ada)).cost_usd or 0) <= 0.05
        await served.service.database.run_unscoped(
            partial(served.service.limits.totals.settle, run_id=None, tokens=1, cost_usd=0.045)
        )
        assert "tomorrow" in problem(await ada.ask("POST", "/chat", json=said("hello")), 503)
    async with (
        serving(tmp_path / "unpriced", totals={"cost_usd_per_day": 0.2}) as served,
        served.person() as ada,
    ):
        found = await limits_of(served, ada)
        assert (found.tokens, found.cost_usd) == (SHARE.tokens, None)


async def limits_of(served: Served, person: Person) -> Limits:
    """Of a run of the task assistant, as it was begun."""
    await person.chat("hello")
    newest = (await person.ask("GET", "/runs")).json()[0]["run_id"]
    return (await served.service.runtime.journal.load(newest)).ledger.limits


# ---------------------------------------------------------------- shares


async def reserved(service: Service) -> list[str]:
    return await service.database.read_unscoped(
        lambda session: [*session.exec(select(Reserved.run_id)).all()]
    )


async def test_a_share_of_a_run_that_nobody_knows_is_free_in_time_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, limits={"totals": {"tokens_per_day": SHARE.tokens}}) as hand:
        limits, scope = hand.service.limits, await somebody(hand, "ada")

        def reserve(session: Session) -> None:
            limits.totals.reserve(session, new_id("run"), TASKS)

        await hand.service.database.run(scope, reserve)  # its process dies
        monkeypatch.setattr(shares, "UNSEEN_S", -1.0)
        await look(hand.service)
        with pytest.raises(HttpProblem, match="reserved"):
            await hand.service.database.run(scope, reserve)
        await hand.service.database.run_unscoped(_long_ago)
        with pytest.raises(HttpProblem, match="reserved"):
            await hand.service.database.run(scope, reserve)
        await look(hand.service)
        await hand.service.database.run(scope, reserve)
        assert len(await reserved(hand.service)) == 1


def _long_ago(session: Session) -> None:
    """As if every share had been reserved yesterday, and nobody had renewed it."""
    for row in session.exec(select(Reserved)):
        row.day, row.expires_at = row.day - timedelta(days=1), row.expires_at - timedelta(days=1)
        session.add(row)


async def test_a_share_lasts_while_its_run_is_queued_and_counts_once_when_a_worker_has_driven_it(
    tmp_path: Path,
) -> None:
    places = Places(*in_folder(tmp_path))
    async with at_hand(places, queue="default") as (service, ada), work(places) as runtime:
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        run_id = await start_run(service, ada.scope, walker, "walk 1", {})
        for _ in range(2):
            await service.database.run_unscoped(_long_ago)
            await look(service)
            assert await reserved(service) == [run_id]
            assert (
                await service.database.read_unscoped(service.limits.totals.used)
            ).reserved_tokens == totals.AGENT.tokens
        await runtime.resume(run_id)
        await service.database.run_unscoped(_long_ago)
        await look(service)
        await account(service, ada.scope)
        await look(service)
        used = await service.database.read_unscoped(service.limits.totals.used)
        assert (used.tokens, used.reserved_tokens) == (10, 0)
        assert await service.database.read(
            ada.scope, lambda session: session.exec(select(Spent.tokens)).all()
        ) == [10]


async def test_what_two_processes_count_for_one_run_counts_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        limits, scope, run_id = hand.service.limits, await somebody(hand, "ada"), new_id("run")
        async with limits.run(scope, run_id, TASKS) as spending:
            spending.count(7)
            settled = RunSpending()
            settled.count(7)
            await hand.service.database.run(
                scope, partial(limits.count, scope=scope, spending=settled, run_id=run_id)
            )
        assert (await hand.service.database.read_unscoped(limits.totals.used)).tokens == 7


async def test_a_queued_run_that_waits_for_a_person_gives_its_share_back_and_takes_it_again(
    tmp_path: Path,
) -> None:
    places = Places(*in_folder(tmp_path))
    async with at_hand(places, queue="default") as (service, ada), work(places) as runtime:
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        run_id = await start_run(service, ada.scope, walker, "launch it", {})
        waits = await runtime.resume(run_id)
        assert waits.waiting
        await service.database.run_unscoped(_long_ago)
        await look(service)
        used = await service.database.read_unscoped(service.limits.totals.used)
        assert (used.tokens, used.reserved_tokens) == (5, 0)
        run = await service.database.read(
            ada.scope, lambda session: ConversationStore(session, ada.scope).run(run_id)
        )
        assert run is not None
        (call_id,) = (await open_calls(service, run_id))[0]
        await decide(service, ada.scope, run, call_id, Approve())
        assert await reserved(service) == [run_id]


async def test_queued_runs_leave_half_of_the_day_to_others(tmp_path: Path) -> None:
    caps = {"tokens_per_day": 5 * totals.AGENT.tokens}
    async with at_hand(Places(*in_folder(tmp_path)), queue="default", totals=caps) as (
        service,
        ada,
    ):
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        for _ in range(2):
            await start_run(service, ada.scope, walker, "walk 1", {})
        with pytest.raises(HttpProblem, match="reserved") as caught:
            await start_run(service, ada.scope, walker, "walk 1", {})
        assert caught.value.status_code == 503
        async with service.limits.run(ada.scope, new_id("run"), walker):
            assert len(await reserved(service)) == 3


# ---------------------------------------------------------------- cancelled runs


@pytest.mark.parametrize("agent", ["tasks", "greeter"])
async def test_a_cancelled_request_counts_as_the_estimate_of_its_input(
    tmp_path: Path, agent: str
) -> None:
    greeter = Agent(
        name="greeter", model=ObedientModel(), instructions="Greet them with care. " * 10
    )
    async with serving(tmp_path, agents=[greeter]) as served, served.person() as ada:
        model = served.model if agent == "tasks" else cast("ObedientModel", greeter.model)
        answer = await ada.ask("POST", "/runs", json={"agent": agent, "prompt": "hang"})
        run_id = answer.json()["run_id"]
        await model.waits.wait()
        async with ada.events("GET", f"/runs/{run_id}/events") as events:
            assert (await ada.ask("POST", f"/runs/{run_id}/cancel")).status_code == 202
            assert [event.kind async for event in events][-1] in ("run_end", "reply")
        service, scope = served.service, Scope(Identity(ada.user_id, "token"))
        with anyio.fail_after(20):
            while await reserved(service):
                await anyio.lowlevel.checkpoint()
        (mine,) = await service.database.read(
            scope, lambda session: session.exec(select(Spent.tokens)).all()
        )
        assert 20 < mine < 20_000
        assert (await service.database.read_unscoped(service.limits.totals.used)).tokens == mine
