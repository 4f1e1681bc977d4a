"""MCP tools in runs: the journal, the policy and the trace."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.doubles import PlayedModel, asks, call, says, text, wishes
from tests.tools.mcp.conftest import Use, bad, ours
from treadle import Agent, Limits, Runtime, ToolContext, tool
from treadle.messages.events import Warned
from treadle.messages.message import Message, ToolResult
from treadle.models.model import Delta, ModelRequest
from treadle.testing import ScriptedModel
from treadle.tools.mcp import McpServer, McpServers

pytestmark = [pytest.mark.anyio]

CANARY, MORE = "CANARY-0123456789", "CANARY-9876543210"


def results(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


async def test_a_call_that_the_death_of_its_server_cut_is_unknown_and_the_run_goes_on(
    servers: McpServers,
) -> None:
    model = ScriptedModel([asks(call("bad_do")), asks(call("bad_other")), says("done")])
    agent = Agent(name="a", model=model, tools=await servers.tools([bad("dies")], warn=print))
    async with Runtime() as rt:
        result = await rt.run(agent, "go", mode="full")
    assert result.outcome == "completed"
    first, second = results(result.messages)
    assert (first.is_error, first.unknown) == (True, True)
    assert "it ended with exit code 7" in first.text
    assert (second.is_error, second.text) == (False, "other is well")


async def test_a_tool_asks_before_it_runs_unless_its_hints_are_believed(
    servers: McpServers,
) -> None:
    script = [asks(call("ours_add", a=1, b=1), call("trusted_add", a=2, b=2)), says("done")]
    tools = await servers.tools([ours(), ours(name="trusted", trust_hints=True)], warn=print)
    async with Runtime() as rt:
        result = await rt.run(
            Agent(name="a", model=ScriptedModel(script), tools=tools),
            "go",
            mode="ask",
            on_ask="deny",
        )
    first, second = results(result.messages)
    assert first.is_error
    assert "ours_add can change things" in first.text
    assert second.text == "4"


async def test_a_late_server_holds_up_no_run_and_joins_at_the_turn_after_it_answers(
    tmp_path: Path,
) -> None:
    flag = tmp_path / "go"
    waits = [
        "/bin/sh",
        "-c",
        f"until [ -e {flag} ]; do sleep 0.02; done; exec {shlex.join(ours().command)}",
    ]
    server, heard, waited = (
        ours(command=waits, wait_s=0.01, trust_hints=True),
        list[str](),
        count(1),
    )

    @tool(effect="pure")
    async def wait() -> str:
        """Until the server has listed its tools; they join soon after."""
        flag.touch()
        while rt.mcp_servers(agent)[0].tools == ():
            await anyio.sleep(0.02)
        return f"{next(waited)} times"

    class Waiting(PlayedModel):
        """Calls `wait` until `ours_add` is there, and then that."""

        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            self.requests.append(request)
            there = "ours_add" in {one.name for one in request.tools}
            name, arguments = ("ours_add", '{"a": 1, "b": 2}') if there else ("wait", "{}")
            is_over = "3" in [result.text for result in results(request.messages)]
            steps: list[Any] = (
                text("done") if is_over else wishes((f"c{len(self.requests)}", name, arguments))
            )
            for delta in steps:
                yield delta

    model = Waiting()
    agent = Agent(name="a", model=model, tools=[wait], mcp_servers=[server])
    async with Runtime() as rt:
        result = await rt.run(
            agent,
            "go",
            mode="full",
            on_event=lambda event: heard.append(event.text) if isinstance(event, Warned) else None,
        )
    assert result.text == "done"
    assert [one.split(":")[0] for one in heard] == [
        "the MCP server 'ours' has not started yet",
        "the MCP server 'ours' has started",
    ]
    assert "ours_add" not in {one.name for one in model.requests[0].tools}
    assert results(result.messages)[-1].text == "3"


async def test_waiting_for_a_server_counts_against_the_time_of_the_run() -> None:
    agent = Agent(
        name="a", model=ScriptedModel([says("never")]), mcp_servers=[bad("never", wait_s=60)]
    )
    with anyio.fail_after(20):  # closing waits for no server either
        async with Runtime() as rt:
            result = await rt.run(agent, "go", limits=Limits(seconds=0.05))
    assert result.outcome == "timeout"
    assert result.metrics.duration_s >= 0.05


async def test_agents_that_want_different_tools_of_one_server_share_its_process(
    tmp_path: Path,
) -> None:
    log, server = tmp_path / "log", ours()
    counted = ["/bin/sh", "-c", f"echo begun >> {log}; exec {shlex.join(server.command)}"]
    fields: dict[str, Any] = {"command": counted, "env": {"WHO": "me"}}
    helper = Agent(
        name="helper",
        model=ScriptedModel([asks(call("ours_add", a=1, b=1)), says("2")]),
        mcp_servers=[ours(tools=["add"], **fields)],
    )
    script = [
        asks(call("helper", prompt="add")),
        asks(call("ours_variable", name="WHO"), call("ours_add", a=1, b=1)),
        says("done"),
    ]
    lead = Agent(
        name="lead",
        model=ScriptedModel(script),
        tools=[helper],
        mcp_servers=[ours(tools=["variable"], timeout_s=5, **fields)],
    )
    async with Runtime() as rt:
        result = await rt.run(lead, "go")
    assert [(each.text[:16], each.is_error) for each in results(result.messages)] == [
        ("2", False),
        ("me", False),
        ("There is no tool", True),
    ]
    assert log.read_text().split() == ["begun"]


def test_another_module_of_the_name_of_the_sdk_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("")
    program = """
