"""MCP tools in runs: the journal, the policy and the trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.doubles import asks, call, says
from tests.tools.mcp.conftest import Use, bad, ours
from treadle import Agent, Runtime
from treadle.message import Message, ToolResult
from treadle.testing import ScriptedModel
from treadle.tools.mcp import McpServer, McpServers

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def results(messages: Sequence[Message]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


async def test_a_call_that_the_death_of_its_server_cut_is_unknown_and_the_run_goes_on(servers: McpServers) -> None:
    model = ScriptedModel([asks(call("bad_do")), asks(call("bad_other")), says("done")])
    agent = Agent(name="a", model=model, tools=await servers.tools([bad("dies")], warn=print))
    async with Runtime() as rt:
        result = await rt.run(agent, "go", mode="full")
    assert result.outcome == "completed"
    first, second = results(result.messages)
    assert (first.is_error, first.unknown) == (True, True)
    assert "it ended with exit code 7" in first.text
    assert (second.is_error, second.text) == (False, "other is well")


async def test_a_tool_asks_before_it_runs_unless_its_hints_are_believed(servers: McpServers) -> None:
    script = [asks(call("ours_add", a=1, b=1), call("trusted_add", a=2, b=2)), says("done")]
    tools = await servers.tools([ours(), ours(name="trusted", trust_hints=True)], warn=print)
    async with Runtime() as rt:
        result = await rt.run(Agent(name="a", model=ScriptedModel(script), tools=tools), "go", mode="ask", on_ask="deny")
    first, second = results(result.messages)
    assert first.is_error
    assert "ours_add can change things" in first.text
    assert second.text == "4"


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
    servers: McpServers, spans: InMemorySpanExporter, call: Use, request: pytest.FixtureRequest, how: str, protocol: Any
) -> None:
    server = ours(protocol=protocol) if how == "stdio" else McpServer(name="ours", url=request.getfixturevalue("our_url"), protocol=protocol)
    tools = await servers.tools([server], warn=print)
    provider = TracerProvider()
    traces: list[tuple[str, str]] = []
    for _ in range(2):
        with provider.get_tracer("ours").start_as_current_span("execute_tool") as outer:
            said = await call(tools, "span")
        traces.append((said.split("-")[1], trace.format_trace_id(outer.get_span_context().trace_id)))
    assert [theirs for theirs, _ in traces] == [mine for _, mine in traces]
    assert traces[0] != traces[1]
    assert {"MCP send tools/call span"} <= {span.name for span in spans.get_finished_spans()}
