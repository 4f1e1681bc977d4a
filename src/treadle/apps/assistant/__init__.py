"""The task assistant: people tell it about tasks in plain language, and many use one server.

    runner.py    a message of a person, with what was said before, to a reply: `AgentRunner`
    server.py    the eight task tools, for the loop and for any MCP client: `MCPToolServer`
    store.py     every query, in one user's scope: `TaskStore`
    replies.py   what is said, composed from what the tools returned; words.py: the model's own
                 words on their way out
    embedded.py  a model of rules, so that all this works without a key; language/ is what it
                 understands

Importing this does no work: each name is loaded when it is first used.
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
