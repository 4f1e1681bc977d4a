"""What reaches the service before and around a sign-in: cookies, refreshes, tokens, addresses and
sessions, in ever other spellings and orders (B7, B8, B9, C4, C12).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import jwt
import pytest

from tests.attacks import SEEDS, chance
from tests.service.at_hand import PASSWORD, AtHand, bearer, later, opened
from tests.service.chatting import KEY
from tests.service.test_mcp_endpoint import ACCEPT, HELLO, asked
from treadle.service.auth import COOKIE

BLANKS = (
    "\x85",
    "\xa0",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1f",
    "\u2000",
    "\u3000",
    "\ufeff",
    "\xad",
    '"',
    "$",
)
"""Characters that some parsers drop around the name of a cookie. Browsers do not take a name with one
of them for one with the prefix `__Host-`.
"""


async def account(hand: AtHand, name: str, **headers: str) -> str:
    """Register somebody and return the value of their cookie. The client forgets it."""
    answer = await hand.http.post(
        "/auth/register", json={"username": name, "password": PASSWORD}, headers=headers
    )
    assert answer.status_code == 201, answer.text
    (cookie,) = [one.value for one in hand.http.cookies.jar]
    hand.http.cookies.clear()
    return cookie or ""


def planted(random: Random, name: str, value: str) -> str:
    """A cookie that another page of the host, or a sibling domain, can set."""
    odd = random.choice(BLANKS) * random.randint(1, 3)
    return random.choice(
        [
            f"{odd}{name}={value}",
            f"{name}{odd}={value}",
            f"{odd}{name}{odd}={value}",
            f"x{name}={value}",
            f"{name.swapcase()}={value}",
            f"={name}={value}",
            f'x="; {odd}{name}={value}; "',
            f"{name.removeprefix('__Host-')}_={value}",
            f"{name}%20={value}",
            f"$Path=/; {name}{odd}={value}",
        ]
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_cookie_of_another_spelling_signs_anybody_in(tmp_path: Path, seed: int) -> None:
    random = chance(seed, "cookies")
    async with opened(tmp_path, public_url="https://tasks.example") as hand:
        mallory, ada = await account(hand, "mallory"), await account(hand, "ada")
        own = f"__Host-{COOKIE}={ada}"
        for _ in range(20):
            theirs = [
                planted(random, f"__Host-{COOKIE}", mallory) for _ in range(random.randint(1, 3))
            ]
            lines = [*theirs, own] if random.random() < 0.5 else [own, *theirs]
            for line, mine in (("; ".join(theirs), False), ("; ".join(lines), True)):
                sent = [(b"cookie", line.encode(random.choice(["utf-8", "latin-1"]), "replace"))]
                answer = await hand.http.post("/auth/refresh", headers=sent)
                assert answer.status_code == 401 or mine, line
                if answer.status_code == 200:
                    ada = next(one.value or "" for one in hand.http.cookies.jar)
                    own = f"__Host-{COOKIE}={ada}"
                    subjects = [
                        jwt.decode(token, options={"verify_signature": False})["sub"]
                        for token in (ada, mallory)
                    ]
                    assert subjects[0] != subjects[1], line
                hand.http.cookies.clear()


@pytest.mark.parametrize("seed", SEEDS)
async def test_lost_and_repeated_refreshes_sign_nobody_out_and_old_cookies_nobody_in(
    tmp_path: Path, seed: int
) -> None:
    random = chance(seed, "refreshes")
    async with opened(tmp_path) as hand:
        tokens, ended = [await account(hand, "ada")], False
        """Those that were given out, the newest last."""
        for _ in range(12):
            waits = random.random() < 0.3
            if waits:
                await later(hand.service)
            age = random.choice([0, 0, 0, 1, 1, 2])
            used = tokens[-1 - min(age, len(tokens) - 1)]
            age = tokens[::-1].index(used)
            answer = await hand.http.post("/auth/refresh", headers={"Cookie": f"{COOKIE}={used}"})
            given = next((one.value or "" for one in hand.http.cookies.jar), "")
            hand.http.cookies.clear()
            is_fine = not ended and (age == 0 or (age == 1 and not waits))
            assert (answer.status_code == 200) is is_fine, (age, waits)
            ended = not is_fine
            if age == 0 and is_fine:
                tokens.append(given)
            elif is_fine:
                assert nonce(given) == nonce(tokens[-1])
                tokens[-1] = given


def nonce(token: str) -> str:
    return jwt.decode(token, options={"verify_signature": False})["jti"]


def forged(random: Random, good: str) -> str:
    """A value of the Authorization header that is none of a login."""
    claims = jwt.decode(good, options={"verify_signature": False})
    changed = {
        **claims,
        random.choice(["sub", "sid", "aud", "iss", "jti"]): random.choice(["", "x"]),
    }
    head, body, signature = good.split(".")
    odd = random.choice(["=", "A", "é", "\x00", " x"])
    return random.choice(
        [
            f"Bearer {head}.{body}.",
            f"Bearer {head}.{body}.{signature[::-1]}",
            f"Bearer {jwt.encode(claims, '', algorithm='none')}",
            f"Bearer {jwt.encode(claims, 'k' * 32, algorithm='HS256')}",
            f"Bearer {jwt.encode(claims, KEY * 2, algorithm='HS512')}",
            f"Bearer {jwt.encode({**claims, 'exp': 1}, KEY, algorithm='HS256')}",
            f"Bearer {jwt.encode({**claims, 'aud': 'refresh'}, KEY, algorithm='HS256')}",
            f"Bearer {jwt.encode({k: v for k, v in claims.items() if k != 'sid'}, KEY)}",
            f"Bearer {good}{odd}",
            f"Basic {good}",
            f"{good}",
            f"Bearer {good}, Bearer {good}",
            "Bearer " + "a." * random.randint(0, 3_000),
            f"Bearer {jwt.encode({**changed, 'iss': 'x'}, KEY)}",
            f"Bearer {jwt.encode(changed, 'k' * 32)}",
            "Bearer",
        ]
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_header_lifts_the_limit_of_an_address(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.service.limits.STRANGERS_PER_MINUTE", 6)
    random = chance(seed, "tokens")
    paths = ("/nowhere", "/tasks", "/auth/refresh", "/v1/models", "/openapi.json", "/%2e%2e/x")
    async with opened(tmp_path) as hand:
        good = (await hand.registered("ada"))["Authorization"].removeprefix("Bearer ")
        hand.http.cookies.clear()
        statuses = Counter[int]()
        for _ in range(30):
            headers = [(b"authorization", forged(random, good).encode("latin-1", "replace"))]
            if random.random() < 0.2:
                headers.append((b"x-forwarded-for", b"9.9.9.%d" % random.randint(1, 9)))
            method = random.choice(["GET", "POST", "OPTIONS", "HEAD"])
            answer = await hand.http.request(method, random.choice(paths), headers=headers)
            assert answer.status_code < 500, answer.text
            statuses[answer.status_code] += 1
        assert statuses[429] >= 15, statuses
        assert (await hand.http.get("/tasks", headers=bearer(good))).status_code == 200


def chain(random: Random) -> list[tuple[bytes, bytes]]:
    """Lines of X-Forwarded-For as a client behind a trusted proxy sends them; the proxy adds the last
    address.
    """
    piece = [
        "1.2.3.4",
        "::1",
        "127.0.0.1",
        "unknown",
        "_x",
        "",
        " ",
        '"[2001:db8::1]:4711"',
        "é",
        "a" * 300,
    ]
    lines = [
        ", ".join(random.choice(piece) for _ in range(random.randint(0, 5)))
        for _ in range(random.randint(0, 3))
    ]
    spelled = random.choice(
        [
            "6.6.6.6",
            "6.6.6.6:{}",
            " 6.6.6.6 ",
            '"6.6.6.6:{}"',
            "6.6.6.6 , 127.0.0.1",
            "::ffff:6.6.6.6",
        ]
    )
    lines.append(spelled.format(random.randint(1, 65_000)))
    if random.random() < 0.5:
        lines = [", ".join(lines)]
    found = [(b"x-forwarded-for", line.encode("utf-8")) for line in lines]
    for name in (b"x-real-ip", b"forwarded", b"x_forwarded_for", b"x-forwarded-host", b"client-ip"):
        if random.random() < 0.3:
            found.append((name, b"9.9.9.%d" % random.randint(1, 250)))
    return found


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_client_behind_a_proxy_is_one_whatever_it_says_of_itself(
    tmp_path: Path, seed: int
) -> None:
    random, wrong = chance(seed, "chains"), {"username": "nobody", "password": "12345678"}
    async with opened(tmp_path, proxies=("127.0.0.1",)) as hand:
        statuses = Counter[int]()
        for _ in range(14):
            answer = await hand.http.post("/auth/login", json=wrong, headers=chain(random))
            statuses[answer.status_code] += 1
    assert statuses == {401: 10, 429: 4}


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_order_of_sessions_takes_those_of_others(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounts of one network open, use and end sessions of `/mcp` in any order, and spell their
    requests in any way.
    """
    random, most = chance(seed, "sessions"), 4
    limited = random.choice(["SESSIONS_OF_NETWORK", "SESSIONS_OF_REGISTRATION"])
    monkeypatch.setattr(f"treadle.service.mcp_endpoint.{limited}", most)
    monkeypatch.setattr("treadle.service.mcp_endpoint.SESSIONS_MOST", 8)
    networks = 1 if limited == "SESSIONS_OF_NETWORK" else 9
    async with opened(tmp_path, proxies=["127.0.0.1"]) as hand:
        evil = [await hand.registered_from(f"evil{number}", "2001:db8::1") for number in range(3)]
        ada = {**await hand.registered_from("ada", "2001:db9::1"), "X-Forwarded-For": "2001:db9::1"}
        opened_by_ada = (await asked(hand, ada, "initialize", HELLO)).headers["mcp-session-id"]
        begun, sessions = 0, [""]
        for _ in range(30):
            there = f"2001:db8:0:{random.randrange(networks)}::{random.randint(1, 9):x}"
            headers = {**ACCEPT, **random.choice(evil), "X-Forwarded-For": there}
            match random.randint(0, 5):
                case 0:
                    headers["Mcp-Session-Id"] = random.choice([*sessions, "x", opened_by_ada])
                case 1:
                    headers["MCP-Protocol-Version"] = random.choice(
                        ["2024-11-05", "2025-03-26", "2099-01-01", "", "x", "2025-06-18"]
                    )
                case 2:
                    headers.pop("MCP-Protocol-Version")
                case _:
                    pass
            method = "POST" if random.random() < 0.8 else random.choice(["DELETE", "PUT"])
            opens = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            odd = [{**opens, "params": {}}, [opens], {**opens, "method": "tools/list"}, {}]
            body = opens if random.random() < 0.7 else random.choice(odd)
            answer = await hand.http.request(
                method,
                "/mcp",
                content=json.dumps(body),
                headers={**headers, "Content-Type": "application/json"},
            )
            assert answer.status_code < 500 or answer.status_code == 501, answer.text
            if (session := answer.headers.get("mcp-session-id")) and session not in sessions:
                begun += answer.status_code < 400
                sessions.append(session)
        assert begun <= most
        ask = {"Mcp-Session-Id": opened_by_ada, **ada}
        assert (await asked(hand, ask, "tools/list", {})).status_code == 200
        assert (await asked(hand, ada, "initialize", HELLO)).status_code == 200
