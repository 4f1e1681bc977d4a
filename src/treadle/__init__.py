"""Treadle: the agent runtime for Python. The loop between a language model and tools, typed,
crash-proof, observable, fast.

    agent = Agent(name="guide", model="anthropic:claude-opus-5-5", tools=[weather])
    async with Runtime.open() as rt:
        result = await rt.run(agent, "Where is it warm?")

Importing this does no work: each name is loaded when it is first used.

It imports only modules that Python has loaded by then. With `python -m treadle`, others would come
from the current directory, until __main__.py removes it from the import path; so would
`__future__`.
"""

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from treadle.agents.agent import Agent as Agent
    from treadle.agents.registry import AgentRegistry as AgentRegistry
    from treadle.agents.templates import Input as Input
    from treadle.errors import AgentError as AgentError
    from treadle.errors import ErrorKind as ErrorKind
    from treadle.events.callbacks import Callbacks as Callbacks
    from treadle.events.hooks import Hook as Hook
    from treadle.events.hub import Hub as Hub
    from treadle.journal.journal import Journal as Journal
    from treadle.journal.session_store import SessionStore as SessionStore
    from treadle.journal.window import MAX_SESSION_MESSAGES as MAX_SESSION_MESSAGES
    from treadle.messages.events import Event as Event
    from treadle.messages.message import MediaPart as MediaPart
    from treadle.messages.message import Message as Message
    from treadle.messages.message import ProviderPart as ProviderPart
    from treadle.messages.message import ReasoningPart as ReasoningPart
    from treadle.messages.message import TextPart as TextPart
    from treadle.messages.message import ToolCall as ToolCall
    from treadle.messages.message import ToolResult as ToolResult
    from treadle.messages.message import UnknownPart as UnknownPart
    from treadle.messages.metrics import RunMetrics as RunMetrics
    from treadle.messages.metrics import RunTotals as RunTotals
    from treadle.messages.result import PendingCall as PendingCall
    from treadle.messages.result import RunResult as RunResult
    from treadle.messages.validate import check_history as check_history
    from treadle.messages.validate import repair_history as repair_history
    from treadle.models.model import Model as Model
    from treadle.models.model import ModelRequest as ModelRequest
    from treadle.models.model import ModelResponse as ModelResponse
    from treadle.models.model import ToolDefinition as ToolDefinition
    from treadle.models.providers.batching.policy import BatchPolicy as BatchPolicy
    from treadle.models.providers.fallback import FallbackModel as FallbackModel
    from treadle.runtime.run_stream import RunStream as RunStream
    from treadle.runtime.runtime import Runtime as Runtime
    from treadle.runtime.session import RunOptions as RunOptions
    from treadle.runtime.session import Session as Session
    from treadle.runtime.single import run as run
    from treadle.runtime.single import run_sync as run_sync
    from treadle.runtime.stored_session import MessageStore as MessageStore
    from treadle.runtime.stored_session import StoredSession as StoredSession
    from treadle.runtime.sync import SyncRuntime as SyncRuntime
    from treadle.runtime.sync import open as open
    from treadle.tools.approval import ApprovalRequest as ApprovalRequest
    from treadle.tools.approval import Approve as Approve
    from treadle.tools.approval import Deny as Deny
    from treadle.tools.function import FunctionTool as FunctionTool
    from treadle.tools.function import tool as tool
    from treadle.tools.handoff import Handoff as Handoff
    from treadle.tools.handoff import handoff as handoff
    from treadle.tools.registry import ToolRegistry as ToolRegistry
    from treadle.tools.run_context import RunContext as RunContext
    from treadle.tools.tool import DidNotHappen as DidNotHappen
    from treadle.tools.tool import Happened as Happened
    from treadle.tools.tool import Tool as Tool
    from treadle.tools.tool import ToolContext as ToolContext
    from treadle.tools.tool import ToolDeferred as ToolDeferred
    from treadle.tools.tool import ToolDone as ToolDone
    from treadle.tools.tool import ToolFailed as ToolFailed
    from treadle.tools.toolset import Toolset as Toolset
    from treadle.types import CodeExecution as CodeExecution
    from treadle.types import FileSearch as FileSearch
    from treadle.types import Limits as Limits
    from treadle.types import Outcome as Outcome
    from treadle.types import Settings as Settings
    from treadle.types import StopReason as StopReason
    from treadle.types import Usage as Usage
    from treadle.types import WebSearch as WebSearch

__version__ = "0.1.0"

