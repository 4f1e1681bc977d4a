"""The task assistant: people tell it about tasks in plain language, and many use one server.

    runner.py    a message of a person, with what was said before, to a reply: `AgentRunner`
    server.py    the eight task tools, for the loop and for any MCP client: `MCPToolServer`
    store.py     every query, in one user's scope: `TaskStore`
    replies.py   what is said, composed from what the tools returned; words.py: the model's own
                 words on their way out
    embedded.py  a model of rules, so that all this works without a key; language/ is what it
                 understands

Importing this does no work: each name is loaded when it is first used.

    acts.py           what each of the eight tools does with arguments that fit, inside
    application.py    all this as an application of the service
    agent.py          the definition of the task assistant, as any model runs
    caller.py         on whose behalf a task tool is called, and what it answers
    changes.py        what was changed
    confirmations.py  what a person is asked before something big or final happens, and their answer
    context.py        what a runner is given for one message, and what it gives back
    fields.py         what a task may hold, and a task as the data that tools and HTTP give
    held_calls.py     A model that says nothing but the calls which a person has confirmed
    lookalikes.py     A text as a person reads it, so that letters which only look alike, or are not
    matching.py       which titles a person means by some words
    over_mcp.py       the eight task tools for any client of the Model Context Protocol
    routes.py         `/tasks`, for the page
    schemas.py        the eight tools as a model reads them, and arguments as they may come
    stems.py          what all forms of an English word have in common, so that "paid the rent"
    tables.py         the tables of tasks
    terminal_user.py  the one who sits at the terminal
    unfit.py          which sentences of a model no person should read
    unsupported.py    wishes that a task list cannot honour, recognised in a title or a message
    user_names.py     under which names a model may try to say whose tasks it wants
    view.py           what a chat may see of a run
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
