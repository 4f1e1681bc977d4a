"""Several services over one journal and one database: what one has begun is followed, answered,
cancelled and gone on with by any of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    suppress,
)
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import anyio
import apsw
import httpx2
import pytest
from msgspec import structs
from sqlmodel import Session, select

from tests.fork_server import Forked, running
from tests.journal.runs import started as begun
from tests.service.chatting import Event, Person, signed_in
from tests.service.database.postgres import postgres_server, postgres_urls
from tests.service.replica import LEASE_S, in_folder, replica
from tests.service.test_restarts import free_port, up
from treadle.errors import AgentError
from treadle.journal.notifier import run_topic
from treadle.messages.events import ToolCallEnd
from treadle.runtime.runtime import Runtime
from treadle.service import chat, runs
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import ServedRun, Spent
from treadle.service.fan_out import Reader
from treadle.service.following import events_so_far, follow
from treadle.service.problems import HttpProblem
from treadle.service.queueing import account
from treadle.service.resuming import settle, take_up
from treadle.service.running import (
    _begin,
    _held,
    _let_go_of,
    decide,
    go_on,
    info_of,
    open_calls,
    start_run,
)
from treadle.service.spending import measurable
from treadle.service.state import Service
from treadle.tools.approval import Approve
from treadle.types import new_id

pytestmark = pytest.mark.anyio
__all__ = ["postgres_server", "postgres_urls"]


class Places(NamedTuple):
    journal: str
    database: str


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    if request.param == "sqlite":
        return Places(*in_folder(tmp_path))
    urls = request.getfixturevalue("postgres_urls")
    return Places(urls("journal"), urls("database"))


def process(
    places: Places, port: int, queue: str = "", **environment: str
) -> AbstractContextManager[Forked]:
    arguments = [*places, str(port), queue]
    return running("tests.service.replica", arguments, {**os.environ, **environment})


@asynccontextmanager
async def person_of(places: Places) -> AsyncGenerator[Service]:
    """A service that is not opened: its database alone, in which accounts are made."""
    service = replica(*places)
    async with service.database:
        yield service
    await service.runtime.aclose()


@asynccontextmanager
async def two(places: Places, queue: str = "") -> AsyncGenerator[tuple[Person, Person]]:
    """The same person at two replicas."""
    async with AsyncExitStack() as stack:
        ports = free_port(), free_port()
        async with person_of(places) as service:
            user_id, token = await signed_in(service, "ada")
        for port in ports:
            stack.enter_context(process(places, port, queue))
        clients = [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30)
            )
            for port in ports
        ]
        people = [Person(http, token, user_id) for http in clients]
        for person in people:
            await up(person)
        yield people[0], people[1]


async def started(person: Person, prompt: str, agent: str = "walker") -> str:
    answer = await person.ask("POST", "/runs", json={"agent": agent, "prompt": prompt})
    assert answer.status_code == 201, answer.text
    return answer.json()["run_id"]


def durable(events: list[Event]) -> list[tuple[str | None, str, dict[str, Any]]]:
    return [
        (event.id, event.kind, {k: v for k, v in event.data.items() if k not in ("seq", "at")})
        for event in events
        if event.id
    ]


async def asked_for(person: Person, run_id: str) -> str:
    async with person.events("GET", f"/runs/{run_id}/events") as events:
        async for event in events:
            if event.kind == "approval_requested":
                return event.data["call_id"]
    raise AssertionError("nothing was asked for")


async def status(person: Person, run_id: str) -> str:
    return (await person.ask("GET", f"/runs/{run_id}")).json()["status"]


# ---------------------------------------------------------------- following


async def test_what_one_drives_is_followed_at_the_other_while_it_happens(places: Places) -> None:
    async with two(places) as (here, there):
        run_id = await started(here, "walk 8")
        seen: dict[int, list[Event]] = {}

        async def follow(number: int) -> None:
            seen[number] = await there.all_events("GET", f"/runs/{run_id}/events")

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(follow, number)
        whole = durable(await here.all_events("GET", f"/runs/{run_id}/events"))
        assert whole[-1][1] == "run_end"
        for events in seen.values():
            assert durable(events) == whole


async def test_a_client_that_comes_back_at_any_replica_has_each_event_once_while_drivers_are_killed(
    places: Places,
) -> None:
    ports = free_port(), free_port()
    async with AsyncExitStack() as stack:
        async with person_of(places) as service:
            user_id, token = await signed_in(service, "ada")
        servers = [stack.enter_context(process(places, port)) for port in ports]
        clients = [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20)
            )
            for port in ports
        ]
        people = [Person(http, token, user_id) for http in clients]
        for person in people:
            await up(person)

        async def replace(victim: int) -> None:
            servers[victim].send_signal(signal.SIGKILL)
            servers[victim].wait()
            servers[victim] = stack.enter_context(process(places, ports[victim]))
            await up(people[victim])

        # where the reader lags behind on a busy machine, a short run is over before a kill
        for steps in (40, 160, 640):
            if await _followed(people, steps, replace) >= 2:
                return
    raise AssertionError("no driver was killed")


async def _followed(
    people: Sequence[Person], steps: int, replace: Callable[[int], Awaitable[None]]
) -> int:
    """Read a run from both replicas while they are killed in turn. Return how often it was driven."""
    seen: list[Event] = []
    dice = random.Random(8)
    run_id = await started(people[0], f"walk {steps}")
    kills = 0
    with anyio.fail_after(250):
        while not (seen and seen[-1].kind == "run_end"):
            await _some(people[dice.randrange(2)], run_id, seen, dice.randrange(1, 12))
            if kills < 3 and len(seen) > 30 * (kills + 1):
                await replace(kills % 2)
                kills += 1
    assert kills == 3
    whole = await people[0].all_events("GET", f"/runs/{run_id}/events")
    assert durable(seen) == durable(whole)
    return [event.kind for event in whole].count("run_start")


async def _some(person: Person, run_id: str, seen: list[Event], most: int) -> None:
    """A few events more, behind the last one."""
    last = seen[-1].id if seen else None
    headers = {"Last-Event-ID": last} if last else {}
    try:
        async with person.events("GET", f"/runs/{run_id}/events", headers=headers) as events:
            async for event in events:
                if event.id:
                    seen.append(event)
                    most -= 1
                if most <= 0:
                    return
    except httpx2.TransportError:
        return


async def test_a_stream_goes_on_when_the_run_comes_here_and_when_it_leaves(places: Places) -> None:
    """It waits for a person: each answer is given where the run is not followed."""
    async with two(places) as (here, there):
        run_id = await started(here, "launch it")
        call_id = await asked_for(there, run_id)
        seen: dict[str, list[Event]] = {}

        async def follow(name: str, person: Person) -> None:
            seen[name] = await person.all_events("GET", f"/runs/{run_id}/events")

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(follow, "here", here)
                group.start_soon(follow, "there", there)
                answer = await there.ask(
                    "POST",
                    f"/runs/{run_id}/approvals/{call_id}",
                    json={"decision": "approve", "arguments": {"where": "down"}},
                )
                assert answer.status_code == 202, answer.text
        whole = durable(await there.all_events("GET", f"/runs/{run_id}/events"))
        assert durable(seen["here"]) == durable(seen["there"]) == whole
        assert [
            data["result"].splitlines()[-1] for _, kind, data in whole if kind == "tool_call_end"
        ] == ["launched down"]
        assert (
            await here.ask("POST", f"/runs/{run_id}/approvals/{call_id}", json={"decision": "deny"})
        ).status_code == 409


async def test_a_run_is_cancelled_at_another_replica(places: Places) -> None:
    async with two(places) as (here, there):
        run_id = await started(here, "walk 2000")
        with anyio.fail_after(30):
            async with there.events("GET", f"/runs/{run_id}/events") as events:
                assert (await anext(events)).kind == "run_start"
                assert (await there.ask("POST", f"/runs/{run_id}/cancel")).status_code == 202
                last = [event async for event in events][-1]
        assert (last.kind, last.data["outcome"]) == ("run_end", "cancelled")
        assert await status(here, run_id) == await status(there, run_id) == "finished"


async def test_what_runs_below_do_is_followed_too(places: Places) -> None:
    async with two(places) as (here, there):
        run_id = await started(here, "send walk 5", "sender")
        with anyio.fail_after(30):
            events = await there.all_events("GET", f"/runs/{run_id}/events")
        own = [event for event in events if event.id]
        assert durable(own) == durable(await here.all_events("GET", f"/runs/{run_id}/events"))
        below = [event for event in events if event.data.get("parent_run_id") == run_id]
        assert [event.data["result"] for event in below if event.kind == "tool_call_end"] == [
            f"step {number}" for number in range(5)
        ]
        assert (below[0].kind, below[-1].kind) == ("run_start", "run_end")
        kinds = [
            event.kind
            for event in events
            if event in below or event.kind in ("tool_call_start", "tool_call_end")
        ]
        assert (kinds[0], kinds[-1]) == ("tool_call_start", "tool_call_end"), (
            "between the start and the end of the call"
        )


async def test_who_leaves_leaves_nothing_behind(tmp_path: Path) -> None:
    places = Places(*in_folder(tmp_path))
    async with (
        at_hand(places) as (service, ada),
        work(places) as elsewhere,
        anyio.create_task_group() as group,
    ):
        run_id = new_id("run")
        await service.database.run(
            ada.scope,
            lambda session: ConversationStore(session, ada.scope).add_run(run_id, "walker"),
        )
        walker = elsewhere.agents.get("walker")
        assert walker is not None
        group.start_soon(
            partial(elsewhere.run, walker, "walk 10000", run_id=run_id, user_id=ada.user_id)
        )
        readers = [await ada.follow(run_id) for _ in range(3)]
        with anyio.fail_after(20):
            for reader in readers:
                while b"tool_call_end" not in (await reader.read() or b""):
                    pass
        assert len(service.elsewhere) == 1, "one follower for all of them"
        for reader in readers:
            await reader.leave()
        assert len(service.elsewhere) == 0
        with anyio.fail_after(10):
            while service.runtime.journal.notifier.wanted(run_topic(run_id)):
                await anyio.sleep(0.01)
        await elsewhere.kill(run_id)


class Late:
    """A follower that is told nothing until `go`, when it is at its end."""

    def __init__(self) -> None:
        self.go = anyio.Event()

    def __call__(self, run_id: str, **options: Any) -> Late:
        return self

    async def __aenter__(self) -> Late:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    def __aiter__(self) -> Late:
        return self

    async def __anext__(self) -> Any:
        await self.go.wait()
        raise StopAsyncIteration


def named(frames: bytes) -> list[tuple[str, str]]:
    """Run and id of durable events."""
    events = [
        json.loads(line.removeprefix(b"data: "))
        for line in frames.splitlines()
        if line.startswith(b"data: ")
    ]
    return [(event["run_id"], event["id"]) for event in events if "id" in event]


@pytest.mark.parametrize(("agent", "wish"), [("walker", "walk 12"), ("sender", "send walk 12")])
async def test_who_follows_a_run_that_comes_to_be_driven_here_is_told_all_of_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, wish: str
) -> None:
    """Also what was done elsewhere and not told here yet; and whoever told from elsewhere tells no
    more, nor that it is over.
    """
    places, late = Places(*in_folder(tmp_path)), Late()
    async with (
        at_hand(places) as (service, ada),
        work(places) as elsewhere,
        anyio.create_task_group() as group,
    ):
        run_id = new_id("run")
        await service.database.run(
            ada.scope, lambda session: ConversationStore(session, ada.scope).add_run(run_id, agent)
        )
        row = await service.database.read(
            ada.scope, lambda session: ConversationStore(session, ada.scope).run(run_id)
        )
        known = elsewhere.agents.get(agent)
        assert known is not None
        assert row is not None

        async def begin() -> None:
            with suppress(AgentError):  # it is let go
                await elsewhere.run(known, wish, run_id=run_id, user_id=ada.user_id)

        async def steps(least: int) -> None:
            while (
                sum(
                    isinstance(event, ToolCallEnd) and event.name == "step"
                    for event in await events_so_far(service, ada.scope, row)
                )
                < least
            ):
                await anyio.sleep(0.01)

        monkeypatch.setattr(service.runtime, "follow", late)
        with anyio.fail_after(80):
            group.start_soon(begin)
            reader = await ada.follow(run_id)
            before = await events_so_far(service, ada.scope, row)
            await steps(sum(isinstance(event, ToolCallEnd) for event in before) + 2)
            elsewhere.let_go()
            while await info_of_status(service, run_id) != "stopped":
                await anyio.sleep(0.01)
            assert len(service.elsewhere) == 1
            live = await go_on(service, ada.scope, row, {})
            assert live is not None
            assert len(service.elsewhere) == 0
            late.go.set()
            told = [*reader.before]
            while (frames := await reader.read()) is not None:
                told += named(frames)
        whole = [(event.run_id, event.id) for event in await events_so_far(service, ada.scope, row)]
        assert len(told) == len(set(told))
        assert [one for one in told if one[0] == run_id] == [
            one for one in whole if one[0] == run_id
        ]
        assert sorted(told) == sorted(whole)
        await reader.leave()


async def test_who_reads_the_journal_slowly_misses_nothing_that_a_quicker_reader_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quicker one has the run followed from where its own reading ended."""
    places = Places(*in_folder(tmp_path))
    async with (
        at_hand(places) as (service, ada),
        work(places) as elsewhere,
        anyio.create_task_group() as group,
    ):
        run_id = new_id("run")
        await service.database.run(
            ada.scope,
            lambda session: ConversationStore(session, ada.scope).add_run(run_id, "walker"),
        )
        row = await service.database.read(
            ada.scope, lambda session: ConversationStore(session, ada.scope).run(run_id)
        )
        walker = elsewhere.agents.get("walker")
        assert walker is not None
        assert row is not None
        read, has_read, go = service.runtime.events, anyio.Event(), anyio.Event()

        async def slow(run_id: str) -> list[Any]:
            events = await read(run_id)
            if not has_read.is_set():
                has_read.set()
                await go.wait()
            return events

        async def steps(least: int) -> None:
            while sum(isinstance(event, ToolCallEnd) for event in await read(run_id)) < least:
                await anyio.sleep(0.01)

        told: dict[str, list[tuple[str, str]]] = {}

        async def follow(name: str) -> None:
            reader = await ada.follow(run_id)
            told[name] = [*reader.before]
            while (frames := await reader.read()) is not None:
                told[name] += named(frames)
            await reader.leave()

        with anyio.fail_after(30):
            group.start_soon(
                partial(elsewhere.run, walker, "walk 8", run_id=run_id, user_id=ada.user_id)
            )
            while await info_of_status(service, run_id) is None:
                await anyio.sleep(0.01)
            monkeypatch.setattr(service.runtime, "events", slow)
            async with anyio.create_task_group() as readers:
                readers.start_soon(follow, "slow")
                await has_read.wait()
                await steps(2)
                readers.start_soon(follow, "quick")
                await steps(4)
                go.set()
        whole = [(event.run_id, event.id) for event in await events_so_far(service, ada.scope, row)]
        assert told["quick"] == told["slow"] == whole


