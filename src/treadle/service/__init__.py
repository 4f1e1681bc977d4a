"""Multi-user service: accounts, chat and runs over HTTP.

    application.py contract of a mounted application: its chat agent, routes and page
    state.py       state shared by all requests: `Service`
    app.py         routes, error handlers and checks in one ASGI application: `create_app`
    serving.py     running the application in a server process, from binding to graceful shutdown
    connection.py  limits per connection, before a request is parsed
    connection_table.py  limits per address and server
    border.py      checks before every request: hosts.py, bodies.py, limits by address; response
                   headers, access log, metrics
    signed_in.py   authentication: the `Scope` of a verified token (tokens.py); accounts.py,
                   passwords.py, auth.py: registration and login
    problems.py    every error as problem+json
    limits.py      limits per user (windows.py): requests, runs, streams, tokens, money
                   (spending.py);
                   totals.py (shares.py): limits on all users together
    attempts.py    rate limits on password attempts; open_streams.py: streams, closed when
                   their login ends
    forgetting.py  deletion of a conversation, including its journal entries
    chat.py        messages and replies (answering.py); conversations.py
                   (conversation_store.py, stored_messages.py), runs.py (running.py)
    openai_api.py  OpenAI-compatible API (completing.py); mcp_endpoint.py: Model Context
                   Protocol; page.py: the web page
    live.py        runs driven by this process; fan_out.py, sse.py, following.py: their
                   subscribers; resuming.py: recovery of runs whose process died
    elsewhere.py   runs driven by other processes; queueing.py: runs left to workers
    openapi.py     the OpenAPI document (forms.py); health.py, metrics.py: probes and metrics
    database/      users' rows

The modules below import the service's libraries; this one does not. Entry points:
`require_service`, then `create_app`.
"""

from __future__ import annotations

from importlib.util import find_spec

from treadle.errors import AgentError

INSTALL = "pip install 'treadle[service]'"
_NEEDED = (
    "alembic",
    "argon2",
    "fastapi",
    "httptools",
    "jwt",
    "mcp",
    "prometheus_client",
    "sqlmodel",
    "uvicorn",
)


def require_service() -> None:
    """Raise AgentError(invalid) if a library of the service is not installed."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise AgentError(
            "invalid", f"the service needs libraries that are not installed: {INSTALL}"
        )
