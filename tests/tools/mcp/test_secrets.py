"""Keys of providers reach no server, and what is secret of a server reaches nobody else."""

from __future__ import annotations

import http.server
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from typing_extensions import override

from tests.tools.mcp.conftest import Use, ours
from treadle._internal.environment import child_environment
from treadle._internal.redaction import Secret
from treadle.config import load
from treadle.errors import AgentError
from treadle.tools.mcp import McpServer, McpServers
from treadle.tools.tool import ToolFailed

pytestmark = [pytest.mark.anyio]

CANARY = "CANARY-0123456789"


async def test_a_program_has_its_own_variables_and_no_key_of_a_provider(
    call: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-some-key-of-mine")
    monkeypatch.setenv("MY_COPY", "xx-other-key-of-mine-xx")
    async with McpServers(environment=child_environment(["other-key-of-mine"])) as servers:
        tools = await servers.tools(
            [ours(env={"PLAIN": "plain", "TOKEN": Secret(CANARY)})], warn=print
        )
        assert await call(tools, "variable", name="ANTHROPIC_API_KEY") == "not there"
        assert await call(tools, "variable", name="MY_COPY") == "not there"
        assert await call(tools, "variable", name="PLAIN") == "plain"
        assert await call(tools, "variable", name="TOKEN") == "[redacted]"


async def test_headers_reach_the_server_and_nothing_else(
    servers: McpServers, our_url: str, call: Use
) -> None:
    server = McpServer(
        name="ours",
        url=our_url + f"?key={CANARY}",
        headers={"X-Token": CANARY, "Authorization": f"Bearer {CANARY}2", "X-Plain": "plain"},
    )
    tools = await servers.tools([server], warn=print)
    assert await call(tools, "header", name="x-plain") == "plain"
    assert await call(tools, "header", name="x-token") == "[redacted]"
    assert CANARY not in await call(tools, "header", name="authorization")
    assert CANARY not in repr(server) + server.place


KEY_IN_PATH = "mcp_9f8A7b6C5d4E3f2A1b0C"


def test_a_key_in_the_path_of_an_address_is_shown_nowhere(tmp_path: Path) -> None:
    """C9: hosted servers are often named that way."""
    server = McpServer(name="hosted", url=f"https://mcp.example/s/{KEY_IN_PATH}/mcp")
    assert server.place == "https://mcp.example/s/[redacted]/mcp"
    assert KEY_IN_PATH in server.secrets
    assert KEY_IN_PATH not in repr(server)
    named = McpServer(name="named", url="https://mcp.example/modelcontextprotocol-server-2025/v1")
    assert named.place == named.url
    (tmp_path / "config.yaml").write_text(f"mcp_servers: {{hosted: {{url: '{server.url}'}}}}")
    config = load(env={"TREADLE_HOME": str(tmp_path)}, cwd=tmp_path)
    assert KEY_IN_PATH in config.secrets()


class _Host(http.server.ThreadingHTTPServer):
    """Answers everything with one status, and keeps which tokens it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.tokens: list[str] = []
        self.status, self.elsewhere = 307, ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        host = cast("_Host", self.server)
        host.tokens.append(self.headers.get("x-token", ""))
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(host.status)
        if host.status == 307:
            self.send_header("location", host.elsewhere)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_DELETE = do_POST

    @override
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def two_hosts() -> Iterator[tuple[_Host, _Host]]:
    with _Host() as first, _Host() as second:
        first.elsewhere = second.url
        for host in (first, second):
            threading.Thread(target=host.serve_forever, daemon=True).start()
        yield first, second
        first.shutdown()
        second.shutdown()


async def test_a_redirect_to_another_host_carries_nothing_there(
    servers: McpServers, two_hosts: tuple[_Host, _Host], warnings: list[str]
) -> None:
    first, second = two_hosts
    assert (
        await servers.tools(
            [McpServer(name="r", url=first.url, headers={"x-token": CANARY})], warn=warnings.append
        )
        == []
    )
    assert CANARY in first.tokens
    assert second.tokens == []
    assert "not followed" in warnings[0]


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "refuses our credentials (status 401)"),
        (429, "takes no more requests"),
        (503, "answered with status 503"),
    ],
)
async def test_a_status_is_told_in_words(
    servers: McpServers, two_hosts: tuple[_Host, _Host], warnings: list[str], status: int, says: str
) -> None:
    two_hosts[0].status = status
    await servers.tools(
        [
            McpServer(
                name="r", url=f"{two_hosts[0].url}?api_key={CANARY}", headers={"x-token": CANARY}
            )
        ],
        warn=warnings.append,
    )
    assert says in warnings[0]
    assert CANARY not in warnings[0]


async def test_a_server_that_nobody_runs_is_told_without_its_keys(
    servers: McpServers, warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await servers.tools(
        [
            McpServer(
                name="r",
                url=f"http://me:{CANARY}@127.0.0.1:9/mcp?key={CANARY}",
                headers={"x": CANARY},
            )
        ],
        warn=warnings.append,
    )
    assert "cannot be reached" in warnings[0]
    assert CANARY not in "".join([*warnings, *(record.getMessage() for record in caplog.records)])


async def test_what_libraries_log_of_requests_has_no_keys(
    servers: McpServers, our_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await servers.tools(
        [McpServer(name="ours", url=f"{our_url}?key={CANARY}", headers={"x-token": CANARY})],
        warn=print,
    )
    logged = "".join(record.getMessage() for record in caplog.records)
    assert "HTTP Request: POST" in logged
    assert CANARY not in logged


def test_what_the_sdk_logs_is_not_printed_where_nobody_wants_logs() -> None:
    code = "import logging, treadle.tools.mcp.connection; logging.getLogger('mcp.client.session').error('loud')"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stderr
        == ""
    )


async def test_a_dying_server_says_none_of_its_secrets(servers: McpServers, call: Use) -> None:
    tools = await servers.tools([ours(env={"TOKEN": "hunter2hunter2"})], warn=print)
    with pytest.raises(ToolFailed) as failed:
        await call(tools, "leave")
    assert "hunter2" not in failed.value.message
    assert "out of memory" in failed.value.message


def test_the_configuration_makes_servers(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        f"mcp_servers: {{a: {{command: [serve], env: {{T: {CANARY}}}, tools: [x], timeout_s: 5, trust_hints: true}},\n"
        "  b: {url: 'https://h/mcp', headers: {X: y}}}\n"
    )
    (tmp_path / "config.yaml").chmod(0o600)
    config = load(env={"TREADLE_HOME": str(tmp_path), "HOME": str(tmp_path)}, cwd=tmp_path)
    a, b = (McpServer.of(name, settings) for name, settings in config.mcp_servers.items())
    assert (a.name, [*a.command], a.tools, a.timeout_s, a.trust_hints) == (
        "a",
        ["serve"],
        ("x",),
        5,
        True,
    )
    assert (b.name, b.url, b.trust_hints, b.timeout_s) == ("b", "https://h/mcp", False, 60)
    assert CANARY not in repr(a)


def test_no_project_can_make_hints_count(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".treadle").mkdir(parents=True)
    (project / ".treadle" / "config.yaml").write_text(
        "mcp_servers: {a: {command: [serve], trust_hints: true}}\n"
    )
    config = load(
        env={"TREADLE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
        cwd=project,
        trusted=True,
    )
    assert config.mcp_servers["a"].trust_hints is False
    assert any("trust_hints is ignored" in warning for warning in config.warnings)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": "a b", "command": ["x"]}, "its name is letters"),
        ({"name": "a"}, "either a command or a url"),
        ({"name": "a", "command": ["x"], "url": "http://h"}, "either a command or a url"),
        ({"name": "a", "url": "file:///etc/passwd"}, "one of http or https"),
        ({"name": "a", "url": "http://"}, "one of http or https"),
        ({"name": "a", "command": ["x"], "headers": {"a": "b"}}, "are for a server with a url"),
        ({"name": "a", "url": "http://h", "env": {"a": "b"}}, "are for a server with a command"),
        ({"name": "a", "command": ["x"], "env": {"a": "b\0"}}, "NUL"),
        ({"name": "a", "command": ["x"], "timeout_s": 0}, "more than 0"),
        ({"name": "a", "command": "npx server"}, "command= takes a list of texts"),
        ({"name": "a", "command": ["x"], "tools": "search"}, "tools= takes a list of texts"),
        ({"name": "a", "command": ["x"], "env": {"A": 5}}, "env= takes texts by name"),
        ({"name": "a", "command": ["x"], "env": ["A"]}, "env= takes texts by name"),
        (
            {"name": "a", "url": "http://h", "headers": {"A": CANARY + "\r\nB: c"}},
            "a header cannot contain a line break",
        ),
    ],
)
def test_what_cannot_be_a_server_is_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(AgentError, match=says) as refused:
        McpServer(**fields)  # pyright: ignore[reportArgumentType]  it is wrong on purpose
    assert refused.value.kind == "invalid"
    assert CANARY not in refused.value.message