async def info_of_status(service: Service, run_id: str) -> str | None:
    info = await info_of(service, run_id)
    return None if info is None else info.status


# ---------------------------------------------------------------- what dies


async def test_a_message_whose_replica_dies_gets_its_reply_from_another(places: Places) -> None:
    ports = free_port(), free_port()
    async with AsyncExitStack() as stack:
        async with person_of(places) as service:
            user_id, token = await signed_in(service, "ada")
        clients = [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30)
            )
            for port in ports
        ]
        dying, other = [Person(http, token, user_id) for http in clients]
        server = stack.enter_context(process(places, ports[0], TREADLE_CRASH_AT="6"))
        stack.enter_context(process(places, ports[1]))
        await up(dying)
        await up(other)
        with pytest.raises(httpx2.TransportError):
            await dying.chat("add Buy milk")
        assert server.wait(30) == -signal.SIGKILL
        with anyio.fail_after(30):
            while True:
                (conversation,) = (await other.ask("GET", "/conversations")).json()
                run = (await other.ask("GET", "/runs")).json()[0]
                if run["finished_at"] is not None:
                    break
                await anyio.sleep(0.05)
        messages = (await other.ask("GET", f"/conversations/{conversation['id']}")).json()[
            "messages"
        ]
        assert [message["content"] for message in messages][1:] == [
            "Got it! Added 'Buy milk' to your list. Anything else?"
        ]
        assert await other.titles() == ["Buy milk"]


