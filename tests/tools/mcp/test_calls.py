"""What a call of an MCP tool gives, over both transports and in both eras of the protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from tests.doubles import skip
from tests.tools.mcp.conftest import Use, ours
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.mcp import McpServer, McpServers, ServerQuestion
from treadle.tools.mcp.tool import McpTool
from treadle.tools.tool import InvalidArguments, Tool, ToolFailed

pytestmark = [pytest.mark.anyio]

PLACES = [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")]


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def server(request: pytest.FixtureRequest) -> McpServer:
    how, protocol = request.param
    return (
        ours(protocol=protocol)
        if how == "stdio"
        else McpServer(name="ours", url=request.getfixturevalue("our_url"), protocol=protocol)
    )


async def tools_of(servers: McpServers, server: McpServer) -> list[McpTool]:
    warnings: list[str] = []
    tools = await servers.tools([server], warn=warnings.append)
    assert warnings == []
    return tools


async def test_a_tool_gives_what_its_server_gives(
    servers: McpServers, server: McpServer, call: Use
) -> None:
    tools = await tools_of(servers, server)
    assert all(isinstance(tool, Tool) for tool in tools)
    assert tools[0].definition.name == "ours_add"
    assert tools[0].definition.description == "Adds two numbers."
    assert await call(tools, "add", a=1, b=2) == "3"
    assert await call(tools, "big", size=2_000_000) == "x" * 2_000_000


async def test_a_tool_that_fails_tells_the_model_why(
    servers: McpServers, server: McpServer, call: Use
) -> None:
    tools = await tools_of(servers, server)
    with pytest.raises(ToolFailed, match="fail") as failed:
        await call(tools, "fail", why="the disk is full")
    assert failed.value.happened is True
    with pytest.raises(InvalidArguments, match="missing"):
        await call(tools, "add", a=1)


async def test_images_are_shown_by_their_bytes_and_resources_as_text(
    servers: McpServers, server: McpServer, call: Use
) -> None:
    tools = await tools_of(servers, server)
    first, image, rest = await call(tools, "with_dots_" + tools[2].name.rpartition("_")[2])
    assert first == TextPart(text="one\ntwo")
    assert isinstance(image, MediaPart)
    assert image.media_type == "image/png"
    assert rest.text.splitlines() == [
        "[an image, image/png, 9 bytes: not shown, because models take none of the kind, or none so large]",
        "[resource file:///x.txt]",
        "inside",
        "[resource 'more' at file:///y.txt (text/plain, 7 bytes)]",
    ]


async def test_progress_is_told(servers: McpServers, server: McpServer, call: Use) -> None:
    told: list[tuple[Any, ...]] = []

    def report(*how: Any) -> None:
        told.append(how)

    tools = await tools_of(servers, server)
    assert await call(tools, "count", {"report": report}, to=3) == "counted"
    assert told[-1] == ("at 3", 3.0, 3.0)


async def test_a_cancelled_call_is_stopped_at_the_server(
    servers: McpServers, server: McpServer, call: Use, tmp_path: Path
) -> None:
    tools, mark = await tools_of(servers, server), tmp_path / "mark"
    async with anyio.create_task_group() as group:
        group.start_soon(partial(call, tools, "wait", mark=str(mark)))
        await there(tmp_path / "mark.begun")
        group.cancel_scope.cancel()
    await there(mark)
    assert await call(tools, "add", a=2, b=2) == "4"


async def test_a_call_that_takes_too_long_is_stopped_and_harms_no_other(
    servers: McpServers, server: McpServer, call: Use, tmp_path: Path
) -> None:
    tools = await tools_of(servers, server)
    server = msgspec.structs.replace(server, timeout_s=100)
    hasty, mark = await tools_of(servers, server), tmp_path / "mark"

    async def pass_time() -> None:
        await there(tmp_path / "mark.begun")
        skip(150)

    async with anyio.create_task_group() as group:
        group.start_soon(pass_time)
        with pytest.raises(ToolFailed, match="no answer within 100 s") as failed:
            await call(hasty, "wait", mark=str(mark))
    assert failed.value.happened is None
    await there(mark)
    assert await call(hasty, "add", a=2, b=2) == "4"
    assert await call(tools, "add", a=2, b=3) == "5"


async def test_calls_run_side_by_side(servers: McpServers, server: McpServer, call: Use) -> None:
    tools, sums = await tools_of(servers, server), dict[int, str]()

    async def add(i: int) -> None:
        sums[i] = await call(tools, "add", a=i, b=i)

    async with anyio.create_task_group() as group:
        for i in range(50):
            group.start_soon(add, i)
    assert sums == {i: str(2 * i) for i in range(50)}


async def test_a_person_is_asked_what_the_server_asks(server: McpServer, call: Use) -> None:
    asked: list[ServerQuestion] = []

    async def ask(question: ServerQuestion) -> Mapping[str, Any]:
        asked.append(question)
        return {"name": "Ada"}

    async with McpServers(ask=ask) as servers:
        assert await call(await tools_of(servers, server), "meet") == "hello Ada"
    (question,) = asked
    assert (
        question.server,
        question.message,
        question.tool,
        question.run_id,
        question.call_id,
    ) == ("ours", "Who are you?", "ours_meet", "run_1", "call_1")
    assert question.schema is not None
    assert question.schema["required"] == ["name"]


async def test_whoever_does_not_answer_declines(server: McpServer, call: Use) -> None:
    answers: list[Any] = [None, {"name": {"no": "plain value"}}, RuntimeError("the front broke")]

    async def ask(_: ServerQuestion) -> Any:
        answer = answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with McpServers(ask=ask) as servers:
        tools = await tools_of(servers, server)
        while answers:
            assert await call(tools, "meet") == "they said decline"


async def test_the_time_in_which_a_person_thinks_is_not_the_calls(
    server: McpServer, call: Use
) -> None:
    server = msgspec.structs.replace(server, timeout_s=100)

    async def ask(_: ServerQuestion) -> Mapping[str, Any]:
        skip(150)
        await anyio.lowlevel.checkpoint()
        return {"name": "Ada"}

    async with McpServers(ask=ask) as servers:
        assert await call(await tools_of(servers, server), "meet") == "hello Ada"


async def test_where_nobody_can_be_asked_the_call_fails_with_a_reason(
    servers: McpServers, server: McpServer, call: Use
) -> None:
    with pytest.raises(ToolFailed, match="elicit"):
        await call(await tools_of(servers, server), "meet")


async def test_an_answer_that_is_too_long_costs_this_call_alone(
    servers: McpServers, server: McpServer, call: Use
) -> None:
    tools = await tools_of(servers, server)
    with pytest.raises(
        ToolFailed, match=r"longer than 8 MiB|exceeded the 8388608 byte limit"
    ) as failed:
        await call(tools, "big", size=9_000_000)
    assert failed.value.happened is None
    assert await call(tools, "add", a=1, b=1) == "2"


async def there(path: Path) -> None:
    with anyio.fail_after(30):
        while not os.path.exists(path):
            await anyio.sleep(0.01)
