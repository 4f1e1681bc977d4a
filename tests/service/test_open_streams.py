"""Streams end with the login that opened them: at once in the same process, within a bounded time
in others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from sqlalchemy import delete
from sqlmodel import Session, col

from tests.service.at_hand import PASSWORD, later
from tests.service.chatting import Served, serving
from tests.service.test_mcp_endpoint import ACCEPT, HELLO
from treadle.service import open_streams
from treadle.service.border import SIGNED_OUT
from treadle.service.database.tables import Login

pytestmark = pytest.mark.anyio
LONG = 3600.0


class Client:
    """Somebody who is signed in by a login of their own, with its cookie."""

    def __init__(self, http: httpx2.AsyncClient, token: str) -> None:
        self.http, self.headers = http, {"Authorization": f"Bearer {token}"}

    @asynccontextmanager
    async def stream(self, method: str, path: str, **more: Any) -> AsyncGenerator[httpx2.Response]:
        headers = {**self.headers, "Accept": "text/event-stream", **more.pop("headers", {})}
        async with self.http.stream(method, path, headers=headers, **more) as response:
            assert response.status_code == 200, await response.aread()
            yield response


@asynccontextmanager
async def client(served: Served, how: str = "login") -> AsyncGenerator[Client]:
    async with httpx2.AsyncClient(base_url=served.url, timeout=60) as http:
        answer = await http.post(f"/auth/{how}", json={"username": "ada", "password": PASSWORD})
        assert answer.status_code in (200, 201), answer.text
        yield Client(http, answer.json()["access_token"])


async def tasks(ada: Client, served: Served) -> tuple[str, str, dict[str, Any]]:
    return "GET", "/tasks/events", {}


async def chat(ada: Client, served: Served) -> tuple[str, str, dict[str, Any]]:
    return "POST", "/chat", {"json": {"message": "wait for it"}}


async def run_events(ada: Client, served: Served) -> tuple[str, str, dict[str, Any]]:
    made = await ada.http.post(
        "/runs", headers=ada.headers, json={"agent": "tasks", "prompt": "wait for it"}
    )
    return "GET", f"/runs/{made.json()['run_id']}/events", {}


async def completions(ada: Client, served: Served) -> tuple[str, str, dict[str, Any]]:
    return (
        "POST",
        "/v1/chat/completions",
        {
            "json": {
                "model": "tasks",
                "stream": True,
                "messages": [{"role": "user", "content": "wait for it"}],
            }
        },
    )


async def mcp(ada: Client, served: Served) -> tuple[str, str, dict[str, Any]]:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    answer = await ada.http.post("/mcp", json=hello, headers={**ACCEPT, **ada.headers})
    session = {
        "Mcp-Session-Id": answer.headers["mcp-session-id"],
        "MCP-Protocol-Version": ACCEPT["MCP-Protocol-Version"],
    }
    await ada.http.post(
        "/mcp",
        json={"jsonrpc": "2.0", "method": "notifications/initialized"},
        headers={**ACCEPT, **ada.headers, **session},
    )
    return "GET", "/mcp", {"headers": session}


@pytest.mark.parametrize("kind", [tasks, chat, run_events, completions, mcp])
async def test_signing_out_ends_every_kind_of_stream_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any]
) -> None:
    monkeypatch.setattr(open_streams, "LOOK_S", LONG)
    async with (
        serving(tmp_path) as served,
        client(served, "register") as ada,
        client(served) as other,
    ):
        method, path, more = await kind(ada, served)
        async with (
            ada.stream(method, path, **more) as stream,
            other.stream("GET", "/tasks/events") as kept,
        ):
            async with httpx2.AsyncClient(base_url=served.url) as http:
                assert (await http.post("/auth/logout", headers=ada.headers)).status_code == 204
            with anyio.fail_after(10):
                assert (await stream.aread()).endswith(SIGNED_OUT)
            lines = kept.aiter_lines()
            assert await anext(lines) == "event: tasks"
            assert (
                await other.http.post("/tasks", json={"title": "Buy milk"}, headers=other.headers)
            ).status_code == 201
            with anyio.fail_after(10):
                while await anext(lines) != "event: tasks":  # a sign of life may come first
                    pass
        served.model.go.set()


async def test_whatever_ends_a_login_ends_its_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_streams, "LOOK_S", LONG)
    async with serving(tmp_path) as served, client(served, "register") as here:
        async with client(served) as other, other.stream("GET", "/tasks/events") as stream:
            changed = {"old": PASSWORD, "new": "another password altogether"}
            assert (
                await here.http.post("/auth/password", json=changed, headers=here.headers)
            ).status_code == 204
            with anyio.fail_after(10):
                assert (await stream.aread()).endswith(SIGNED_OUT)
        async with here.stream("GET", "/tasks/events") as stream:
            cookie = {"Cookie": f"treadle_refresh={here.http.cookies['treadle_refresh']}"}
            here.http.cookies.clear()
            async with httpx2.AsyncClient(base_url=served.url) as thief:
                assert (await thief.post("/auth/refresh", headers=cookie)).status_code == 200
                thief.cookies.clear()
                await later(served.service)
                assert (await thief.post("/auth/refresh", headers=cookie)).status_code == 401
            with anyio.fail_after(10):
                assert (await stream.aread()).endswith(SIGNED_OUT)


async def test_a_login_that_ends_in_another_process_ends_its_streams_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two services over one database, and an operator who deletes the rows."""
    monkeypatch.setattr(open_streams, "LOOK_S", 0.05)
    async with AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(serving(tmp_path)) for _ in range(2)]
        ada = await stack.enter_async_context(client(here, "register"))
        async with ada.stream("GET", "/tasks/events") as stream:
            async with httpx2.AsyncClient(base_url=there.url) as http:
                assert (await http.post("/auth/logout", headers=ada.headers)).status_code == 204
            with anyio.fail_after(10):
                assert (await stream.aread()).endswith(SIGNED_OUT)
        bob = await stack.enter_async_context(client(here))
        async with bob.stream("GET", "/tasks/events") as stream:
            await there.service.database.run_unscoped(_delete_logins)
            with anyio.fail_after(10):
                assert (await stream.aread()).endswith(SIGNED_OUT)
        while here.service.open_streams._open:
            await anyio.lowlevel.checkpoint()


def _delete_logins(session: Session) -> None:
    session.exec(delete(Login).where(col(Login.id) != ""))
