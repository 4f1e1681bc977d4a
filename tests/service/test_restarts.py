"""A service that dies or closes in the middle loses nothing: the reply comes, and what was done is
done once.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from sqlmodel import Session

from tests.fork_server import Forked, running
from tests.journal.runs import asks, finished, started
from tests.service.chatting import Person, service_in, serving, signed_in
from treadle.service.answering import ask
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Identity, Scope
from treadle.service.spending import RunSpending
from treadle.types import Limits, new_id

pytestmark = pytest.mark.anyio
TROUBLE = "I'm having a bit of trouble right now. Please try again."
ADDED = "Got it! Added 'Buy milk' to your list. Anything else?"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def process(folder: Path, port: int, **environment: str) -> AbstractContextManager[Forked]:
    """The server in one of its own."""
    arguments = [str(folder), str(port)]
    return running("tests.service.chatting", arguments, {**os.environ, **environment})


@asynccontextmanager
async def at(folder: Path, port: int) -> AsyncGenerator[Person]:
    """Ada, whose account is made behind the server's back."""
    service = service_in(folder, None)
    async with service.database:
        user_id, token = await signed_in(service, "ada")
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
        yield Person(http, token, user_id)


async def up(person: Person) -> None:
    with anyio.fail_after(30):
        while True:
            try:
                await person.http.get("/tasks")
                return
            except httpx2.TransportError:
                await anyio.sleep(0.05)


async def replied(person: Person, number: int = 1) -> list[dict[str, Any]]:
    """The messages of the only conversation, once there are so many replies."""
    with anyio.fail_after(30):
        while True:
            conversations = (await person.ask("GET", "/conversations")).json()
            if not conversations:
                return []
            messages = (await person.ask("GET", f"/conversations/{conversations[0]['id']}")).json()[
                "messages"
            ]
            if sum(message["role"] == "assistant" for message in messages) >= number:
                return messages
            await anyio.sleep(0.05)


@pytest.mark.parametrize("boundary", [1, 2, 4, 5, 7, 10])
async def test_a_process_killed_in_the_middle_of_a_chat_loses_nothing(
    tmp_path: Path, boundary: int
) -> None:
    port = free_port()
    async with at(tmp_path, port) as ada:
        with process(tmp_path, port, TREADLE_CRASH_AT=str(boundary)) as server:
            await up(ada)
            try:
                await ada.chat("add Buy milk")
            except httpx2.TransportError:
                assert server.wait(30) == -signal.SIGKILL
        with process(tmp_path, port):
            await up(ada)
            messages = await replied(ada)
            assert [message["role"] for message in messages] == ["user", "assistant"]
            titles = await ada.titles()
            assert (messages[-1]["content"], titles) == (ADDED, ["Buy milk"])


async def test_what_is_under_way_when_the_service_closes_goes_on_at_the_next_start(
    tmp_path: Path,
) -> None:
    statuses: list[int] = []
    headers: dict[str, str] = {}
    async with (
        anyio.create_task_group() as group,
        serving(tmp_path, grace_s=0.01) as served,
        served.person() as ada,
    ):

        async def says() -> None:
            async with httpx2.AsyncClient(base_url=served.url, timeout=30) as http:
                statuses.append(
                    (
                        await http.post("/chat", headers=headers, json={"message": "wait"})
                    ).status_code
                )

        headers = ada.headers
        group.start_soon(says)
        await served.model.waits.wait()
    assert statuses == [503]
    async with serving(tmp_path) as served, served.person("bob") as person:
        person.headers = headers
        await served.model.waits.wait()
        served.model.go.set()
        assert [m["content"] for m in await replied(person)] == ["wait", "You said: wait."]


async def test_a_message_whose_process_died_before_its_run_began_is_worked_on_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        scope, headers, journal = (
            Scope(Identity(ada.user_id, "caller")),
            ada.headers,
            served.service.journal,
        )

        def say(session: Session) -> None:
            ConversationStore(session, scope).ask(
                None, "add Buy milk", new_id("run"), "tasks", journal=journal
            )

        await served.service.database.run(scope, say)
    async with serving(tmp_path) as served, served.person("bob") as person:
        person.headers = headers
        assert [m["content"] for m in await replied(person)] == ["add Buy milk", ADDED]
        assert await person.titles() == ["Buy milk"]


