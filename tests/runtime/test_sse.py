"""The text and the server-sent events of a run, as a web framework reads them."""

from __future__ import annotations

import socket
from typing import Any

import anyio
import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.doubles import agent, asks, call, open_runtime, says
from treadle import tool
from treadle.runtime.runtime import Runtime


@tool(effect="pure")
def look() -> str:
    """Look around."""
    return "rain"


def answers() -> list[dict[str, Any]]:
    return [asks(call("look", "a"), text="I look. "), says("Rain.")]


@pytest.fixture
def rt() -> Runtime:
    return open_runtime()


async def test_the_text_is_read_as_it_comes(rt: Runtime) -> None:
    async with rt.stream(agent(answers(), look), "go") as run:
        assert [text async for text in run.text_stream()] == ["I look. ", "Rain."]
    assert run.result.text == "Rain."


async def test_events_are_server_sent_events_with_their_ids(rt: Runtime) -> None:
    stream = rt.stream(agent(answers(), look), "go")
    frames = [frame async for frame in stream.sse()]
    events = await rt.events(stream.run_id)
    assert frames[0].startswith(b"id: 1.0\nevent: run_start\ndata: {")
    assert all(frame.endswith(b"\n\n") and frame.count(b"\n") <= 4 for frame in frames)
    durable = [frame for frame in frames if frame.startswith(b"id: ")]
    assert [frame.split(b"\n")[1] for frame in durable] == [
        b"event: " + event.type.encode() for event in events
    ]
    last = msgspec.json.decode(frames[-1].partition(b"data: ")[2])
    assert (last["type"], last["outcome"]) == ("run_end", "completed")


async def test_a_client_that_disconnects_cancels_its_run(rt: Runtime) -> None:
    waits, streams = anyio.Event(), list[Any]()

    @tool(effect="pure")
    async def wait() -> str:
        waits.set()
        await anyio.sleep_forever()
        return ""

    async def ask(request: Request) -> StreamingResponse:
        streams.append(rt.stream(agent([asks(call("wait", "a"))], wait), "go"))
        return StreamingResponse(streams[0].sse(), media_type="text/event-stream")

    listening = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/ask", ask)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listening])
        client = await anyio.connect_tcp(*listening.getsockname())
        await client.send(b"GET /ask HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"event: run_start" in await _until(client, b"event: tool_call_start")
        await waits.wait()
        await client.aclose()
        while (await rt.journal.info(streams[0].run_id)).status != "finished":
            await anyio.sleep(0.01)
        server.should_exit = True
    assert streams[0].result.outcome.value == "cancelled"


async def _until(client: anyio.abc.ByteReceiveStream, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += await client.receive()
    return seen
