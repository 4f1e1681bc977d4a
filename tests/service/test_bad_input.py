"""What people and machines send that is odd, and what is under the service failing: the right
status, one sentence, no detail, nothing lost.

Hosts, tokens, ids and bodies of an attacker: test_http_attacks.py. A model that hangs, and a
process that dies: test_restarts.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from typing_extensions import override

from tests.service.at_hand import PASSWORD, AtHand, opened, problem
from tests.service.database.postgres import PostgresServer, postgres_server, postgres_url
from tests.service.unlimited import unlimited
from treadle.service.problems import OUR_FAULT, TROUBLE

__all__ = ["postgres_server", "postgres_url"]

TEXTS = [
    "'); DROP TABLE task; --",
    '" OR ""="',
    "Robert%' AND 1=1 _ \\",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; &amp; <!-- -->",
    "👩‍👩‍👧‍👦 pack 🇸🇪 ☕️",
    "اشترِ الحليب غداً",
    "קנה חלב \u05d0\u05d1\u05d2",
    "e\u0301te\u0301 vs \u00e9t\u00e9",
    "\U0010fffd\U0001f9ff",
    "../../etc/passwd",
    "${jndi:ldap://127.0.0.1:9/x} {{7*7}} %s %n {0}",
    "x" * 200,
]


@pytest.mark.parametrize("text", TEXTS)
async def test_odd_texts_are_kept_to_the_letter_and_found_again(tmp_path: Path, text: str) -> None:
    async with opened(tmp_path) as hand:
        mine = await hand.registered()
        made = await hand.http.post(
            "/tasks", headers=mine, json={"title": text, "description": text}
        )
        assert made.status_code == 201, made.text
        await hand.http.post("/tasks", headers=mine, json={"title": "another"})
        (found,) = (await hand.http.get("/tasks", headers=mine, params={"search": text})).json()
        assert (found["title"], found["description"]) == (text, text)
        said = (await hand.http.post("/chat", headers=mine, json={"message": f"add {text}"})).json()
        whole = (
            await hand.http.get(f"/conversations/{said['conversation_id']}", headers=mine)
        ).json()
        assert whole["messages"][0]["content"] == f"add {text}"
        assert (await hand.http.get("/healthz")).status_code == 200


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Of one service for all who send long messages."""
    with unlimited(tmp_path_factory.mktemp("unlimited")) as url:
        yield url


@pytest.mark.parametrize("text", ["a", "\u6f22", "👩‍👩‍👧‍👦", "(", "and ", "\u202e", "\u0301"])
async def test_a_message_of_ten_thousand_characters_is_answered_and_one_more_is_refused(
    url: str, text: str
) -> None:
    long = ("add " + text * 10_000)[:10_000]
    person = {"username": f"ada-{ord(text[0])}-{len(text)}", "password": PASSWORD}
    with httpx2.Client(base_url=url, timeout=40) as http:
        token = http.post("/auth/register", json=person).json()["access_token"]
        http.headers["Authorization"] = f"Bearer {token}"
        answer = http.post("/chat", json={"message": long})
        assert answer.status_code == 200, answer.text
        assert answer.elapsed.total_seconds() < 20
        (whole,) = http.get("/conversations").json()
        assert http.get(f"/conversations/{whole['id']}").json()["messages"][0]["content"] == long
        assert http.post("/chat", json={"message": long + "x"}).status_code == 422


# ---------------------------------------------------------------- under it


ASKED = [
    ("GET", "/tasks", None),
    ("POST", "/tasks", {"title": "x"}),
    ("POST", "/chat", {"message": "list"}),
    ("GET", "/conversations", None),
    ("GET", "/runs", None),
]


async def trouble(hand: AtHand, headers: dict[str, str]) -> set[int]:
    """What routes answer while it fails: a problem each, and nothing of what it is."""
    seen = set[int]()
    for method, path, body in ASKED:
        answer = await hand.http.request(method, path, headers=headers, json=body)
        assert problem(answer, answer.status_code) in (OUR_FAULT, TROUBLE), (path, answer.text)
        assert (answer.status_code == 503) is ("retry-after" in answer.headers)
        seen.add(answer.status_code)
    wrong = await hand.http.post("/auth/login", json={"username": "ada", "password": PASSWORD})
    return {*seen, wrong.status_code}


