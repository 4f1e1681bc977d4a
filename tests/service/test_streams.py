"""Server-sent events of the service: whole, resumable from anywhere, and no reader's slowness is
another's.
"""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tests.service.chatting import Event, Person, Served, serving
from treadle.service import following
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.fan_out import BEHIND, OLD, QUEUE_MOST, Channels, EncodedEvent, Reader
from treadle.service.following import events_so_far
from treadle.service.state import Service

pytestmark = pytest.mark.anyio


def durable(events: list[Event]) -> list[tuple[str | None, str, dict[str, Any]]]:
    """What must be the same however often one comes back: all but its number and time, which are of
    the telling.
    """
    return [
        (event.id, event.kind, {k: v for k, v in event.data.items() if k not in ("seq", "at")})
        for event in events
        if event.id or event.kind == "reply"
    ]


async def test_a_chat_as_events_ends_with_the_reply(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        events = await ada.all_events("POST", "/chat", json={"message": "add Buy milk"})
        kinds = [event.kind for event in events]
        assert kinds[0] == "run_start"
        assert kinds[-2:] == ["run_end", "reply"]
        assert {"tool_call", "tool_call_start", "tool_call_end"} <= set(kinds)
        assert not {"message", "usage", "reasoning_delta", "turn_start"} & set(kinds)
        assert all(
            (event.id is None) == (event.kind in ("text_delta", "reply")) for event in events
        )
        assert (
            events[-1].data["response"]
            == events[-2].data["text"]
            == "Got it! Added 'Buy milk' to your list. Anything else?"
        )
        assert (
            "".join(event.data["text"] for event in events if event.kind == "text_delta")
            == events[-1].data["response"]
        )
        assert ada.user_id not in str(events)


async def test_a_stream_that_is_gone_on_with_at_any_id_is_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        body = {"message": "add Buy milk, Buy bread"}
        whole = durable(await ada.all_events("POST", "/chat", json=body))
        body["conversation_id"] = whole[-1][2]["conversation_id"]
        run_id = whole[0][2]["run_id"]
        for at, (event_id, _, _) in enumerate(whole[:-1]):
            assert event_id is not None
            headers = {"Last-Event-ID": event_id}
            assert (
                durable(await ada.all_events("POST", "/chat", json=body, headers=headers))
                == whole[at + 1 :]
            )
            assert (
                durable(await ada.all_events("GET", f"/runs/{run_id}/events", headers=headers))
                == whole[at + 1 :]
            )
            assert (
                durable(
                    await ada.all_events(
                        "GET", f"/runs/{run_id}/events", params={"after": event_id}
                    )
                )
                == whole[at + 1 :]
            )
        assert durable(await ada.all_events("GET", f"/runs/{run_id}/events")) == whole
        assert await ada.titles() == ["Buy milk", "Buy bread"], "nothing was said again"


async def test_a_stream_under_way_is_joined_without_gap_or_double(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada, served.person("bob") as bob:
        seen: list[list[Event]] = []
        whole: list[tuple[str | None, str, dict[str, Any]]] = []

        async def read(run_id: str) -> None:
            seen.append(await ada.all_events("GET", f"/runs/{run_id}/events"))

        async with (
            anyio.create_task_group() as group,
            ada.events("POST", "/chat", json={"message": "wait and see"}) as events,
        ):
            first = await anext(events)
            run_id = first.data["run_id"]
            assert (await bob.ask("GET", f"/runs/{run_id}/events")).status_code == 404
            await served.model.waits.wait()
            for _ in range(3):
                group.start_soon(read, run_id)
            while len(served.service.live.channels) < 4:
                await anyio.lowlevel.checkpoint()
            served.model.go.set()
            whole = durable([first, *[event async for event in events]])
        assert [durable(events) for events in seen] == [whole] * 3


async def test_a_stream_that_is_opened_as_the_run_ends_has_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as served, served.person() as ada:

        async def then_it_ends(service: Service, scope: Scope, run: ServedRun) -> list[Any]:
            so_far = await events_so_far(service, scope, run)
            if (live := service.live.get(run.run_id)) is not None:
                served.model.go.set()
                await live.over.wait()
            return so_far

        monkeypatch.setattr(following, "events_so_far", then_it_ends)
        async with ada.events("POST", "/chat", json={"message": "wait"}) as events:
            run_id = (await anext(events)).data["run_id"]
            await served.model.waits.wait()
            joined = await ada.all_events("GET", f"/runs/{run_id}/events")
        assert durable(joined) == durable(await ada.all_events("GET", f"/runs/{run_id}/events"))
        assert [event.kind for event in joined][-2:] == ["run_end", "reply"]


async def test_another_message_is_no_going_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada, served.person("bob") as bob:
        conversation_id = (await ada.chat("hello"))["conversation_id"]
        headers = {"Accept": "text/event-stream", "Last-Event-ID": "1.0"}

        async def again(person: Person, message: str, conversation: str | None) -> int:
            body = (
                {"message": message}
                if conversation is None
                else {"message": message, "conversation_id": conversation}
            )
            return (await person.ask("POST", "/chat", json=body, headers=headers)).status_code

        assert await again(ada, "something else", conversation_id) == 409
        assert await again(ada, "hello", None) == 404
        assert await again(bob, "hello", conversation_id) == 404
        headers["Last-Event-ID"] = "x"
        assert await again(ada, "hello", conversation_id) == 422


async def test_more_streams_than_a_person_may_have_are_refused_and_start_nothing(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, streams=1) as served, served.person() as ada:
        async with ada.events("GET", "/tasks/events") as events:
            await anext(events)
            refused = await ada.ask(
                "POST",
                "/chat",
                json={"message": "add Buy milk"},
                headers={"Accept": "text/event-stream"},
            )
            assert refused.status_code == 429
        assert await ada.titles() == []
        while len(served.service.live.channels):
            await anyio.lowlevel.checkpoint()
        assert (await ada.all_events("POST", "/chat", json={"message": "hello"}))[
            -1
        ].kind == "reply"


async def test_changed_tasks_are_told_to_their_person_alone(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as served,
        served.person() as ada,
        served.person("bob") as bob,
        AsyncExitStack() as stack,
    ):
        hers, his = [
            await stack.enter_async_context(person.events("GET", "/tasks/events"))
            for person in (ada, bob)
        ]
        with anyio.fail_after(10):
            assert [(await anext(events)).kind for events in (hers, his)] == ["tasks", "tasks"]
            await ada.chat("add Buy milk")
            assert (await anext(hers)).kind == "tasks"
            await ada.ask("POST", "/tasks", json={"title": "Buy bread"})
            assert (await anext(hers)).kind == "tasks"
            with anyio.move_on_after(0.05):
                pytest.fail(f"bob was told {await anext(his)}")


async def test_a_reader_that_takes_nothing_slows_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, served.person() as ada:
        with await _deaf(served, ada, "say 20000"):
            quick = await ada.all_events("POST", "/chat", json={"message": "say 50"})
            assert quick[-1].kind == "reply"
            assert await ada.chat("hello")
        while len(served.service.live):
            await anyio.sleep(0.01)


async def _deaf(served: Served, person: Person, message: str) -> socket.socket:
    """A client that asks for a stream and never reads it."""
    host, port = urlsplit(served.url).hostname, urlsplit(served.url).port
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, port))
    body = f'{{"message": "{message}"}}'.encode()
    head = f"POST /chat HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
    client.sendall(
        f"{head}Authorization: {person.headers['Authorization']}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return client


# ---------------------------------------------------------------- one reader's queue


async def test_a_full_queue_drops_what_is_lossy_and_keeps_the_rest_in_order() -> None:
    reader = Reader()
    for _number in range(QUEUE_MOST):
        reader.put(EncodedEvent(b"d", lossy=True))
    reader.put(EncodedEvent(b"1", "run", (1, 0)))
    reader.put(EncodedEvent(b"2", "run", (2, 0), last=True))
    assert await reader.read() == b"12"
    assert await reader.read() is None


async def test_a_reader_that_falls_behind_is_cut_after_what_it_has() -> None:
    reader = Reader()
    for number in range(QUEUE_MOST + 5):
        reader.put(EncodedEvent(b"x", "run", (number + 1, 0)))
    assert await reader.read() == b"x" * QUEUE_MOST
    assert await reader.read() == BEHIND
    assert await reader.read() is None


async def test_what_was_read_elsewhere_is_passed_over() -> None:
    reader = Reader()
    for number in range(1, 6):
        reader.put(EncodedEvent(str(number).encode(), "run", (number, 0)))
    reader.pass_over("run", (3, 0))
    assert await reader.read() == b"45"


async def test_a_quiet_stream_is_said_to_be_there_and_ends_in_time() -> None:
    reader = Reader()
    said: list[bytes | None] = []
    for _ in range(60):
        reader.beat()
        said.append(await reader.read())
    assert said[0] is not None
    assert said[0].startswith(b": ")
    assert said[-1] == OLD


async def test_who_left_is_told_nothing() -> None:
    channels = Channels()
    readers = [channels.open("a") for _ in range(3)]
    channels.leave("a", readers[0])
    channels.tell("a", EncodedEvent(b"x", last=True))
    assert [await reader.read() for reader in readers[1:]] == [b"x", b"x"]
    for reader in readers:
        channels.leave("a", reader)
    assert len(channels) == 0
    assert not channels.is_read("a")