_HOME = {
    "agents.agent": ("Agent",),
    "agents.templates": ("Input",),
    "agents.registry": ("AgentRegistry",),
    "errors": ("AgentError", "ErrorKind"),
    "events.callbacks": ("Callbacks",),
    "events.hooks": ("Hook",),
    "events.hub": ("Hub",),
    "journal.journal": ("Journal",),
    "journal.session_store": ("SessionStore",),
    "journal.window": ("MAX_SESSION_MESSAGES",),
    "messages.events": ("Event",),
    "messages.message": (
        "MediaPart",
        "Message",
        "ProviderPart",
        "ReasoningPart",
        "TextPart",
        "ToolCall",
        "ToolResult",
        "UnknownPart",
    ),
    "messages.metrics": ("RunMetrics", "RunTotals"),
    "messages.result": ("PendingCall", "RunResult"),
    "messages.validate": ("check_history", "repair_history"),
    "models.model": ("Model", "ModelRequest", "ModelResponse", "ToolDefinition"),
    "models.providers.batching.policy": ("BatchPolicy",),
    "models.providers.fallback": ("FallbackModel",),
    "runtime.run_stream": ("RunStream",),
    "runtime.runtime": ("Runtime",),
    "runtime.session": ("RunOptions", "Session"),
    "runtime.stored_session": ("MessageStore", "StoredSession"),
    "runtime.single": ("run", "run_sync"),
    "runtime.sync": ("SyncRuntime", "open"),
    "tools.approval": ("ApprovalRequest", "Approve", "Deny"),
    "tools.function": ("FunctionTool", "tool"),
    "tools.handoff": ("Handoff", "handoff"),
    "tools.registry": ("ToolRegistry",),
    "tools.run_context": ("RunContext",),
    "tools.toolset": ("Toolset",),
    "tools.tool": (
        "DidNotHappen",
        "Happened",
        "Tool",
        "ToolContext",
        "ToolDeferred",
        "ToolDone",
        "ToolFailed",
    ),
    "types": (
        "CodeExecution",
        "FileSearch",
        "Limits",
        "Outcome",
        "Settings",
        "StopReason",
        "Usage",
        "WebSearch",
    ),
}
_INSTEAD = {
    "AIMessage": "use treadle.Message.assistant(text)",
    "AgentDefinition": "use treadle.Agent",
    "AgentHooks": "use treadle.Hook in Agent(hooks=[…])",
    "AgentRunResult": "use treadle.RunResult",
    "ApprovalRequired": "use @treadle.tool(needs_approval=True)",
    "BinaryContent": "use treadle.MediaPart.from_bytes(data)",
    "CallDeferred": "return treadle.ToolDeferred",
    "ClaudeAgentOptions": "use treadle.coding.CodingAgent, or treadle.Agent",
    "ClaudeSDKClient": "use treadle.coding.CodingAgent",
    "Command": "use runtime.resume(run_id, agent, …)",
    "DeferredToolRequests": "use result.pending",
    "DocumentUrl": "use treadle.MediaPart(media_type='application/pdf', url=…)",
    "FunctionModel": "use treadle.testing.ScriptedModel(function)",
    "FunctionToolset": "use treadle.Toolset",
    "GuardrailFunctionOutput": "use treadle.Hook, with check_input or check_output",
    "HookMatcher": "use treadle.Hook in Agent(hooks=[…])",
    "HumanMessage": "use treadle.Message.user(text)",
    "ImageUrl": "use treadle.MediaPart(media_type='image/png', url=…)",
    "InMemorySaver": "use treadle.Runtime.open(), and session= in each run",
    "InputGuardrail": "use treadle.Hook, with check_input",
    "MCPServer": "use treadle.tools.mcp.McpServer",
    "MCPServerStdio": "use treadle.tools.mcp.McpServer(name=…, command=[…])",
    "MCPServerStreamableHttp": "use treadle.tools.mcp.McpServer(name=…, url=…)",
    "MCPServerStreamableHTTP": "use treadle.tools.mcp.McpServer(name=…, url=…)",
    "MaxTurnsExceeded": "look at result.outcome, which is turn_limit",
    "MemorySaver": "use treadle.Runtime.open(), and session= in each run",
    "McpServer": "use treadle.tools.mcp.McpServer",
    "ModelMessage": "use treadle.Message",
    "ModelRetry": "raise treadle.ToolFailed",
    "ModelSettings": "use treadle.Settings",
    "OutputGuardrail": "use Agent(output_check=…), or treadle.Hook with check_output",
    "RunConfig": "pass the options to runtime.run",
    "RunContextWrapper": "use treadle.ToolContext in tools, treadle.RunContext elsewhere",
    "RunHooks": "use treadle.Hook in Runtime.open(hooks=[…])",
    "RunUsage": "use treadle.Usage, as in result.metrics.usage",
    "Runner": "use treadle.Runtime, or treadle.run(agent, …) and treadle.run_sync(agent, …)",
    "SQLiteSession": "use treadle.Runtime.open('sqlite:///FILE'), and session= in each run",
    "StateGraph": "write a function that awaits runtime.ensure(agent, …, run_id=…)",
    "TestModel": "use treadle.testing.ScriptedModel",
    "UsageLimitExceeded": "look at result.outcome, such as token_limit",
    "UsageLimits": "use treadle.Limits",
    "create_agent": "use treadle.Agent",
    "create_react_agent": "use treadle.Agent",
    "create_sdk_mcp_server": "pass the tools themselves, as Agent(tools=[…])",
    "function_tool": "use treadle.tool",
    "init_chat_model": "use Agent(model='PROVIDER:MODEL')",
    "input_guardrail": "use treadle.Hook, with check_input",
    "interrupt": "use @treadle.tool(needs_approval=True), or return treadle.ToolDeferred",
    "query": "use treadle.run, or treadle.coding.CodingAgent",
}
"""Names of other libraries, and their replacements here."""
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
# without `open`, so that `from treadle import *` does not replace the built-in one
__all__ = [*sorted({*_MODULE_OF} - {"open"})]  # pyright: ignore[reportUnsupportedDunderAll]  the names are in the block above, for checkers


def __getattr__(name: str) -> "Any":
    if name == "evals":
        return importlib.import_module("treadle.apps.evals")
    module = _MODULE_OF.get(name)
    if module is None:
        instead = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise AttributeError(
            f"module 'treadle' has no attribute {name!r}{instead}",
            name=name,
            obj=sys.modules[__name__],
        )
    value = getattr(importlib.import_module(f"treadle.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__", "open"]
