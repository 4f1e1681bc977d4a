"""The reference servers of the protocol's authors, `server-everything` and `server-filesystem`, which `make peers` installs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp.conftest import Use, free_port, listening
from treadle.message import MediaPart
from treadle.tooling import InvalidArguments, ToolFailed
from treadle.tools.mcp import McpServer, McpServers, Question
from treadle.tools.mcp.tool import McpTool

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[3]
REQUIRED = "TREADLE_TEST_PEERS"


def program(name: str) -> str:
    """Of a package of the reference servers; the test is skipped where it is not there."""
    file = ROOT / ".peers" / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    missing = "node is not on the PATH" if shutil.which("node") is None else None if file.is_file() else f"{name} is not in .peers: `make peers` installs it"
    if missing is not None and os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{REQUIRED}=required, and {missing}")
    if missing is not None:
        pytest.skip(missing)
    return str(file)


@pytest.fixture(scope="session")
def everything_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with listening(["node", program("server-everything"), "streamableHttp"], port, tmp_path_factory.mktemp("everything") / "log", PORT=str(port)) as url:
        yield url


@pytest.fixture(params=["stdio", "http"])
def everything(request: pytest.FixtureRequest) -> McpServer:
    if request.param == "http":
        return McpServer(name="every", url=request.getfixturevalue("everything_url"), start_timeout_s=60)
    return McpServer(name="every", command=["node", program("server-everything"), "stdio"], start_timeout_s=60)


async def ask(question: Question) -> Mapping[str, Any]:
    assert question.schema is not None
    return {"name": "Ada", "check": True}


async def test_everything_is_there(everything: McpServer, call: Use) -> None:
    told: list[tuple[Any, ...]] = []

    def report(*how: Any) -> None:
        told.append(how)

    async with McpServers(ask=ask) as servers:
        tools = await servers.tools([everything], warn=report)
        assert told == []
        assert await call(tools, "echo", message="hello") == "Echo: hello"
        assert "42" in await call(tools, "get-sum", a=40, b=2)
        image = await call(tools, "get-tiny-image")
        assert any(isinstance(part, MediaPart) and part.media_type == "image/png" for part in image)
        assert "temperature" in await call(tools, "get-structured-content", location="Chicago")
        await call(tools, "trigger-long-running-operation", {"report": report}, duration=1, steps=3)
        assert told[-1][1:] == (3.0, 3.0)
        with pytest.raises(InvalidArguments, match="message"):
            await call(tools, "echo")


async def test_everything_asks_a_person(everything: McpServer, call: Use) -> None:
    async with McpServers(ask=ask) as servers:
        tools = await servers.tools([everything], warn=print)
        assert "Ada" in str(await call(tools, "trigger-elicitation-request"))
    async with McpServers() as servers:
        assert "every_trigger-elicitation-request" not in [tool.name for tool in await servers.tools([everything], warn=print)]


async def test_the_filesystem_keeps_to_its_folder(servers: McpServers, call: Use, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").write_text("secret")
    server = McpServer(name="files", command=["node", program("server-filesystem"), str(folder)], tools=["write_file", "read_text_file"], start_timeout_s=60)
    tools: list[McpTool] = await servers.tools([server], warn=print)
    assert sorted(tool.name for tool in tools) == ["files_read_text_file", "files_write_file"]
    await call(tools, "write_file", path=str(folder / "x.txt"), content="hello")
    assert (folder / "x.txt").read_text() == "hello"
    assert "hello" in await call(tools, "read_text_file", path=str(folder / "x.txt"))
    with pytest.raises(ToolFailed, match="outside"):
        await call(tools, "read_text_file", path=str(tmp_path / "outside"))
