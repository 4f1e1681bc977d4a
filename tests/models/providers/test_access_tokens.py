"""Providers whose tokens a function supplies: called when a request needs one, kept until they
expire, and renewed once when the provider rejects them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from tests.models.providers.loopback import document, proxying, serving
from tests.models.providers.test_openai_chat_model import answer, chunk
from treadle import Agent, Outcome, Runtime, check_history
from treadle.config import AccessToken, Config, Provider, Secret
from treadle.messages.result import RunResult
from treadle.models.providers.access_tokens import AccessTokens

AGENT = Agent(name="a", model="office:m")
GOOD = answer(chunk({"content": "Hello."}))
REJECTED = document({"error": {"message": "the token is no longer valid"}}, status=401)


class Vault:
    """A source of tokens that counts: t1, t2 …"""

    def __init__(self, expires_in_s: float | None = None) -> None:
        self.expires_in_s = expires_in_s
        self.given = 0

    async def __call__(self) -> AccessToken:
        self.given += 1
        await anyio.lowlevel.checkpoint()
        return AccessToken(value=Secret(f"t{self.given}"), expires_in_s=self.expires_in_s)


def office(url: str, token: Callable[[], Awaitable[Any]], **fields: Any) -> Runtime:
    provider = Provider(type="openai-chat", base_url=f"{url}/v1", token=token, **fields)
    return Runtime.open(config=Config(providers={"office": provider}))


async def asked(runtime: Runtime, times: int = 1) -> list[RunResult[str]]:
    async with runtime:
        return [await runtime.run(AGENT, "Hello.") for _ in range(times)]


async def test_a_token_is_fetched_once_for_many_requests() -> None:
    vault = Vault()
    async with serving(GOOD, GOOD) as server:
        first, second = await asked(office(server.url, vault), 2)
    assert (first.text, second.text, vault.given) == ("Hello.", "Hello.", 1)
    assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer t1"] * 2


async def test_a_rejected_token_is_renewed_once() -> None:
    vault = Vault()
    async with serving(REJECTED, GOOD, REJECTED, REJECTED) as server:
        first, second = await asked(office(server.url, vault), 2)
    assert (first.text, second.outcome) == ("Hello.", Outcome.ERROR)
    assert second.error is not None
    assert second.error.kind == "auth"
    assert "token=" in second.error.message
    sent = [seen.headers["authorization"] for seen in server.seen]
    assert sent == [f"Bearer t{n}" for n in (1, 2, 2, 3)]


async def test_a_secret_alone_is_a_token_that_does_not_expire() -> None:
    async def source() -> Secret:
        return Secret("plain")

    async with serving(GOOD) as server:
        (result,) = await asked(office(server.url, source))
    assert result.text == "Hello."
    assert server.seen[0].headers["authorization"] == "Bearer plain"


async def test_a_token_is_replaced_shortly_before_it_expires_and_by_one_task() -> None:
    vault, clock = Vault(expires_in_s=100.0), [0.0]
    tokens = AccessTokens(vault, "office", lambda: clock[0])
    headers = list[str]()

    async def send() -> None:
        async with tokens.authorized(lambda more: Sent(headers, more["authorization"])):  # type: ignore[arg-type, return-value]
            pass

    for clock[0] in (0.0, 69.0, 70.0, 99.0):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(send)
    assert headers == ["Bearer t1"] * 6 + ["Bearer t2"] * 6


class Sent:
    """A request that was sent, and its good answer."""

    status = 200

    def __init__(self, headers: list[str], header: str) -> None:
        headers.append(header)

    async def __aenter__(self) -> Sent:
        return self

    async def __aexit__(self, *error: object) -> None: ...


@pytest.mark.parametrize("returned", ["a text", None, ValueError("hunter2")])
async def test_a_function_that_fails_is_an_error_before_anything_is_sent(returned: object) -> None:
    async def source() -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    async with serving() as server:
        (result,) = await asked(office(server.url, source))
    assert (result.outcome, server.seen) == (Outcome.ERROR, [])
    assert result.error is not None
    assert (result.error.kind, result.error.sent) == ("auth", False)
    assert "token= of the provider 'office'" in result.error.message
    assert "nothing was sent" in result.error.message
    assert "hunter2" not in result.error.message


async def test_a_function_that_hangs_is_given_up_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.models.providers.access_tokens.WITHIN_S", 0.001)
    calls = 0

    async def source() -> Secret:
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep_forever()
        return Secret("t1")

    async with serving(GOOD, GOOD) as server, office(server.url, source) as rt:
        first = await rt.run(AGENT, "Hello.", session="s")
        second = await rt.run(AGENT, "And now?", session="s")
    assert (first.text, first.metrics.retries, second.text) == ("Hello.", 1, "Hello.")
    assert len(server.seen) == 2
    check_history(second.messages)


@pytest.mark.parametrize("fails", [None, ValueError("hunter2")])
async def test_a_run_without_a_token_leaves_a_valid_session(fails: Exception | None) -> None:
    bad = True

    async def source() -> Any:
        if bad and fails is not None:
            raise fails
        return None if bad else Secret("t1")

    async with serving(GOOD) as server, office(server.url, source) as rt:
        failed = await rt.run(AGENT, "Hello.", session="s")
        bad = False
        good = await rt.run(AGENT, "Hello again.", session="s")
    assert (failed.outcome, failed.metrics.usage.total_tokens) == (Outcome.ERROR, 0)
    assert (good.outcome, len(server.seen)) == (Outcome.COMPLETED, 1)
    check_history(good.messages)


async def test_a_provider_has_a_proxy_of_its_own() -> None:
    async with serving(GOOD) as server, proxying() as proxy:
        mine = f"http://127.0.0.1:{proxy.port}"
        (result,) = await asked(office(server.url, Vault(), http_proxy=mine))
    assert result.text == "Hello."
    assert proxy.asked == [f"POST {server.url}/v1/chat/completions"]
