"""A real server of the service, people who talk to it, and a model that does what it is told: what
the tests of chat and streams share.

Run as a program it is the server in a process of its own: `python -m tests.service.chatting FOLDER
PORT`.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import uvicorn
from sqlmodel import Session

from tests.service.database.ready import ready_journal, ready_url
from treadle.agents.agent import Agent
from treadle.apps.assistant.application import task_application
from treadle.config import Config, Price, load
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelRequest,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.runtime.runtime import Runtime
from treadle.service import passwords, resuming
from treadle.service.app import create_app
from treadle.service.application import Application
from treadle.service.database.database import Database
from treadle.service.database.tables import Account, Login
from treadle.service.state import Service
from treadle.types import StopReason, Usage, new_id, now

KEY = b"k" * 32
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of loopback: nothing there speaks TLS, and a client of its own accord would read all
certificates of the system.
"""


class ObedientModel:
    """`add X, Y` adds tasks, `list` lists; `ask X` calls an agent; `say N` says N sentences; `wait`
    waits to be let go; `hang` never answers; `break` fails.
    """

    def __init__(self) -> None:
        self.waits = anyio.Event()
        """Set when somebody waits."""
        self.go = anyio.Event()

    @property
    def name(self) -> str:
        return "test:obedient"

    @property
    def refuses(self) -> frozenset[str]:
        return frozenset()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        wish = next(m.text for m in reversed(request.messages) if m.role == "user")
        if any(m.role == "tool" for m in request.messages) or request.messages[-1].role != "user":
            yield TextDelta("Done.")
            yield ResponseEnd(StopReason.COMPLETE, Usage(input_tokens=7, output_tokens=3))
            return
        calls: list[tuple[str, dict[str, Any]]] = []
        match wish.split(" ", 1):
            case ["add", titles]:
                calls = [("add_task", {"title": title}) for title in titles.split(", ")]
            case ["delete", title]:
                calls = [("delete_task", {"task": title})]
            case ["list"]:
                calls = [("list_tasks", {})]
            case ["use", names]:
                calls = [(name, {}) for name in names.split(", ")]
            case ["ask", name]:
                calls = [(name, {"prompt": "hello"})]
            case ["wait", *_]:
                self.waits.set()
                await self.go.wait()
            case ["hang"]:
                self.waits.set()
                await anyio.sleep_forever()
            case ["break"]:
                raise OSError("the provider is not there")
            case ["say", number]:
                for at in range(int(number)):
                    yield TextDelta(f"Sentence {at} is here. ")
            case _:
                pass
        if not calls:
            yield TextDelta(f"You said: {wish}")
        for name, arguments in calls:
            yield ToolCallStart(new_id("call"), name)
            yield ArgumentsDelta(json.dumps(arguments))
            yield PartEnd()
        yield ResponseEnd(
            StopReason.TOOL_USE if calls else StopReason.COMPLETE,
            Usage(input_tokens=11, output_tokens=5),
        )


@dataclass
class Event:
    """One of server-sent events."""

    kind: str
    data: dict[str, Any]
    id: str | None


class Person:
    """Somebody who is signed in."""

    def __init__(self, http: httpx2.AsyncClient, token: str, user_id: str) -> None:
        self.http, self.user_id = http, user_id
        self.headers = {"Authorization": f"Bearer {token}"}

    async def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        return await self.http.request(
            method, path, headers={**self.headers, **more.pop("headers", {})}, **more
        )

    async def chat(self, message: str, conversation_id: str | None = None) -> dict[str, Any]:
        answer = await self.ask("POST", "/chat", json=said(message, conversation_id))
        assert answer.status_code == 200, answer.text
        return answer.json()

    @asynccontextmanager
    async def events(
        self, method: str, path: str, **more: Any
    ) -> AsyncGenerator[AsyncIterator[Event]]:
        headers = {**self.headers, "Accept": "text/event-stream", **more.pop("headers", {})}
        async with self.http.stream(method, path, headers=headers, **more) as response:
            assert response.status_code == 200, await response.aread()
            yield read_events(response.aiter_lines())

    async def all_events(self, method: str, path: str, **more: Any) -> list[Event]:
        async with self.events(method, path, **more) as events:
            return [event async for event in events]

    async def titles(self) -> list[str]:
        return [task["title"] for task in (await self.ask("GET", "/tasks")).json()]


