"""`/mcp`: each call is made for whoever brings the token of its request, whatever session it comes
in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.at_hand import PASSWORD, AtHand, bearer, opened, problem

VERSION = "2025-06-18"
ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
HELLO = {
    "protocolVersion": VERSION,
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


async def asked(
    hand: AtHand, headers: dict[str, str], method: str, params: dict[str, Any]
) -> httpx2.Response:
    return await hand.http.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={**ACCEPT, **headers},
    )


async def session_of(hand: AtHand, headers: dict[str, str]) -> dict[str, str]:
    """Headers of a session that this person has opened."""
    answer = await asked(hand, headers, "initialize", HELLO)
    assert answer.status_code == 200, answer.text
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (
        await hand.http.post("/mcp", json=ready, headers={**ACCEPT, **headers, **session})
    ).status_code == 202
    return session


async def listed(hand: AtHand, headers: dict[str, str], session: dict[str, str]) -> httpx2.Response:
    return await asked(
        hand, {**headers, **session}, "tools/call", {"name": "list_tasks", "arguments": {}}
    )


def answered(answer: httpx2.Response) -> dict[str, Any]:
    """The result in it, which may come as an event."""
    assert answer.status_code == 200, answer.text
    text = answer.text
    line = next(
        (
            line.removeprefix("data:")
            for line in text.splitlines()
            if line.startswith("data:") and "result" in line
        ),
        text,
    )
    return json.loads(line)["result"]


async def test_everybody_meets_their_own_tasks(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        ada, bob = await hand.registered("ada"), await hand.registered("bob")
        await hand.http.post("/tasks", json={"title": "Canary of Ada"}, headers=ada)
        adas, bobs = await session_of(hand, ada), await session_of(hand, bob)
        assert "Canary of Ada" in json.dumps(answered(await listed(hand, ada, adas)))
        assert answered(await listed(hand, bob, bobs))["structuredContent"]["data"]["total"] == 0


async def test_a_session_of_somebody_else_is_not_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        ada, bob = await hand.registered("ada"), await hand.registered("bob")
        await hand.http.post("/tasks", json={"title": "Canary of Ada"}, headers=ada)
        adas = await session_of(hand, ada)
        stolen = await listed(hand, bob, adas)
        assert stolen.status_code == 404
        assert "Canary" not in stolen.text
        assert "Canary of Ada" in (await listed(hand, ada, adas)).text


async def test_each_request_of_a_session_needs_a_token_that_is_still_good(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        ada = await hand.registered("ada")
        adas = await session_of(hand, ada)
        problem(await listed(hand, {}, adas), 401)
        assert (await hand.http.post("/auth/logout", headers=ada)).status_code == 204
        problem(await listed(hand, ada, adas), 401)


async def test_what_a_client_says_of_a_user_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        ada, bob = await hand.registered("ada"), await hand.registered("bob")
        await hand.http.post("/tasks", json={"title": "Canary of Ada"}, headers=ada)
        bobs = await session_of(hand, bob)
        answer = await asked(
            hand,
            {**bob, **bobs, "X-User-Id": "ada"},
            "tools/call",
            {"name": "list_tasks", "arguments": {"user_id": "ada"}},
        )
        assert answered(answer)["isError"]
        assert "Canary" not in answer.text


async def test_one_person_cannot_take_all_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.service.mcp_endpoint.SESSIONS_OF_PERSON", 2)
    async with opened(tmp_path) as hand:
        ada, bob = await hand.registered("ada"), await hand.registered("bob")
        first, _ = [await session_of(hand, ada) for _ in range(2)]
        refused = await asked(hand, ada, "initialize", HELLO)
        assert "sessions" in problem(refused, 429)
        assert int(refused.headers["retry-after"]) > 0
        assert answered(await listed(hand, ada, first))
        assert await session_of(hand, bob)


async def test_many_people_of_one_address_cannot_take_all_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8."""
    monkeypatch.setattr("treadle.service.mcp_endpoint.SESSIONS_OF_NETWORK", 2)
    async with opened(tmp_path, proxies=["127.0.0.1"]) as hand:
        people = [await hand.registered(name) for name in ("ada", "bob", "cat")]
        there = [{**one, "X-Forwarded-For": f"2001:db8::{n}"} for n, one in enumerate(people)]
        first, _ = [await session_of(hand, one) for one in there[:2]]
        refused = await asked(hand, there[2], "initialize", HELLO)
        assert "your address" in problem(refused, 429)
        assert answered(await listed(hand, there[0], first))
        assert await session_of(hand, {**people[2], "X-Forwarded-For": "2001:db8:0:1::1"})


async def test_accounts_of_one_registration_share_their_sessions_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8: accounts that were registered from one network, and used from many."""
    monkeypatch.setattr("treadle.service.mcp_endpoint.SESSIONS_OF_REGISTRATION", 2)

    def at(address: str) -> dict[str, str]:
        return {"X-Forwarded-For": address}

    async with opened(tmp_path, proxies=["127.0.0.1"]) as hand:

        async def registered(name: str, address: str) -> dict[str, str]:
            answer = await hand.http.post(
                "/auth/register",
                json={"username": name, "password": PASSWORD},
                headers=at(address),
            )
            return bearer(answer.json()["access_token"])

        ada, bob, cat = [
            await registered(name, f"2001:db8:0:{n}::1")
            for n, name in enumerate(("ada", "bob", "cat"))
        ]
        dan = await registered("dan", "2001:db8:1::1")
        first = await session_of(hand, {**ada, **at("2001:db8:aaaa::1")})
        await session_of(hand, {**bob, **at("2001:db8:bbbb::1")})
        refused = await asked(hand, {**cat, **at("2001:db8:cccc::1")}, "initialize", HELLO)
        assert "registered from the same network" in problem(refused, 429)
        assert answered(await listed(hand, ada, first))
        assert await session_of(hand, {**dan, **at("2001:db8:cccc::1")})


async def test_where_all_sessions_are_used_the_oldest_idle_one_of_who_has_the_most_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.service.mcp_endpoint.SESSIONS_MOST", 4)
    async with opened(tmp_path) as hand:
        ada, bob, cat = [await hand.registered(name) for name in ("ada", "bob", "cat")]
        bobs = await session_of(hand, bob)
        first, second, third = [await session_of(hand, ada) for _ in range(3)]
        assert answered(await listed(hand, ada, first))
        cats = await session_of(hand, cat)
        assert (await listed(hand, ada, second)).status_code == 404
        for person, session in ((ada, first), (ada, third), (bob, bobs), (cat, cats)):
            assert answered(await listed(hand, person, session))
        assert (
            await hand.http.delete("/mcp", headers={**ACCEPT, **ada, **first})
        ).status_code == 200
        assert await session_of(hand, cat)
        for person, session in ((ada, third), (bob, bobs), (cat, cats)):
            assert answered(await listed(hand, person, session))


async def test_a_session_of_somebody_else_is_not_kept_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.service.mcp_endpoint.SESSIONS_MOST", 2)
    async with opened(tmp_path) as hand:
        ada, bob = await hand.registered("ada"), await hand.registered("bob")
        older, newer = [await session_of(hand, ada) for _ in range(2)]
        assert (await listed(hand, bob, older)).status_code == 404
        assert await session_of(hand, bob)
        assert (await listed(hand, ada, older)).status_code == 404
        assert answered(await listed(hand, ada, newer))