@pytest.mark.parametrize("how", ["garbage", "cut", "empty"])
async def test_a_database_whose_file_is_ruined_is_told_in_a_sentence(
    tmp_path: Path, how: str
) -> None:
    async with opened(tmp_path) as hand:
        mine = await hand.registered()
        await hand.http.post("/tasks", headers=mine, json={"title": "milk"})
        # what is open stays readable: this is what the next connection finds
        await hand.service.database.aclose()
        path = tmp_path / "service.db"
        path.write_bytes(
            {"garbage": b"no database " * 10_000, "cut": path.read_bytes()[:5000], "empty": b""}[
                how
            ]
        )
        assert await trouble(hand, mine) <= {500, 503}
        assert (await hand.http.get("/healthz")).status_code == 200
        problem(await hand.http.get("/readyz"), 503)


async def test_a_postgres_that_ends_in_the_middle_loses_nothing_and_is_used_again(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = str(
        postgres_server.sql(
            "SELECT datname FROM pg_database WHERE datname LIKE 't%' AND length(datname) = 33 ORDER BY oid DESC LIMIT 1"
        )[0][0]
    )
    async with opened(tmp_path, database=postgres_url) as hand:
        mine = await hand.registered()
        assert (
            await hand.http.post("/tasks", headers=mine, json={"title": "milk"})
        ).status_code == 201
        assert (
            await hand.http.post("/chat", headers=mine, json={"message": "add bread"})
        ).status_code == 200
        postgres_server.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        postgres_server.sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        assert await trouble(hand, mine) == {503}
        problem(await hand.http.get("/readyz"), 503)
        postgres_server.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert [task["title"] for task in (await hand.http.get("/tasks", headers=mine)).json()] == [
            "milk",
            "bread",
        ]
        again = await hand.http.post("/chat", headers=mine, json={"message": "add eggs"})
        assert again.status_code == 200
        assert len((await hand.http.get("/tasks", headers=mine)).json()) == 3


# ---------------------------------------------------------------- a provider that tells our key


KEY = "sk-canary-0123456789abcdefghij"


class Echo(BaseHTTPRequestHandler):
    """Says 401, and everything that it was told."""

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        told = json.dumps(
            {
                "error": {
                    "message": f"wrong key: {self.headers.get('authorization')} {self.headers.get('x-api-key')} {KEY}",
                    "type": "auth",
                }
            }
        ).encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)


@contextmanager
def echoing() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


# ht-053
def test_a_provider_that_tells_our_key_is_kept_from_every_place_it_could_stand_in(
    tmp_path: Path,
) -> None:
    with echoing() as base:
        provider = {"type": "openai-chat", "base_url": base, "api_key": KEY}
        config = {"providers": {"local": provider}, "telemetry": {"logs": "text", "content": True}}
        with (
            unlimited(tmp_path, "--model", "local:tiny", config=config) as url,
            httpx2.Client(base_url=url, timeout=40) as http,
        ):
            token = http.post(
                "/auth/register", json={"username": "ada", "password": PASSWORD}
            ).json()["access_token"]
            http.headers["Authorization"] = f"Bearer {token}"
            seen = [
                http.post("/chat", json={"message": "hello"}),
                http.post(
                    "/chat", json={"message": "hello"}, headers={"Accept": "text/event-stream"}
                ),
            ]
            seen.append(
                http.post(
                    "/v1/chat/completions",
                    json={"model": "tasks", "messages": [{"role": "user", "content": "hello"}]},
                )
            )
            run = http.get("/runs").json()[0]["run_id"]
            seen += [
                http.get(path)
                for path in (
                    "/runs",
                    f"/runs/{run}",
                    f"/runs/{run}/events",
                    "/conversations",
                    "/metrics",
                )
            ]
    assert seen[0].json()["response"] == TROUBLE
    for answer in seen:
        assert KEY not in answer.text, answer.url
        assert "sk-canary" not in answer.text
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "config.yaml"]
    assert len(kept) > 3
    for path in kept:
        assert KEY.encode() not in path.read_bytes(), path
    assert token.encode() not in (tmp_path / "log").read_bytes()
