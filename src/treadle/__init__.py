"""Treadle: the agent runtime for Python. The loop between a language model and tools, typed, crash-proof, observable, fast.

    agent = Agent(name="guide", model="anthropic:claude-opus-5-5", tools=[weather])
    async with Runtime.open() as rt:
        result = await rt.run(agent, "Where is it warm?")

Importing this does no work: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.agent import Agent as Agent
    from treadle.agent import Input as Input
    from treadle.agent_registry import AgentRegistry as AgentRegistry
    from treadle.asking import ApprovalRequest as ApprovalRequest
    from treadle.asking import Approve as Approve
    from treadle.asking import Deny as Deny
    from treadle.callbacks import Callbacks as Callbacks
    from treadle.errors import AgentError as AgentError
    from treadle.errors import ErrorKind as ErrorKind
    from treadle.events import Event as Event
    from treadle.hooks import Hook as Hook
    from treadle.hub import Hub as Hub
    from treadle.integrity import check_history as check_history
    from treadle.integrity import repair_history as repair_history
    from treadle.journal import Journal as Journal
    from treadle.message import MediaPart as MediaPart
    from treadle.message import Message as Message
    from treadle.message import ProviderPart as ProviderPart
    from treadle.message import ReasoningPart as ReasoningPart
    from treadle.message import TextPart as TextPart
    from treadle.message import ToolCall as ToolCall
    from treadle.message import ToolResult as ToolResult
    from treadle.message import UnknownPart as UnknownPart
    from treadle.metrics import RunMetrics as RunMetrics
    from treadle.metrics import RunTotals as RunTotals
    from treadle.model import Model as Model
    from treadle.model import ModelRequest as ModelRequest
    from treadle.model import ModelResponse as ModelResponse
    from treadle.providers.fallback import FallbackModel as FallbackModel
    from treadle.result import RunResult as RunResult
    from treadle.run_stream import RunStream as RunStream
    from treadle.runtime import Runtime as Runtime
    from treadle.session import RunOptions as RunOptions
    from treadle.session import Session as Session
    from treadle.session_store import SessionStore as SessionStore
    from treadle.single import run as run
    from treadle.single import run_sync as run_sync
    from treadle.tooling import DidNotHappen as DidNotHappen
    from treadle.tooling import Happened as Happened
    from treadle.tooling import Tool as Tool
    from treadle.tooling import ToolContext as ToolContext
    from treadle.tooling import ToolDeferred as ToolDeferred
    from treadle.tooling import ToolFailed as ToolFailed
    from treadle.tooling import ToolRegistry as ToolRegistry
    from treadle.tools.function import FunctionTool as FunctionTool
    from treadle.tools.function import tool as tool
    from treadle.types import Limits as Limits
    from treadle.types import Outcome as Outcome
    from treadle.types import Settings as Settings
    from treadle.types import StopReason as StopReason
    from treadle.types import Usage as Usage
    from treadle.window import MAX_SESSION_MESSAGES as MAX_SESSION_MESSAGES

__version__ = "0.1.0"

_HOME = {
    "agent": ("Agent", "Input"),
    "agent_registry": ("AgentRegistry",),
    "asking": ("ApprovalRequest", "Approve", "Deny"),
    "callbacks": ("Callbacks",),
    "errors": ("AgentError", "ErrorKind"),
    "events": ("Event",),
    "hooks": ("Hook",),
    "hub": ("Hub",),
    "integrity": ("check_history", "repair_history"),
    "journal": ("Journal",),
    "message": ("MediaPart", "Message", "ProviderPart", "ReasoningPart", "TextPart", "ToolCall", "ToolResult", "UnknownPart"),
    "metrics": ("RunMetrics", "RunTotals"),
    "model": ("Model", "ModelRequest", "ModelResponse"),
    "providers.fallback": ("FallbackModel",),
    "result": ("RunResult",),
    "run_stream": ("RunStream",),
    "runtime": ("Runtime",),
    "session": ("RunOptions", "Session"),
    "session_store": ("SessionStore",),
    "single": ("run", "run_sync"),
    "tooling": ("DidNotHappen", "Happened", "Tool", "ToolContext", "ToolDeferred", "ToolFailed", "ToolRegistry"),
    "tools.function": ("FunctionTool", "tool"),
    "types": ("Limits", "Outcome", "Settings", "StopReason", "Usage"),
    "window": ("MAX_SESSION_MESSAGES",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = [*sorted(_MODULE_OF)]  # pyright: ignore[reportUnsupportedDunderAll]  the names stand in the block above, for checkers


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = getattr(importlib.import_module(f"treadle.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
