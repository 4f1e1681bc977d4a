"""The task tools as they are served to clients, under the names of the suite's fixtures: `python -m
tests.peers.conformance.tasks FOLDER`.

The suite calls its tools without arguments, so each is given some here; all else is the product.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.types import CallToolRequestParams
from typing_extensions import override

from tests.peers.conformance.carried import carry
from treadle.apps.assistant.caller import ToolUser
from treadle.apps.assistant.over_mcp import IdentityOf, ServedTask
from treadle.apps.assistant.schemas import TOOLS
from treadle.apps.assistant.server import MCPToolServer
from treadle.apps.assistant.terminal_user import terminal_user
from treadle.apps.mcp_server.server import Context, McpToolServer, Reply
from treadle.service.database.database import Database
from treadle.service.database.scope import Scope

DELETES = ("delete_task", {"task": "Pay"})
FIXTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "test_simple_text": ("list_tasks", {}),
    "test_error_handling": ("add_task", {"title": ""}),
    "test_elicitation": DELETES,
    "test_streaming_elicitation": DELETES,
    "test_input_required_result_elicitation": DELETES,
    "test_input_required_result_request_state": DELETES,
    "test_input_required_result_tampered_state": DELETES,
    "test_input_required_result_capabilities": DELETES,
}


class Fixture(ServedTask):
    def __init__(
        self, server: MCPToolServer, name: str, identity_of: IdentityOf = lambda _: terminal_user()
    ) -> None:
        tool, self._given = FIXTURES[name]
        super().__init__(server, TOOLS[tool], identity_of)
        self.definition = self.definition.model_copy(update={"name": name})  # pyright: ignore[reportGeneralTypeIssues]  the suite's name for it

    @override
    async def call(self, context: Context, params: CallToolRequestParams) -> Reply:
        return await super().call(context, params.model_copy(update={"arguments": self._given}))


async def fill(server: MCPToolServer, scope: Scope) -> None:
    """As many as the suite asks to delete."""
    for _ in range(20):
        await server.call(ToolUser(scope), "add_task", {"title": "Pay"})


async def main(folder: Path) -> None:
    async with Database.open(f"sqlite:///{folder}/tasks.db") as database:
        server = MCPToolServer(database)
        await fill(server, Scope(terminal_user()))
        await carry(McpToolServer([Fixture(server, name) for name in FIXTURES]))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
