"""Hints for names of other libraries: what Treadle calls an attribute or a field.

Entry points: `missing`, `hinted`, `FieldHints`, `OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
R = TypeVar("R")

_ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Agent": {
        "ainvoke": "use await runtime.run(agent, …)",
        "as_tool": "use the agent itself in tools= of the other one",
        "clone": "use agent.with_(…)",
        "copy": "use agent.with_(…)",
        "invoke": "use treadle.run_sync(agent, …)",
        "iter": "use runtime.stream(agent, …)",
        "output_validator": "use Agent(output_check=function)",
        "override": "use treadle.testing.override(agent, model=…)",
        "result_validator": "use Agent(output_check=function)",
        "run": "use await runtime.run(agent, …)",
        "run_stream": "use runtime.stream(agent, …)",
        "run_sync": "use treadle.run_sync(agent, …)",
        "stream": "use runtime.stream(agent, …)",
        "system_prompt": "pass a function of the RunContext as instructions=",
        "to_web": "use `treadle serve`",
        "tool": "use @treadle.tool above the function, and Agent(tools=[function])",
        "tool_plain": "use @treadle.tool above the function, and Agent(tools=[function])",
        "toolset": "pass a function of the RunContext as tools=",
    },
    "RunResult": {
        "all_messages": "use .messages",
        "content": "use .unwrap(), or .text",
        "cost": "use .metrics.cost_usd, or .metrics.total.cost_usd with the runs that it started",
        "data": "use .unwrap(), or .output",
        "error_message": "use .error.message",
        "final_output": "use .unwrap(), or .output",
        "final_output_as": "use .unwrap(), whose type is that of the agent's output",
        "get_output": "use .unwrap()",
        "interruptions": "use .pending",
        "is_error": "use .success, or .outcome",
        "last_agent": "use .agent, its name",
        "new_items": "use .new_messages",
        "num_turns": "use .turn_count",
        "raw_responses": "use .new_messages",
        "response": "use .text, or .new_messages[-1]",
        "result": "use .unwrap(), or .output",
        "to_input_list": "use .messages, or session= to keep the conversation",
        "run_usage": "use .metrics.usage, or .metrics.total.usage with the runs that it started",
        "status": "use .outcome",
        "structured_output": "use .output",
        "total_cost_usd": "use .metrics.total.cost_usd",
        "usage": "use .metrics.usage, or .metrics.total.usage with the runs that it started",
    },
    "RunStream": {
        "final_output": "use .result.unwrap() after the last event",
        "get_output": "use .result.unwrap() after the last event",
        "new_messages": "use .result.new_messages after the last event",
        "all_messages": "use .result.messages after the last event",
        "stream_events": "iterate over the stream itself",
        "stream_output": "use .output_stream()",
        "stream_responses": "iterate over the stream itself",
        "stream_text": "use .text_stream()",
        "usage": "use .result.metrics.usage after the last event",
    },
    "Runtime": {
        "ainvoke": "use await runtime.run(agent, …)",
        "astream": "use runtime.stream(agent, …)",
        "close": "use await runtime.aclose(), or `async with Runtime.open(…)`",
        "get_state": "use await runtime.journal.run(run_id)",
        "invoke": "use await runtime.run(agent, …), or treadle.run_sync(agent, …)",
        "iter": "use runtime.stream(agent, …)",
        "list_runs": "use await runtime.journal.runs()",
        "run_stream": "use runtime.stream(agent, …)",
        "run_streamed": "use runtime.stream(agent, …)",
        "run_sync": "use treadle.run_sync(agent, …), or treadle.open(…) for a journal",
        "runs": "use await runtime.journal.runs()",
    },
    "Session": {
        "add_items": "pass messages= to send",
        "clear_session": "use clear()",
        "get_items": "use history()",
        "messages": "use history()",
        "run": "use send(…)",
        "run_stream": "use stream(…)",
    },
}
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "handoff": {
        "input_filter": "use history=",
        "input_type": "leave it out, because a handoff passes only its reason",
        "is_enabled": "leave it out, or use Agent(…) without this handoff for such runs",
        "on_handoff": "use a Hook, or the HandedOver events of the run",
        "tool_description_override": "use description=",
        "tool_name_override": "the tool is always named transfer_to_AGENT",
    },
    "open": {
        "api_key": "set the provider's variable, such as ANTHROPIC_API_KEY, or use config=",
        "checkpointer": "pass the URL of a journal first, like 'sqlite:///runs.db'",
        "db": "pass the URL of a journal first, like 'sqlite:///runs.db'",
        "journal": "pass the URL of a journal first, like 'sqlite:///runs.db'",
        "memory": "pass session= to a run",
        "model": "use Agent(model=…), or TREADLE_MODEL",
        "path": "pass the URL of a journal first, like 'sqlite:///runs.db'",
        "store": "pass the URL of a journal first, like 'sqlite:///runs.db'",
    },
}
_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Limits": {
        "max_budget_usd": "use cost_usd=",
        "max_cost": "use cost_usd=",
        "max_tokens": "use tokens= for all requests, or Settings(max_tokens=…) for one response",
        "max_tool_calls": "use tool_calls=",
        "max_turns": "use turns=",
        "recursion_limit": "use turns=",
        "request_limit": "use turns=",
        "timeout": "use seconds=",
        "timeout_s": "use seconds=",
        "tool_calls_limit": "use tool_calls=",
        "total_tokens_limit": "use tokens=",
    },
    "McpServer": {
        "allowed_tools": "use tools=",
        "args": "append the arguments to command=, like command=['npx', 'server']",
        "cache_tools_list": "leave it out, because the tools are always cached",
        "params": "use command=[…] or url=",
        "timeout": "use timeout_s=",
        "tool_filter": "use tools=",
        "tool_prefix": "use name=, which prefixes the names of its tools",
        "type": "use command= for stdio, or url= for HTTP",
    },
    "MediaPart": {
        "content": "use MediaPart.from_bytes(content)",
        "file": "use MediaPart.from_file(path), or the path itself in the prompt",
        "path": "use MediaPart.from_file(path), or the path itself in the prompt",
        "type": "use media_type=",
    },
    "Settings": {
        "extra_body": "use extra=",
        "max_output_tokens": "use max_tokens=",
        "reasoning": "use thinking= and effort=",
        "reasoning_effort": "use effort=",
        "stop_sequences": "use stop=",
        "timeout": "use Limits(seconds=…)",
    },
}
OPTIONS: Final[Mapping[str, str]] = {
    "config": "use session= for a conversation, and Runtime.open(config=…) for the configuration",
    "context": "use deps= for what tools receive, or context= of the agent",
    "message_history": "use messages=, or session= to keep the conversation",
    "model_settings": "use settings=Settings(…)",
    "output_type": "use output= of the agent",
    "run_config": "pass settings=, limits= and mode=",
    "thread_id": "use session=",
    "usage": "leave it out, because limits include the runs that tools start",
    "usage_limits": "use limits=Limits(…)",
    "user": "use user_id=",
}
"""Options of a run in other libraries, and their replacements here."""


def missing(owner: str, name: str) -> AttributeError:
    """Return the error for an attribute that `owner` does not have, with a hint if there is one."""
    hint = _ATTRIBUTES.get(owner, {}).get(name)
    return AttributeError(
        f"'{owner}' object has no attribute {name!r}{f': {hint}' if hint else ''}"
    )


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its TypeError names the counterpart of an argument that other
    libraries have.
    """
    hints = _ARGUMENTS[function.__name__]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if strange := next((name for name in kwargs if name in hints), None):
            raise TypeError(f"{function.__name__}() has no argument {strange!r}: {hints[strange]}")
        return function(*args, **kwargs)

    return checked


class FieldHints(msgspec.StructMeta):
    """Metaclass of a value whose errors for wrong arguments name the value and its fields."""

    def __call__(cls, *positional: Any, **fields: Any) -> Any:
        """Create a value. Raises TypeError for positional arguments and unknown fields."""
        known = cls.__struct_fields__
        if positional:
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only: {', '.join(f'{f}=' for f in known)}"
            )
        if strange := next((name for name in fields if name not in known), None):
            hint = _FIELDS.get(cls.__name__, {}).get(strange)
            raise TypeError(
                f"{cls.__name__} has no field {strange!r}"
                + (f": {hint}" if hint else f". Its fields: {', '.join(known)}")
            )
        return super().__call__(**fields)
