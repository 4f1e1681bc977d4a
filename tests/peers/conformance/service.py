"""`/mcp` of the whole service, as `treadle serve` carries it, with the suite's names for its tools:
`python -m tests.peers.conformance.service FOLDER`.

The suite cannot sign in, so that each request is given a token on its way in; what it asks of Host
is asked of this port. All else is the product.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import anyio
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asked

from tests.peers.conformance.carried import until_input_ends
from tests.peers.conformance.tasks import FIXTURES, Fixture, fill
from tests.service.chatting import service_in, signed_in
from treadle.apps.assistant import over_mcp
from treadle.apps.assistant.over_mcp import IdentityOf
from treadle.apps.assistant.server import MCPToolServer
from treadle.apps.mcp_server.server import McpToolServer
from treadle.service.app import create_app
from treadle.service.database.scope import Identity, Scope
from treadle.service.serving import bound, serve_app


class Token:
    """Puts it in front of every request."""

    def __init__(self, app: ASGIApp, said: list[bytes]) -> None:
        self._app, self._said = app, said

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [
                *scope["headers"],
                *((b"authorization", token) for token in self._said),
            ]
        await self._app(scope, receive, send)


def named(server: MCPToolServer, identity_of: IdentityOf) -> McpToolServer:
    return McpToolServer([Fixture(server, name, identity_of) for name in FIXTURES])


async def main(folder: Path) -> None:
    said: list[bytes] = []
    service = service_in(folder, None)
    app = create_app(service)
    app.add_middleware(Token, said=said)
    over_mcp.tasks_over_mcp = named
    listening = bound("127.0.0.1", 0)

    async def prepare() -> None:
        user_id, token = await signed_in(service, "ada")
        await fill(MCPToolServer(service.database), Scope(Identity(user_id, "token")))
        said.append(b"Bearer " + token.encode())
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)

    def ready() -> None:
        group.start_soon(prepare)

    threading.Thread(target=until_input_ends, daemon=True).start()
    async with anyio.create_task_group() as group:
        await serve_app(app, listening, ready=ready)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
