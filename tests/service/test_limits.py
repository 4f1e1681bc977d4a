"""What one person may use, and what strangers may."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.at_hand import opened, problem
from tests.service.chatting import ObedientModel, signed_in
from treadle.agents.agent import Agent
from treadle.service import limits, windows
from treadle.service.database.scope import Identity, Scope
from treadle.service.limits import UserLimits
from treadle.service.problems import HttpProblem
from treadle.service.spending import RunSpending
from treadle.service.windows import SlidingWindow, network_of
from treadle.types import Limits, new_id

TASKS = Agent(name="tasks", model=ObedientModel(), limits=Limits(turns=16))


def test_a_window_moves_and_says_how_long_to_wait() -> None:
    at = 0.0
    window = SlidingWindow(2, 10, clock=lambda: at)
    assert [window.take("a"), window.take("a"), window.take("a"), window.take("b")] == [0, 0, 10, 0]
    at = 4
    assert window.take("a") == 6
    at = 10.5
    assert [window.take("a"), window.take("a")] == [0, 0]
    assert window.take("a") == 10


def test_a_window_forgets_whom_it_has_not_seen_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "REMEMBERED_MOST", 3)
    window = SlidingWindow(1, 10, clock=lambda: 0)
    for n in range(100):
        window.take(str(n))
    assert len(window._seen) <= 4
    at = 0.0
    window = SlidingWindow(1, 10, clock=lambda: at)
    for n in range(50):
        at = float(n * 11)
        window.take(str(n))
    assert len(window._seen) <= 3


def test_a_household_is_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("::ffff:1.2.3.4") == network_of("1.2.3.4") == "1.2.3.4"
    assert network_of("") == ""


async def test_requests_of_one_person_are_limited_and_nobody_elses(tmp_path: Path) -> None:
    async with opened(tmp_path, limits={"requests_per_minute": 3}) as hand:
        ada, bob = await hand.registered("ada"), await hand.registered("bob")
        answers = [await hand.http.get("/tasks", headers=ada) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert "3 requests a minute" in problem(answers[3], 429)
        assert 0 < int(answers[3].headers["retry-after"]) <= 61
        assert (await hand.http.get("/tasks", headers=bob)).status_code == 200


async def test_strangers_are_limited_by_address_and_machines_that_look_after_us_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STRANGERS_PER_MINUTE", 5)
    async with opened(tmp_path) as hand:
        headers = await hand.registered()  # one
        assert [(await hand.http.get("/nowhere")).status_code for _ in range(5)] == [404] * 4 + [
            429
        ]
        problem(await hand.http.get("/tasks", headers={"Authorization": "Bearer guessed"}), 429)
        assert (await hand.http.get("/healthz")).status_code == 200
        assert (await hand.http.get("/tasks", headers=headers)).status_code == 200


async def test_runs_and_streams_have_places_that_are_given_back(tmp_path: Path) -> None:
    async with opened(tmp_path, limits={"runs": 2, "streams": 1}) as hand:
        given, scope, other = (
            hand.service.limits,
            await somebody(hand.service, "ada"),
            await somebody(hand.service, "bob"),
        )
        for place, most in ((partial(running, given), 2), (given.stream, 1)):
            for _ in range(2):
                held = [place(scope) for _ in range(most)]
                for one in held:
                    await one.__aenter__()
                with pytest.raises(HttpProblem) as caught:
                    await place(scope).__aenter__()
                assert caught.value.status_code == 429
                async with place(other):
                    pass
                for one in held:
                    await one.__aexit__(None, None, None)


async def test_all_together_have_places_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RUNS_MOST", 1)
    async with opened(tmp_path) as hand:
        ada, bob = await somebody(hand.service, "ada"), await somebody(hand.service, "bob")
        async with running(hand.service.limits, ada):
            with pytest.raises(HttpProblem) as caught:
                await running(hand.service.limits, bob).__aenter__()
            assert caught.value.status_code == 503


@pytest.mark.parametrize(("tokens", "cost_usd", "word"), [(100, 0.0, "tokens"), (1, 2.5, "USD")])
async def test_what_a_day_has_is_asked_before_a_run_and_counted_after_it(
    tmp_path: Path, tokens: int, cost_usd: float, word: str
) -> None:
    async with opened(tmp_path, limits={"tokens_per_day": 100, "cost_usd_per_day": 2.5}) as hand:
        given, scope = hand.service.limits, await somebody(hand.service, "ada")
        with suppress(ZeroDivisionError):
            async with running(given, scope) as spending:
                spending.count(tokens, cost_usd)
                raise ZeroDivisionError
        with pytest.raises(HttpProblem) as caught:
            await running(given, scope).__aenter__()
        assert caught.value.status_code == 429
        assert word in caught.value.detail
        assert 0 < int((caught.value.headers or {})["Retry-After"]) <= 86_401
        async with running(given, await somebody(hand.service, "bob")):
            pass
    async with opened(tmp_path, limits={"tokens_per_day": 100, "cost_usd_per_day": 2.5}) as hand:
        with pytest.raises(HttpProblem):
            await running(hand.service.limits, scope).__aenter__()


async def test_a_run_that_is_refused_for_money_gives_its_place_back(tmp_path: Path) -> None:
    async with opened(tmp_path, limits={"tokens_per_day": 1, "runs": 1}) as hand:
        scope = await somebody(hand.service, "ada")
        async with hand.service.limits.place(scope) as spending:
            spending.count(1)
        for _ in range(3):
            with pytest.raises(HttpProblem, match="used up"):
                await running(hand.service.limits, scope).__aenter__()


async def test_refusals_are_counted_by_limit(tmp_path: Path) -> None:
    async with opened(tmp_path, limits={"requests_per_minute": 1}) as hand:
        ada = await hand.registered()
        for _ in range(3):
            await hand.http.get("/tasks", headers=ada)
        families = {
            family.name: family
            for family in text_string_to_metric_families((await hand.http.get("/metrics")).text)
        }
        refused = [
            sample
            for sample in families["treadle_refusals"].samples
            if sample.name.endswith("_total")
        ]
        assert [(sample.labels, sample.value) for sample in refused] == [({"limit": "requests"}, 2)]


def running(limits: UserLimits, scope: Scope) -> AbstractAsyncContextManager[RunSpending]:
    return limits.run(scope, new_id("run"), TASKS)


async def somebody(service: object, name: str) -> Scope:
    account_id, _ = await signed_in(service, name)  # pyright: ignore[reportArgumentType]
    return Scope(Identity(account_id, "token"))