def said(message: str, conversation_id: str | None = None) -> dict[str, Any]:
    return (
        {"message": message}
        if conversation_id is None
        else {"message": message, "conversation_id": conversation_id}
    )


async def read_events(lines: AsyncIterator[str]) -> AsyncGenerator[Event]:
    fields: dict[str, str] = {}
    async for line in lines:
        if not line and "data" in fields:
            yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}
        elif found := re.fullmatch(r"(event|data|id): (.*)", line):
            fields[found[1]] = found[2]


@dataclass
class Served:
    service: Service
    model: ObedientModel
    url: str

    @asynccontextmanager
    async def person(self, name: str = "ada") -> AsyncGenerator[Person]:
        """With a connection of their own."""
        user_id, token = await signed_in(self.service, name)
        async with httpx2.AsyncClient(base_url=self.url, timeout=60, verify=PLAIN) as http:
            yield Person(http, token, user_id)


async def signed_in(service: Service, name: str) -> tuple[str, str]:
    def work(session: Session) -> tuple[str, str]:
        account = Account(username=name, password_hash="-")
        session.add(account)
        session.flush()
        login = Login(account_id=account.id, refresh_hash="-", expires_at=now() + timedelta(days=1))
        session.add(login)
        session.flush()
        return account.id, login.id

    account_id, login_id = await service.database.run_unscoped(work)
    return account_id, service.tokens.access(account_id, login_id)


def config_of(
    *,
    grace_s: float = 10,
    totals: Mapping[str, Any] | None = None,
    prices: Mapping[str, Price] | None = None,
    **limits: Any,
) -> Config:
    config = msgspec.structs.replace(load(files=False), prices=dict(prices or {}))
    many = {"requests_per_minute": 1_000_000, "runs": 100, "streams": 1000, **limits}
    limited = msgspec.structs.replace(config.service.limits, **many)
    totals = msgspec.structs.replace(config.service.totals, **(totals or {}))
    return msgspec.structs.replace(
        config,
        service=msgspec.structs.replace(
            config.service, limits=limited, totals=totals, grace_s=grace_s
        ),
    )


def service_in(
    folder: Path,
    model: Any,
    agents: Sequence[Agent[Any, Any]] = (),
    application: Application | None = None,
    **limits: Any,
) -> Service:
    config = config_of(**limits)
    runtime = Runtime(config=config, journal=ready_journal(folder))
    for agent in agents:
        runtime.agents.register(agent)
    database = Database.open(ready_url(folder / "service.db"))
    return Service(
        config,
        database,
        runtime,
        key=KEY,
        application=application or task_application(model),
        agents=[agent.name for agent in agents],
        journal=str(folder)[-64:],
    )


@contextmanager
def passwords_for_tests(*, costly: bool) -> Generator[None]:
    """Let a service that is made meanwhile hash passwords with the least work that argon2 allows,
    unless `costly`: in 0.1 ms instead of 30.
    """
    product = passwords.MEMORY_KIB, passwords.PASSES
    if not costly:
        passwords.MEMORY_KIB, passwords.PASSES = 8, 1
    try:
        yield
    finally:
        passwords.MEMORY_KIB, passwords.PASSES = product


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    agents: Sequence[Agent[Any, Any]] = (),
    changed: Callable[[Service], None] | None = None,
    application: Application | None = None,
    costly_passwords: bool = False,
    **limits: Any,
) -> AsyncGenerator[Served]:
    """On a port of the loopback, in this process."""
    model = ObedientModel()
    with passwords_for_tests(costly=costly_passwords):
        service = service_in(folder, model, agents, application=application, **limits)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(service), log_config=None, lifespan="on", timeout_graceful_shutdown=5
            )
        )
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listening])
            while not server.started:
                await anyio.sleep(0.01)
            if changed is not None:
                changed(service)
            try:
                yield Served(service, model, f"http://127.0.0.1:{listening.getsockname()[1]}")
            finally:
                service.stopping.set()
                server.should_exit = True


def main(folder: str, port: str) -> None:
    resuming.BEGINS_S = 0.0  # nobody else has its database
    service = service_in(Path(folder), ObedientModel())
    uvicorn.run(create_app(service), host="127.0.0.1", port=int(port), log_config=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
