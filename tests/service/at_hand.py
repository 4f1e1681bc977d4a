"""The service without a server: an application that is open, and clients that call it in this
process. Entry: `opened`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from fastapi import FastAPI
from sqlmodel import update

from tests.service.chatting import KEY, ObedientModel, config_of, passwords_for_tests
from tests.service.database.ready import ready_journal, ready_url
from treadle.apps.assistant.application import task_application
from treadle.runtime.runtime import Runtime
from treadle.service.accounts import REPEAT_S
from treadle.service.app import create_app
from treadle.service.application import Application
from treadle.service.database.database import Database
from treadle.service.database.tables import Login
from treadle.service.state import Service
from treadle.types import now

URL = "http://localhost"
PASSWORD = "correct horse battery"


@dataclass
class AtHand:
    app: FastAPI
    service: Service
    http: httpx2.AsyncClient

    async def registered(self, name: str = "ada", password: str = PASSWORD) -> dict[str, str]:
        """Headers of somebody who has just made an account. The cookie is the client's."""
        return await self._registered(name, password)

    async def registered_from(self, name: str, address: str) -> dict[str, str]:
        """The same, through a proxy from this address."""
        return await self._registered(name, PASSWORD, {"X-Forwarded-For": address})

    async def _registered(
        self, name: str, password: str, headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        answer = await self.http.post(
            "/auth/register", json={"username": name, "password": password}, headers=headers
        )
        assert answer.status_code == 201, answer.text
        return bearer(answer.json()["access_token"])


async def later(service: Service) -> None:
    """Let refresh tokens have been exchanged longer ago than `REPEAT_S`."""
    await service.database.run_unscoped(
        lambda session: session.exec(
            update(Login).values(refreshed_at=now() - timedelta(seconds=REPEAT_S))
        )
    )


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def opened(
    folder: Path,
    *,
    on_loopback: bool = True,
    limits: dict[str, Any] | None = None,
    key: bytes = KEY,
    database: str | None = None,
    application: Application | None = None,
    costly_passwords: bool = False,
    **settings: Any,
) -> AsyncGenerator[AtHand]:
    """`settings`: of `service:`. `database`: its URL, where it is not one of SQLite in the folder.
    `costly_passwords`: hash them as the product does, 30 ms each.
    """
    config = config_of(**(limits or {}))
    config = msgspec.structs.replace(
        config, service=msgspec.structs.replace(config.service, **settings)
    )
    runtime = Runtime(config=config, journal=ready_journal(folder))
    with passwords_for_tests(costly=costly_passwords):
        service = Service(
            config,
            Database.open(database or ready_url(folder / "service.db")),
            runtime,
            key=key,
            application=application or task_application(ObedientModel()),
            on_loopback=on_loopback,
        )
    app = create_app(service)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url=URL) as http,
    ):
        yield AtHand(app, service, http)


def problem(answer: httpx2.Response, status: int) -> str:
    """Its detail, where it is the problem that it must be."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert told["type"] == "about:blank"
    assert told["title"]
    return told["detail"]
