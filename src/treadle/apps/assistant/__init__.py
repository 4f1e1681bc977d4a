"""The task assistant: a multi-user to-do list in plain language.

    runner.py    from a person's message, with its history, to a reply: `AgentRunner`
    server.py    the eight task tools, for the loop and for any MCP client: `MCPToolServer`
    store.py     every query, in one user's scope: `TaskStore`
    replies.py   replies composed from tool results; words.py: filter for the model's own words
    embedded.py  a rule-based model that needs no key; language/ parses its messages

    acts.py           implementation of the eight tools, inside a transaction
    application.py    the assistant as an application of the service
    agent.py          the agent's definition, for any model
    caller.py         caller and result of a task tool
    changes.py        log of changes
    confirmations.py  a person's confirmation of bulk and irreversible changes
    confirmation_records.py  records of questions, and of the calls that they hold back
    context.py        input and result of a runner
    fields.py         validation of task fields, and a task as JSON data
    held_calls.py     a model that issues the calls that a person has confirmed
    lookalikes.py     normalization of lookalike and invisible characters
    matching.py       search for titles by words
    over_mcp.py       the eight task tools for any client of the Model Context Protocol
    reply_lists.py    lists of tasks in words
    routes.py         `/tasks`, for the page
    schemas.py        schemas of the eight tools, and validation of arguments
    stems.py          stems of English words, so that "paid the rent" finds "pay the rent"
    tables.py         the tables of tasks
    terminal_user.py  the user of the terminal
    unfit.py          detection of sentences that a person should not see
    unsupported.py    recognition of wishes that a task list cannot fulfil
    user_names.py     argument names by which a model may try to name a user
    view.py           the part of a run that a chat may see

The package imports each name when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.apps.assistant.context import AgentContext as AgentContext
    from treadle.apps.assistant.context import AgentResult as AgentResult
    from treadle.apps.assistant.context import MessageHistory as MessageHistory
    from treadle.apps.assistant.context import ToolCallRecord as ToolCallRecord
    from treadle.apps.assistant.runner import AgentRunner as AgentRunner
    from treadle.apps.assistant.server import MCPToolServer as MCPToolServer

_HOME = {
    "AgentContext": "context",
    "AgentResult": "context",
    "AgentRunner": "runner",
    "MCPToolServer": "server",
    "MessageHistory": "context",
    "ToolCallRecord": "context",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'treadle.apps.assistant' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"treadle.apps.assistant.{_HOME[name]}"), name)
    except ModuleNotFoundError as e:
        if e.name not in ("alembic", "sqlalchemy", "sqlmodel"):
            raise
        raise ModuleNotFoundError(
            (
                f"the task assistant needs {e.name}, which is not installed: pip install "
                "'treadle[service]'"
            ),
            name=e.name,
        ) from e


def __dir__() -> list[str]:
    return sorted(_HOME)
