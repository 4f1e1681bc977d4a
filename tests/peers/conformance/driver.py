"""Our client as the suite drives it: `python -m tests.peers.conformance.driver URL`, the scenario
in the environment.

All goes through `McpServers`, as it would in a run; for OAuth a provider of the SDK is handed over,
as a user would. Exits with 0 where the scenario could be played; whether it was played right is the
suite's to say.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import anyio

from tests.peers.conformance.signing_in import provider_for
from treadle.errors import AgentError
from treadle.tools.mcp import McpServer, McpServers, ServerQuestion
from treadle.tools.mcp.tool import McpTool
from treadle.tools.tool import ToolContext, ToolFailed
from treadle.types import new_id

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
PROTOCOL: Literal["auto", "legacy"] = (
    "auto" if os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026") >= "2026" else "legacy"
)
GIVEN: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
BY_TYPE: dict[object, Any] = {
    "integer": 0,
    "number": 0,
    "boolean": False,
    "object": {},
    "array": [],
    "null": None,
}
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "initialize": [],
    "json-schema-ref-no-deref": [],
    "tools_call": [("add_numbers", {"a": 5, "b": 3})],
    "request-metadata": [("add_numbers", {"a": 5, "b": 3})],
    "http-standard-headers": [("add_numbers", {"a": 5, "b": 3})],
    "sse-retry": [("test_reconnection", {})],
    "elicitation-sep1034-client-defaults": [("test_client_elicitation_defaults", {})],
    "sep-2322-client-request-state": [
        (f"test_mrtr_{name}", {})
        for name in ("echo_state", "unrelated", "no_state", "no_result_type")
    ],
    "http-custom-headers": [
        (call["name"], call.get("arguments") or {}) for call in GIVEN.get("toolCalls", [])
    ],
}


async def answered(question: ServerQuestion) -> Mapping[str, Any]:
    """As a person who leaves what the form proposes, and agrees to all else."""
    fields: dict[str, Any] = dict((question.schema or {}).get("properties", {}))
    return {
        name: field.get("default", True)
        for name, field in fields.items()
        if "default" in field or field.get("type") == "boolean"
    }


async def play(url: str) -> None:
    auth = await provider_for(SCENARIO, url, GIVEN) if SCENARIO.startswith("auth/") else None
    async with McpServers(ask=answered) as servers:
        tools = {
            tool.name.removeprefix("peer_"): tool
            for tool in await servers.tools(
                [McpServer(name="peer", url=url, auth=auth, protocol=PROTOCOL)], warn=said
            )
        }
        for name, arguments in _calls(tools):
            if name in tools:
                await _call(tools[name], arguments)


def _calls(tools: Mapping[str, McpTool]) -> list[tuple[str, dict[str, Any]]]:
    if SCENARIO == "json-schema-2020-12-preservation":
        return [
            (
                "json_schema_echo",
                {"schema": dict(tools["json_schema_2020_12_tool"].definition.parameters)},
            )
        ]
    if SCENARIO.startswith("auth/"):
        return [(name, {}) for name in list(tools)[:1]]
    return CALLS.get(SCENARIO) or [
        (name, _least(tool.definition.parameters))
        for name, tool in tools.items()
        if SCENARIO not in CALLS
    ]


def _least(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for all that a tool requires."""
    return {
        name: BY_TYPE.get(schema.get("properties", {}).get(name, {}).get("type"), "x")
        for name in schema.get("required", [])
    }


async def _call(tool: McpTool, arguments: dict[str, Any]) -> None:
    number = new_id("call")
    context = ToolContext[object](
        deps=None,
        run_id="run",
        session_id=None,
        call_id=number,
        user_id=None,
        cwd=Path.cwd(),
        deadline=None,
        attempt=1,
        idempotency_key=number,
        spill=_spill,
    )
    try:
        # unparsed, since the suite's own arguments break some of its schemas
        said(f"{tool.name}: {await tool.execute(context, arguments)}")
    except ToolFailed as e:
        said(f"{tool.name} failed: {e.message}")


def _spill(text: str) -> Path:
    raise NotImplementedError


def said(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    try:
        anyio.run(play, sys.argv[-1])
    except AgentError as e:
        sys.exit(e.message)
