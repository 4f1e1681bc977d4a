"""`treadle tasks mcp` as a client starts it: a process, its standard input and output."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from tests.fork_server import command
from treadle.apps.assistant.caller import ToolResponse


def started(home: Path, *options: str) -> AbstractAsyncContextManager[Client]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TREADLE_HOME": str(home / "home")}
    program, *words = command("treadle", "tasks", *options)
    return Client(StdioServerParameters(command=program, args=words, env=env))


async def called(client: Client, tool: str, **arguments: Any) -> ToolResponse:
    (content,) = (await client.call_tool(tool, arguments)).content
    assert isinstance(content, TextContent)
    return msgspec.json.decode(content.text, type=ToolResponse)


async def test_tasks_are_kept_from_one_process_to_the_next_for_whoever_is_at_the_terminal(
    tmp_path: Path,
):
    async with started(tmp_path, "mcp") as client:
        assert len((await client.list_tools()).tools) == 8
        assert (await called(client, "add_task", title="From MCP")).success
        asked = await called(client, "delete_task", task="From MCP")
        assert asked.error is not None
        assert asked.error.code == "confirm"
    assert (tmp_path / "home" / "tasks.db").is_file()
    async with started(tmp_path, "mcp") as client:
        assert (await called(client, "complete_task", task="from mcp")).success
        assert (
            await called(client, "delete_task", task="From MCP", confirm=asked.error.confirm)
        ).error is not None, "it was changed since"


@pytest.mark.parametrize("order", [("mcp", "--database"), ("--database", "mcp")])
async def test_the_database_may_be_another(tmp_path: Path, order: tuple[str, str]):
    url = f"sqlite:///{tmp_path}/other.db"
    options = [word for one in order for word in ((one, url) if one == "--database" else (one,))]
    async with started(tmp_path, *options) as client:
        assert (await called(client, "add_task", title="x")).success
    assert (tmp_path / "other.db").is_file()
