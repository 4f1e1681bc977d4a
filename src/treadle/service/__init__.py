"""The service: accounts, chat and runs over HTTP, for many people at once.

    application.py what is mounted: the agent that answers in the chat, its routes, its page
    state.py       everything that requests share: `Service`
    app.py         routes, errors and checks in one application: `create_app`
    serving.py     the application in a server, from start to a shutdown that leaves no run half
                   done
    connection.py  bounds of one connection, and of all of an address, before a request is one
    border.py      what every request passes first: hosts.py, bodies.py, limits by address; headers,
                   the log, metrics
    signed_in.py   whose request it is: the `Scope` of a verified token (tokens.py); accounts.py,
                   passwords.py, auth.py: how one gets it
    problems.py    every error as problem+json
    limits.py      what one person may use (windows.py): requests, runs, streams, tokens, money;
                   totals.py (shares.py): what all together may use
    attempts.py    how often an address may guess a password; open_streams.py: streams, which end
                   with the login that opened them
    forgetting.py  deleting a conversation, also from the journal
    chat.py        what a person says, and the reply (answering.py); conversations.py
                   (conversation_store.py), runs.py (running.py)
    openai_api.py  clients of OpenAI's (completing.py); mcp_endpoint.py: clients of the Model
                   Context Protocol; page.py: people
    live.py        runs that are under way; fan_out.py, sse.py, following.py: whoever follows them;
                   resuming.py: those of a process that died
    elsewhere.py   runs that other processes drive; queueing.py: those that are left to workers
    openapi.py     what all this is, as a document (forms.py); health.py, metrics.py:
                   for machines

The libraries are imported by the modules below, never by this one. Entry: `require_service`, then
`create_app`.

    database/  rows of users
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
    """Raises AgentError(invalid) where a library of the service is not installed."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise AgentError(
            "invalid", f"the service needs libraries that are not installed: {INSTALL}"
        )