async def test_a_message_that_another_replica_works_on_is_left_to_it(places: Places) -> None:
    async with two(places) as (here, there), anyio.create_task_group() as group:
        streamed: list[Event] = []

        async def say() -> None:
            streamed.extend(await here.all_events("POST", "/chat", json={"message": "hang"}))

        group.start_soon(say)
        with anyio.fail_after(60):
            while (
                not (runs := (await there.ask("GET", "/runs")).json())
                or runs[0]["status"] != "running"
            ):
                await anyio.sleep(0.05)
            (conversation,) = (await there.ask("GET", "/conversations")).json()
            whole = (await there.ask("GET", f"/conversations/{conversation['id']}")).json()
            assert [message["role"] for message in whole["messages"]] == ["user"]
            second = await there.ask(
                "POST", "/chat", json={"message": "hello", "conversation_id": conversation["id"]}
            )
            assert second.status_code == 409
            async with there.events("GET", f"/runs/{runs[0]['run_id']}/events") as events:
                assert (await anext(events)).kind == "run_start"
                await there.ask("POST", f"/runs/{runs[0]['run_id']}/cancel")
                followed = [event async for event in events]
    assert followed[-1].kind == "reply"
    assert followed[-1].data == streamed[-1].data


async def test_replicas_that_start_at_once_let_one_have_each_run(places: Places) -> None:
    async with person_of(places) as service:
        user_id, token = await signed_in(service, "ada")
        scope = Scope(Identity(user_id, "caller"))

        def say(session: Session) -> None:
            for title in ("Buy milk", "Buy bread", "Buy tea"):
                ConversationStore(session, scope).ask(
                    None, f"add {title}", new_id("run"), "tasks", journal=places.journal[-64:]
                )

        await service.database.run(scope, say)
    ports = free_port(), free_port(), free_port()
    async with AsyncExitStack() as stack:
        for port in ports:
            stack.enter_context(process(places, port))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{ports[0]}", timeout=30)
        )
        ada = Person(http, token, user_id)
        await up(ada)
        with anyio.fail_after(60):
            while any(run["finished_at"] is None for run in (await ada.ask("GET", "/runs")).json()):
                await anyio.sleep(0.1)
        assert sorted(await ada.titles()) == ["Buy bread", "Buy milk", "Buy tea"]
        for conversation in (await ada.ask("GET", "/conversations")).json():
            messages = (await ada.ask("GET", f"/conversations/{conversation['id']}")).json()[
                "messages"
            ]
            assert [message["role"] for message in messages] == ["user", "assistant"]
            assert messages[1]["content"].startswith("Got it!")


