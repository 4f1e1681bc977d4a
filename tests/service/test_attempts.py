"""Guessing passwords slows down the guesser, and nobody else.

Over real connections, from several addresses of the loopback.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest
from argon2 import PasswordHasher

from tests.service.at_hand import PASSWORD
from tests.service.chatting import PLAIN, Served, serving
from treadle.service import attempts, passwords
from treadle.service.attempts import Attempts
from treadle.service.passwords import Passwords
from treadle.service.problems import HttpProblem

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "darwin", reason="the loopback has one address there"),
]


@asynccontextmanager
async def client(served: Served, address: str = "127.0.0.1") -> AsyncGenerator[httpx2.AsyncClient]:
    transport = httpx2.AsyncHTTPTransport(local_address=address, verify=PLAIN)
    async with httpx2.AsyncClient(base_url=served.url, transport=transport, timeout=60) as http:
        yield http


async def sign_in(
    http: httpx2.AsyncClient, name: str = "ada", password: str = PASSWORD
) -> httpx2.Response:
    return await http.post("/auth/login", json={"username": name, "password": password})


async def register(http: httpx2.AsyncClient, name: str = "ada") -> None:
    assert (
        await http.post("/auth/register", json={"username": name, "password": PASSWORD})
    ).status_code == 201


async def guesses(
    http: httpx2.AsyncClient, number: int, name: str = "ada"
) -> list[httpx2.Response]:
    return [await sign_in(http, name, "a wrong password") for _ in range(number)]


async def test_guesses_from_one_address_lock_the_account_for_no_other(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as served,
        client(served) as ada,
        client(served, "127.0.0.2") as eve,
    ):
        await register(ada)
        assert [answer.status_code for answer in await guesses(eve, 12)] == [401] * 10 + [429] * 2
        assert (await sign_in(ada)).status_code == 200
        assert (await sign_in(eve)).status_code == 429, (
            "also with the right password: that would tell it"
        )
        assert (await sign_in(ada)).status_code == 200


async def test_guesses_from_many_addresses_at_once_lock_nobody_out(tmp_path: Path) -> None:
    statuses: Counter[int] = Counter()

    async def guess(served: Served, address: str) -> None:
        async with client(served, address) as eve:
            statuses.update(answer.status_code for answer in await guesses(eve, 3))

    async with (
        serving(tmp_path, costly_passwords=True) as served,
        client(served) as ada,
        client(served, "127.0.0.250") as elsewhere,
    ):
        await register(ada)
        async with anyio.create_task_group() as group:
            for number in range(2, 22):
                group.start_soon(guess, served, f"127.0.0.{number}")
            assert (await sign_in(ada)).status_code == 200
            assert (await sign_in(elsewhere)).status_code == 200, "an address that was never seen"
    assert statuses == {401: 60}


async def test_an_address_that_tries_many_accounts_is_slowed_down(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as served,
        client(served) as ada,
        client(served, "127.0.0.2") as eve,
    ):
        await register(ada)
        statuses = [(await guesses(eve, 1, f"name{number}"))[0].status_code for number in range(21)]
        assert statuses == [401] * 20 + [429]
        assert (await sign_in(ada)).status_code == 200


async def test_attempts_that_are_under_way_count_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "AT_ONCE", 100)
    statuses: Counter[int] = Counter()

    async def guess(http: httpx2.AsyncClient) -> None:
        statuses.update(answer.status_code for answer in await guesses(http, 1))

    async with (
        serving(tmp_path, costly_passwords=True) as served,
        client(served) as eve,
        anyio.create_task_group() as group,
    ):
        for _ in range(15):
            group.start_soon(guess, eve)
    assert statuses == {401: 10, 429: 5}


async def test_the_right_password_costs_its_owner_nothing_of_what_guesses_may(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as served, client(served) as ada:
        await register(ada)
        for _ in range(3):
            assert [answer.status_code for answer in await guesses(ada, 2)] == [401] * 2
            assert (await sign_in(ada)).status_code == 200
        assert (await sign_in(ada)).status_code == 200


def test_an_attempt_is_let_through_when_retry_after_says_so() -> None:
    at = 1000.0
    limits = Attempts(lambda limit: None)
    limits._of_address._clock = limits._of_pair._clock = lambda: at

    def guess(name: str) -> float:
        try:
            with limits.password("192.0.2.1", name):
                return 0
        except HttpProblem as e:
            return float((e.headers or {})["Retry-After"])

    assert [guess("ada") for _ in range(10)] == [0] * 10
    assert [guess(f"other{number}") for number in range(10)] == [0] * 10
    for name in ("bob", "ada"):
        wait_s = guess(name)
        assert wait_s > 0
        at += wait_s
        assert guess(name) == 0, name


def test_a_household_of_ipv6_is_one_address() -> None:
    limits = Attempts(lambda limit: None)
    for number in range(10):
        with limits.password(f"2001:db8::{number}", "ada"):
            pass
    with pytest.raises(HttpProblem), limits.password("2001:db8::ffff", "ada"):
        pass
    with limits.password("2001:db8:0:1::1", "ada"):
        pass


def test_the_networks_of_one_customer_of_ipv6_count_together() -> None:
    limits, tried = Attempts(lambda limit: None), 0
    with suppress(HttpProblem):
        for number in range(1000):
            with limits.password(f"2001:db8:0:{number:x}::1", f"name{number}"):
                tried += 1
    assert tried == attempts.WIDE_TIMES * attempts.ATTEMPTS_PER_MINUTE
    with pytest.raises(HttpProblem):
        limits.registration("2001:db8:0:ffff::1")
    with limits.password("2001:db8:1::1", "name0"):
        pass
    limits, tried = Attempts(lambda limit: None), 0
    with suppress(HttpProblem):
        for number in range(1000):
            with limits.password(f"2001:db8:0:{number:x}::1", "ada"):
                tried += 1
    assert tried == attempts.WIDE_TIMES * attempts.WRONG_OF_ACCOUNT
    for number in range(200):
        with limits.password(f"192.0.2.{number}", "ada"):
            pass


@pytest.mark.parametrize(
    "addresses", [("9.9.9.1",), ("9.9.9.1", "9.9.9.200"), ("2001:db8::1", "2001:db8:0:7::1")]
)
def test_one_neighbourhood_makes_a_part_of_the_accounts_of_an_hour(
    addresses: tuple[str, ...],
) -> None:
    at = 1000.0
    limits = Attempts(lambda limit: None, accounts_per_hour=100)
    limits._of_address._clock = limits._new_accounts._clock = lambda: at
    made = 0
    for minute in range(50):
        at += 60
        with suppress(HttpProblem):
            limits.registration(addresses[minute % len(addresses)])
            made += 1
    assert made == 20
    limits.registration("9.9.8.1")
    limits.registration("2001:db8:1::1")
    at += 3600
    limits.registration(addresses[0])


def test_what_is_remembered_of_those_who_signed_in_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts, "TRUSTED_MOST", 3)
    limits = Attempts(lambda limit: None)
    for number in range(10):
        with limits.password(f"192.0.2.{number}", "ada") as attempt:
            attempt.succeeded = True
    assert len(limits._trusted) == 3
    assert not limits._under_way


async def test_a_full_queue_of_hashes_is_refused_and_those_who_are_known_do_not_stand_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passwords, "WAITING_MOST", 2)
    hashing, refused = Passwords(), list[HttpProblem]()

    async def strange() -> None:
        try:
            await hashing.fits("a password", None, network="192.0.2.0/24")
        except HttpProblem as e:
            refused.append(e)

    async with anyio.create_task_group() as group:
        for _ in range(passwords.AT_ONCE + 2 + 3):
            group.start_soon(strange)
        await anyio.lowlevel.checkpoint()
        assert not await hashing.fits("a password", None, network="", trusted=True)
    assert [problem.status_code for problem in refused] == [503] * 3
    assert all((problem.headers or {})["Retry-After"] for problem in refused)


async def test_a_network_that_fills_the_queue_of_hashes_keeps_no_other_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passwords, "WAITING_MOST", 6)
    hashing, ends = Passwords(), list[tuple[str, int]]()

    async def guess(network: str) -> None:
        try:
            await hashing.fits("a password", None, network=network)
            ends.append((network, 200))
        except HttpProblem as e:
            ends.append((network, e.status_code))

    async with anyio.create_task_group() as group:
        for network in (*["many"] * (passwords.AT_ONCE + 6), "ada", "bob", "cat"):
            group.start_soon(guess, network)
    assert Counter(ends) == {
        ("many", 200): passwords.AT_ONCE + 3,
        ("many", 503): 3,
        ("ada", 200): 1,
        ("bob", 200): 1,
        ("cat", 200): 1,
    }


async def test_networks_that_wait_for_a_hash_take_turns() -> None:
    hashing, served = Passwords(), list[str]()

    async def guess(network: str) -> None:
        await hashing.fits("a password", None, network=network)
        served.append(network)

    async with anyio.create_task_group() as group:
        for network in (*["many"] * (passwords.AT_ONCE + 20), "ada", "bob"):
            group.start_soon(guess, network)
    assert {"ada", "bob"} <= set(served[: 3 * passwords.AT_ONCE + 2])


async def test_a_request_that_leaves_the_queue_of_hashes_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passwords, "WAITING_MOST", 1)
    hashing = Passwords()
    async with anyio.create_task_group() as group:
        for _ in range(passwords.AT_ONCE):
            group.start_soon(partial(hashing.fits, "a password", None, network="here"))
        with anyio.CancelScope() as left:
            left.cancel()
            await hashing.fits("a password", None, network="here")
        assert left.cancelled_caught
        assert not await hashing.fits("a password", None, network="here")
    for _ in range(passwords.AT_ONCE + 1):
        assert not await hashing.fits("a password", None, network="here")


async def test_an_unknown_name_costs_the_first_time_what_it_costs_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hash that stands in for a missing one is not made by hashing: that would take twice as
    long, once.
    """
    hashing = Passwords()
    made: list[str] = []
    monkeypatch.setattr(PasswordHasher, "hash", lambda self, password: made.append(password))
    assert not await hashing.fits("a password", None, network="")
    assert made == []
    assert not hashing.is_outdated(hashing._unknown)