async def test_a_yes_whose_process_died_before_its_run_began_is_still_a_yes(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        await ada.chat("add Buy milk")
        conversation = (await ada.chat("delete Buy milk"))["conversation_id"]
        scope, headers = Scope(Identity(ada.user_id, "caller")), ada.headers
        say = ask(served.service, conversation, "yes delete", scope, RunSpending())
        await served.service.database.run(scope, say)
    async with serving(tmp_path) as served, served.person("bob") as person:
        person.headers = headers
        assert (await replied(person, 2))[-1][
            "content"
        ] == "I've removed 'Buy milk' from your tasks."
        assert await person.titles() == []


async def test_a_message_whose_run_never_began_in_any_journal_of_ours_gets_an_honest_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.service.resuming.BEGINS_S", 0.0)
    async with serving(tmp_path) as served, served.person() as ada:
        scope = Scope(Identity(ada.user_id, "caller"))

        def say(session: Session) -> None:
            ConversationStore(session, scope).ask(None, "add Buy milk", new_id("run"), "tasks")

        await served.service.database.run(scope, say)
        headers = ada.headers
    async with serving(tmp_path) as served, served.person("bob") as person:
        person.headers = headers
        assert [m["content"] for m in await replied(person)] == ["add Buy milk", TROUBLE]
        assert await person.titles() == []


async def test_a_message_that_is_stored_and_about_to_begin_is_left_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        scope, run_id = Scope(Identity(ada.user_id, "caller")), new_id("run")
        await served.service.database.run(
            scope,
            lambda session: ConversationStore(session, scope).ask(
                None, "add Buy milk", run_id, "tasks"
            ),
        )
        (conversation,) = (await ada.ask("GET", "/conversations")).json()
        whole = (await ada.ask("GET", f"/conversations/{conversation['id']}")).json()
        assert ([m["content"] for m in whole["messages"]], whole["run_id"]) == (
            ["add Buy milk"],
            run_id,
        )
        assert (
            await ada.ask(
                "POST", "/chat", json={"message": "and?", "conversation_id": conversation["id"]}
            )
        ).status_code == 409


async def test_a_message_that_nobody_works_on_is_cancelled_and_has_its_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers: dict[str, str] = {}
    async with (
        anyio.create_task_group() as group,
        serving(tmp_path, grace_s=0.01) as served,
        served.person() as ada,
    ):
        headers = ada.headers

        async def says() -> None:
            async with httpx2.AsyncClient(base_url=served.url, timeout=30) as http:
                await http.post("/chat", headers=headers, json={"message": "wait"})

        group.start_soon(says)
        await served.model.waits.wait()

    async def nothing(service: object) -> None: ...

    monkeypatch.setattr("treadle.service.app.resume_all", nothing)
    async with serving(tmp_path) as served, served.person("bob") as person:
        person.headers = headers
        (run,) = (await person.ask("GET", "/runs")).json()
        assert run["status"] == "stopped"
        assert (await person.ask("POST", f"/runs/{run['run_id']}/cancel")).status_code == 202
        with anyio.fail_after(10):
            while (await person.ask("GET", "/runs")).json()[0]["finished_at"] is None:
                await anyio.sleep(0.01)
        assert [m["content"] for m in await replied(person)] == ["wait", TROUBLE]
        assert (await person.all_events("GET", f"/runs/{run['run_id']}/events"))[-1].kind == "reply"


async def test_a_database_that_is_gone_for_a_while_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.service.answering.STORE_WAITS_S", ())
    async with serving(tmp_path) as served, served.person() as ada:
        conversation_id = (await ada.chat("hello"))["conversation_id"]
        answers: list[httpx2.Response] = []

        async def say() -> None:
            answers.append(
                await ada.ask(
                    "POST", "/chat", json={"message": "wait", "conversation_id": conversation_id}
                )
            )

        with closing(sqlite3.connect(tmp_path / "service.db", isolation_level=None)) as other:
            async with anyio.create_task_group() as group:
                group.start_soon(say)
                await served.model.waits.wait()
                other.execute("BEGIN EXCLUSIVE")
                served.model.go.set()
            other.execute("ROLLBACK")
        assert answers[0].status_code == 503
        assert answers[0].json()["detail"] == TROUBLE
        assert [m["content"] for m in await replied(ada, 2)][-1] == "You said: wait."


async def test_a_model_that_hangs_is_given_up_and_nothing_is_lost(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        runner = served.service.chat.runner
        object.__setattr__(runner, "agent", replace(runner.agent, limits=Limits(seconds=0.3)))
        late = await ada.ask("POST", "/chat", json={"message": "hang"})
        assert late.status_code == 504
        assert late.headers["content-type"] == "application/problem+json"
        assert [m["content"] for m in await replied(ada)] == ["hang", TROUBLE]
        kinds = [
            event.kind for event in await ada.all_events("POST", "/chat", json={"message": "hang"})
        ]
        assert kinds[-2:] == ["run_end", "reply"]
        assert "error" in kinds


async def test_a_part_that_an_ended_run_has_left_is_ended_by_the_service(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        journal = served.service.runtime.journal
        parent = await journal.begin(started("over"))
        part = await journal.begin(started("part_over", parent="over"))
        await part.append(asks(1, "c1"))
        await part.release()
        await parent.append([finished()])
        with anyio.fail_after(25):
            while (await journal.info("part_over")).status != "finished":
                await anyio.sleep(0.05)
        assert (await journal.info("part_over")).outcome == "cancelled"