import treadle
from treadle.testing import ScriptedModel
from treadle.tools.mcp import McpServer

agent = treadle.Agent(name="a", model=ScriptedModel([]), mcp_servers=[McpServer(name="x", command=["x"])])
try:
    treadle.run_sync(agent, "go")
except treadle.AgentError as e:
    print(e.kind, e.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(
        "invalid MCP servers need the official SDK, and what is installed as `mcp` is not it"
    ), done.stderr
    assert done.stdout.endswith("pip install 'treadle[mcp]'\n")


@pytest.mark.parametrize(
    "change", [{"env": {"A": "b"}}, {"cwd": "/"}, {"protocol": "legacy"}, {"command": ["other"]}]
)
def test_what_makes_it_another_process(change: dict[str, Any]) -> None:
    assert (
        ours(**change).process
        != ours().process
        == ours(tools=["add"], timeout_s=3, trust_hints=True).process
    )


async def test_the_secrets_of_a_server_made_in_python_are_known_to_the_whole_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_TOKEN", CANARY)
    monkeypatch.setenv("PLACE", "/home/somebody")

    @tool(effect="pure")
    def leak(ctx: ToolContext[object]) -> str:
        """Says what it should not."""
        return f"{CANARY} {MORE} at /home/somebody {CANARY in str(ctx.environment)}"

    env = {"MY_TOKEN": os.environ["MY_TOKEN"], "PLACE": os.environ["PLACE"]}
    servers = [
        ours(env=env),
        McpServer(
            name="no", url="http://127.0.0.1:9/mcp", headers={"Authorization": f"Bearer {MORE}"}
        ),
    ]
    agent = Agent(
        name="a",
        model=ScriptedModel([asks(call("leak")), says(f"I know {CANARY}")]),
        tools=[leak],
        mcp_servers=servers,
    )
    heard: list[Any] = []
    async with Runtime() as rt:
        result = await rt.run(agent, "go", on_event=heard.append)
        written = str(await rt.journal.read(result.run_id))
    (told,) = results(result.messages)
    assert told.text == "[redacted] [redacted] at /home/somebody False"
    assert CANARY not in str(heard)
    assert MORE not in written


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("mcp.shared._otel._tracer", provider.get_tracer("mcp-python-sdk"))
    yield exporter
    provider.shutdown()


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("how", ["stdio", "http"])
async def test_the_span_of_a_call_reaches_the_server(
    servers: McpServers,
    spans: InMemorySpanExporter,
    call: Use,
    request: pytest.FixtureRequest,
    how: str,
    protocol: Any,
) -> None:
    server = (
        ours(protocol=protocol)
        if how == "stdio"
        else McpServer(name="ours", url=request.getfixturevalue("our_url"), protocol=protocol)
    )
    tools = await servers.tools([server], warn=print)
    provider = TracerProvider()
    traces: list[tuple[str, str]] = []
    for _ in range(2):
        with provider.get_tracer("ours").start_as_current_span("execute_tool") as outer:
            said = await call(tools, "span")
        traces.append(
            (said.split("-")[1], trace.format_trace_id(outer.get_span_context().trace_id))
        )
    assert [theirs for theirs, _ in traces] == [mine for _, mine in traces]
    assert traces[0] != traces[1]
    assert {"MCP send tools/call span"} <= {span.name for span in spans.get_finished_spans()}
