"""Agents as `treadle mcp` serves them, under the names of the suite's fixtures: `python -m
tests.peers.conformance.agents FOLDER`.

The suite calls its tools without arguments, so each is given a prompt here; all else is the
product.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from mcp.types import CallToolRequestParams
from typing_extensions import override

from tests.peers.conformance.carried import carry
from treadle import Agent, Runtime, tool
from treadle.apps.mcp_server.agents import ServedAgent
from treadle.apps.mcp_server.server import Context, McpToolServer, Reply
from treadle.tools.tool import ToolContext


@tool(needs_approval=True)
async def pay() -> str:
    """Pays."""
    return "paid"


@tool(effect="pure")
async def climb(ctx: ToolContext) -> str:
    """Climbs."""
    for step in (1, 2):
        ctx.progress(f"step {step} of 2", step, 2)
        await anyio.lowlevel.checkpoint()
    return "on top"


def calls(name: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name}]}


PAYS = [calls("pay"), {"text": "done"}]
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [{"text": "This is a simple text response for testing."}],
    "test_error_handling": [{"error": {"kind": "auth", "status": 401}}],
    "test_tool_with_progress": [calls("climb"), calls("climb"), {"text": "done"}],
    "test_elicitation": PAYS,
    "test_streaming_elicitation": PAYS,
    "test_input_required_result_elicitation": [
        {"tool_calls": [{"name": "pay", "id": "user_name"}]},
        {"text": "done"},
    ],
    "test_input_required_result_request_state": PAYS,
    "test_input_required_result_tampered_state": PAYS,
    "test_input_required_result_multiple_inputs": [
        {"tool_calls": [{"name": "pay"}, {"name": "pay"}, {"name": "pay"}]},
        {"text": "done"},
    ],
    "test_input_required_result_multi_round": [calls("pay"), calls("pay"), {"text": "done"}],
    "test_input_required_result_capabilities": PAYS,
}


class PromptedTool(ServedAgent):
    @override
    async def call(self, context: Context, params: CallToolRequestParams) -> Reply:
        return await super().call(
            context, params.model_copy(update={"arguments": {"prompt": "Do it."}})
        )


async def main(folder: Path) -> None:
    agents: list[Agent[Any, Any]] = []
    for name, script in SCRIPTS.items():
        (folder / f"{name}.json").write_text(json.dumps(script), encoding="utf-8")
        agents.append(Agent(name=name, model=f"script:{folder / name}.json", tools=[pay, climb]))
    async with Runtime.open(f"sqlite:///{folder}/journal.db") as runtime:
        await carry(
            McpToolServer([PromptedTool(agent, runtime, {"mode": "ask"}) for agent in agents])
        )


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