# ---------------------------------------------------------------- a queue


async def test_a_queued_run_is_followed_answered_and_accounted_for_at_any_replica(
    places: Places,
) -> None:
    async with two(places, "default") as (here, there):
        run_id = await started(here, "launch it")
        assert await status(there, run_id) == "queued"
        seen: list[Event] = []

        async def follow() -> None:
            seen.extend(await there.all_events("GET", f"/runs/{run_id}/events"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group, work(places) as runtime:
                group.start_soon(follow)
                await runtime.resume(run_id)
                call_id = await asked_for(here, run_id)
                assert await status(there, run_id) == "waiting"
                answer = await there.ask(
                    "POST",
                    f"/runs/{run_id}/approvals/{call_id}",
                    json={"decision": "approve", "arguments": {"where": "down"}},
                )
                assert answer.status_code == 202, answer.text
                assert await status(here, run_id) == "queued"
                await runtime.resume(run_id)
        whole = await here.all_events("GET", f"/runs/{run_id}/events")
        assert durable(seen) == durable(whole)
        assert [
            event.data["result"].splitlines()[-1]
            for event in whole
            if event.kind == "tool_call_end"
        ] == ["launched down"]
        found = (await here.ask("GET", f"/runs/{run_id}")).json()
        assert found["status"] == "finished"
        assert found["finished_at"] is not None


async def test_a_queued_run_is_cancelled_before_anybody_drives_it_and_counts_as_one_of_its_person(
    places: Places,
) -> None:
    async with two(places, "default") as (here, there):
        run_id = await started(here, "walk 3")
        assert (await there.ask("POST", f"/runs/{run_id}/cancel")).status_code == 202
        with anyio.fail_after(20):
            last = (await here.all_events("GET", f"/runs/{run_id}/events"))[-1]
        assert (last.kind, last.data["outcome"]) == ("run_end", "cancelled")
        assert await status(there, run_id) == "finished"


async def test_what_a_worker_has_used_counts_once_and_gives_its_place_back(tmp_path: Path) -> None:
    places = Places(*in_folder(tmp_path))
    async with at_hand(places, queue="default", runs=1) as (service, ada), work(places) as runtime:
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        run_id = await start_run(service, ada.scope, walker, "walk 1", {})
        with pytest.raises(HttpProblem) as raised:
            await start_run(service, ada.scope, walker, "walk 1", {})
        assert raised.value.status_code == 429
        await runtime.resume(run_id)
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(account, service, ada.scope)
        await start_run(service, ada.scope, walker, "walk 1", {})

        def spent(session: Session) -> int:
            return session.exec(select(Spent.tokens).where(Spent.user_id == ada.user_id)).one()

        assert await service.database.read(ada.scope, spent) == 10


async def test_a_run_whose_submission_died_before_it_was_in_the_journal_does_not_count_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_hand(Places(*in_folder(tmp_path)), queue="default", runs=1) as (service, ada):
        walker = service.runtime.agents.get("walker")
        assert walker is not None
        await service.database.run(
            ada.scope,
            lambda session: ConversationStore(session, ada.scope).add_run(new_id("run"), "walker"),
        )
        with pytest.raises(HttpProblem):
            await start_run(service, ada.scope, walker, "walk 1", {})
        monkeypatch.setattr("treadle.service.queueing.BEGINS_S", 0.0)
        await start_run(service, ada.scope, walker, "walk 1", {})


async def test_a_run_that_a_newer_version_left_behind_keeps_no_other_from_being_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.service.resuming.TAKE_UP_S", 0.05)
    places = Places(*in_folder(tmp_path))
    async with at_hand(places) as (service, ada), work(places) as elsewhere:
        walker = elsewhere.agents.get("walker")
        assert walker is not None
        left = [new_id("run"), new_id("run")]
        for run_id in left:
            await service.database.run(
                ada.scope,
                lambda session, run_id=run_id: ConversationStore(session, ada.scope).add_run(
                    run_id, "walker"
                ),
            )
            await elsewhere.submit(walker, "walk 1", run_id=run_id, user_id=ada.user_id)
        with closing(cast("Any", apsw).Connection(str(tmp_path / "journal.db"))) as journal:
            journal.execute("update runs set queue = null")
            journal.execute("update runs set schema = 999 where id = ?", (left[1],))
        async with anyio.create_task_group() as group:
            group.start_soon(take_up, service)
            with anyio.fail_after(20):
                while await info_of_status(service, left[0]) != "finished":
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()


async def test_a_decision_that_comes_while_a_run_is_released_is_not_lost(tmp_path: Path) -> None:
    async with at_hand(Places(*in_folder(tmp_path))) as (service, ada):
        walker, run_id = service.runtime.agents.get("walker"), new_id("run")
        assert walker is not None

        async def decided() -> None:
            run = await ada.run(run_id)
            (call_id,), _ = await open_calls(service, run_id)
            await decide(service, ada.scope, run, call_id, Approve())

        held = AsyncExitStack()
        spending = await held.enter_async_context(service.limits.run(ada.scope, run_id, walker))
        held.push_async_callback(decided)
        await service.database.run(
            ada.scope,
            lambda session: ConversationStore(session, ada.scope).add_run(run_id, "walker"),
        )
        limits = await measurable(service.runtime, walker, spending.limits)
        work = partial(_begin, service, walker, "launch it", {}, limits)
        held_run = partial(_held, service, "walker", held, spending, work)
        service.live.start(run_id, ada.scope, held_run)
        with anyio.fail_after(20):
            while await info_of_status(service, run_id) != "finished":
                await anyio.sleep(0.01)


async def test_what_waits_for_a_lease_says_for_how_long(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    psycopg = pytest.importorskip("psycopg", reason="needs the extra postgres")
    monkeypatch.setattr("treadle.service.running.LETS_GO_S", 0.0)
    caplog.set_level("INFO", "treadle")
    places = Places(request.getfixturevalue("postgres_urls")("journal"), in_folder(tmp_path)[1])
    async with at_hand(places) as (service, ada), work(places) as elsewhere:
        run_id = new_id("run")
        asked = await service.database.run(
            ada.scope,
            lambda session: ConversationStore(session, ada.scope).ask(
                None, "Hello", run_id, service.application.name, journal=service.journal
            ),
        )
        assert asked is not None
        await elsewhere.journal.begin(structs.replace(begun(run_id), user_id=ada.user_id))
        with psycopg.connect(places.journal) as db:  # their host is another one
            db.execute("update treadle.workers set identity = 'other ' || identity")
        head = await runs.run(run_id, ada.scope, service)
        assert head.status == "running"
        assert head.lease_s is not None
        assert 0 < head.lease_s <= LEASE_S
        with pytest.raises(
            HttpProblem, match=r"If that process has died, its lease ends in [12] s"
        ) as raised:
            await _let_go_of(service, await service.runtime.journal.info(run_id))
        assert raised.value.headers == {"Retry-After": "5"}
        again = chat.ChatRequest(conversation_id=asked.conversation_id, message="Hello?")
        async with service.limits.place(ada.scope) as spending:
            with pytest.raises(HttpProblem, match=r"by another process.* its lease ends in [12] s"):
                await chat._asked(service, ada.scope, again, spending)
        assert await settle(service, ada.scope, run_id) is None
    assert f"not resumed: run {run_id} is driven by another process: if that pro" in caplog.text


class Ada(NamedTuple):
    service: Service
    user_id: str
    scope: Scope

    async def run(self, run_id: str) -> ServedRun:
        run = await self.service.database.read(
            self.scope, lambda session: ConversationStore(session, self.scope).run(run_id)
        )
        assert run is not None
        return run

    async def follow(self, run_id: str) -> Following:
        while await info_of(self.service, run_id) is None:
            await anyio.sleep(0.01)
        stream: Any = await follow(self.service, self.scope, await self.run(run_id), None)
        return Following(
            stream._reader,
            stream._over,
            [one for frame in stream._before for one in named(frame.data)],
        )


class Following(NamedTuple):
    reader: Reader
    leave: Callable[[], Awaitable[None]]
    before: list[tuple[str, str]]
    """Run and id of what it was given at once."""

    async def read(self) -> bytes | None:
        return await self.reader.read()


@asynccontextmanager
async def at_hand(places: Places, **options: Any) -> AsyncGenerator[tuple[Service, Ada]]:
    """A replica in this process, without its routes."""
    service = replica(*places, **options)
    async with service:
        user_id, _ = await signed_in(service, "ada")
        yield service, Ada(service, user_id, Scope(Identity(user_id, "caller")))


@asynccontextmanager
async def work(places: Places) -> AsyncGenerator[Runtime]:
    """A runtime with which somebody drives what is queued."""
    service = replica(*places)
    async with service.runtime as runtime:
        yield runtime
