"""The reference servers of the protocol's authors, `server-everything` and `server-filesystem`,
which `make peers` installs.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from tests.tools.mcp.conftest import Use, free_port, listening
from treadle.messages.message import MediaPart
from treadle.tools.mcp import McpServer, McpServers, ServerQuestion
from treadle.tools.mcp.tool import McpTool
from treadle.tools.tool import InvalidArguments, ToolFailed

pytestmark = [pytest.mark.anyio]

ROOT = Path(__file__).resolve().parents[3]
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
REQUIRED = "TREADLE_TEST_PEERS"


def program(name: str) -> str:
    """Of a package of the reference servers."""
    return installed(f"@modelcontextprotocol/{name}", "dist/index.js")


def bridge_program() -> str:
    return installed("mcp-proxy", "dist/bin/mcp-proxy.mjs")


def installed(name: str, inside: str) -> str:
    """The test is skipped where it is not there."""
    file = ROOT / ".peers" / "node_modules" / name / inside
    missing = (
        "node is not on the PATH"
        if shutil.which("node") is None
        else None
        if file.is_file()
        else f"{name} is not in .peers: `make peers` installs it"
    )
    if missing is not None and os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{REQUIRED}=required, and {missing}")
    if missing is not None:
        pytest.skip(missing)
    return str(file)


@pytest.fixture(scope="session")
def everything_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with listening(
        ["node", program("server-everything"), "streamableHttp"],
        port,
        tmp_path_factory.mktemp("everything") / "log",
        PORT=str(port),
    ) as url:
        yield url


@pytest.fixture(params=["stdio", "http"])
def everything(request: pytest.FixtureRequest) -> McpServer:
    if request.param == "http":
        return McpServer(
            name="every", url=request.getfixturevalue("everything_url"), start_timeout_s=60
        )
    return McpServer(
        name="every", command=["node", program("server-everything"), "stdio"], start_timeout_s=60
    )


async def ask(question: ServerQuestion) -> Mapping[str, Any]:
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
        assert "every_trigger-elicitation-request" not in [
            tool.name for tool in await servers.tools([everything], warn=print)
        ]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one folder of `server-filesystem`, beside which lies what it must not show."""
    folder = tmp_path_factory.mktemp("files") / "folder"
    folder.mkdir()
    (folder.parent / "outside").write_text("secret")
    (folder / "way-out").symlink_to(folder.parent)
    return folder


@pytest.fixture(scope="session")
def files_url(shared_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """It speaks stdio alone:

    `mcp-proxy`, which speaks both eras of the protocol, carries it over HTTP.
    """
    port = free_port()
    bridge = [
        "node",
        bridge_program(),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--server",
        "stream",
        "--",
    ]
    with listening(
        [*bridge, "node", program("server-filesystem"), str(shared_folder)],
        port,
        tmp_path_factory.mktemp("bridge") / "log",
    ) as url:
        yield url


@pytest.fixture(params=["stdio", "http", "http-legacy"])
def files(request: pytest.FixtureRequest, shared_folder: Path) -> McpServer:
    if request.param == "stdio":
        return McpServer(
            name="files",
            command=["node", program("server-filesystem"), str(shared_folder)],
            start_timeout_s=60,
        )
    protocol = "legacy" if request.param == "http-legacy" else "auto"
    return McpServer(
        name="files",
        url=request.getfixturevalue("files_url"),
        protocol=protocol,
        start_timeout_s=60,
    )


async def test_the_filesystem_keeps_to_its_folder(
    files: McpServer, servers: McpServers, call: Use, shared_folder: Path
) -> None:
    files = msgspec.structs.replace(files, tools=["write_file", "read_text_file"])
    tools: list[McpTool] = await servers.tools([files], warn=pytest.fail)
    assert sorted(tool.name for tool in tools) == ["files_read_text_file", "files_write_file"]
    await call(tools, "write_file", path=str(shared_folder / "x.txt"), content="hello ✓")
    assert (shared_folder / "x.txt").read_text(encoding="utf-8") == "hello ✓"
    assert "hello ✓" in await call(tools, "read_text_file", path=str(shared_folder / "x.txt"))
    for path in (
        shared_folder.parent / "outside",
        shared_folder / "way-out" / "outside",
        shared_folder / ".." / "outside",
    ):
        with pytest.raises(ToolFailed, match="outside") as refused:
            await call(tools, "read_text_file", path=str(path))
        assert "secret" not in refused.value.message


async def test_the_filesystem_makes_edits_moves_and_shows_files(
    files: McpServer, servers: McpServers, call: Use, shared_folder: Path
) -> None:
    tools = await servers.tools([files], warn=pytest.fail)
    folder = shared_folder / f"new {files.protocol} {bool(files.url)}"
    await call(tools, "create_directory", path=str(folder))
    await call(tools, "write_file", path=str(folder / "a.txt"), content="one\ntwo\n")
    assert "+TWO" in await call(
        tools, "edit_file", path=str(folder / "a.txt"), edits=[{"oldText": "two", "newText": "TWO"}]
    )
    await call(tools, "move_file", source=str(folder / "a.txt"), destination=str(folder / "b.txt"))
    assert "[FILE] b.txt" in await call(tools, "list_directory", path=str(folder))
    assert (folder / "b.txt").read_text() == "one\nTWO\n"
    (folder / "dot.png").write_bytes(base64.b64decode(DOT))
    shown = await call(tools, "read_media_file", path=str(folder / "dot.png"))
    assert any(isinstance(part, MediaPart) and part.media_type == "image/png" for part in shown)
    with pytest.raises(ToolFailed) as missed:
        await call(tools, "read_text_file", path=str(folder / "none.txt"))
    assert missed.value.happened is True


async def test_many_calls_of_the_filesystem_at_once_get_their_own_answers(
    files: McpServer, servers: McpServers, call: Use, shared_folder: Path
) -> None:
    tools = await servers.tools([files], warn=pytest.fail)
    found: dict[int, str] = {}

    async def read(number: int) -> None:
        found[number] = await call(
            tools, "read_text_file", path=str(shared_folder / f"many{number}.txt")
        )

    for number in range(32):
        (shared_folder / f"many{number}.txt").write_text(f"file {number}")
    async with anyio.create_task_group() as group:
        for number in range(32):
            group.start_soon(read, number)
    assert found == {number: f"file {number}" for number in range(32)}
