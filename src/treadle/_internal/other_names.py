"""Hints for names of other libraries: what Treadle calls an attribute or a field.

Entry points: `missing`, `FieldHints`, `OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

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
        "final_output": "use .unwrap(), or .output",
        "interruptions": "use .pending",
        "last_agent": "use .agent, its name",
        "new_items": "use .new_messages",
        "result": "use .unwrap(), or .output",
        "to_input_list": "use .messages, or session= to keep the conversation",
        "total_cost_usd": "use .metrics.total.cost_usd",
        "usage": "use .metrics.usage, or .metrics.total.usage with the runs that it started",
    },
    "Runtime": {
        "run_stream": "use runtime.stream(agent, …)",
        "run_streamed": "use runtime.stream(agent, …)",
        "run_sync": "use treadle.run_sync(agent, …), or treadle.open(…) for a journal",
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
    "context": "use deps= for what tools receive; context= is an option of the agent",
    "message_history": "use messages=, or session= to keep the conversation",
    "model_settings": "use settings=Settings(…)",
    "output_type": "use output= of the agent",
    "run_config": "pass settings=, limits= and mode=",
    "thread_id": "use session=",
    "usage": "leave it out: limits count the runs that tools start",
    "usage_limits": "use limits=Limits(…)",
    "user": "use user_id=",
}
"""Options of a run in other libraries, and what to use here."""


def missing(owner: str, name: str) -> AttributeError:
    """Return the error for an attribute that `owner` does not have, with a hint if there is one."""
    hint = _ATTRIBUTES[owner].get(name)
    return AttributeError(
        f"'{owner}' object has no attribute {name!r}{f': {hint}' if hint else ''}"
    )


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
