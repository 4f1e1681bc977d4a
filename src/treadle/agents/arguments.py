"""Errors for arguments that `Agent` does not have, with the replacement for each.

Entry point: `check_arguments`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from treadle.errors import AgentError

_INSTEAD: Final[Mapping[str, str]] = {
    "allowed_tools": "list the tools in tools=, and pass mode= or rules for calls to the run",
    "builtin_tools": "use settings=Settings(hosted_tools=…)",
    "checkpointer": "leave it out: Runtime.open('sqlite:///FILE') keeps every run in its journal",
    "context_schema": "leave it out, because the types of deps come from the tools",
    "deps": "pass deps= to the run",
    "end_strategy": "leave it out, because all calls of a response run",
    "event_stream_handler": "read runtime.stream(agent, …), or pass on_event= to the run",
    "instrument": "use Runtime.open(tracer=otel_tracer())",
    "max_budget_usd": "use limits=Limits(cost_usd=…)",
    "max_turns": "use limits=Limits(turns=…)",
    "memory": "leave it out, and pass session= to the run",
    "middleware": "use hooks=",
    "permission_mode": "pass mode= to the run",
    "session": "pass session= to the run",
    "state_schema": "leave it out; pass your own state to tools as deps= of the run",
    "tool_use_behavior": "return ToolDone(value) from the tool that ends the run",
    "usage_limits": "use limits=Limits(…)",
    "deps_type": (
        "leave it out, because the types of deps come from the tools; pass deps= to the run"
    ),
    "context_type": "leave it out, because the types of deps come from the tools",
    "handoff_description": "use description=, or handoff(agent, description=…) in handoffs=",
    "handoff": "use handoffs=[agent]",
    "history_processors": "use history=, a function of the RunContext and the messages",
    "model_settings": "use settings=Settings(…)",
    "output_retries": "use retries=, the number of times that the model may correct an output",
    "guardrails": "use hooks=, whose check_input and check_output can stop a run",
    "input_guardrails": "use hooks=, with a Hook that has check_input",
    "output_guardrails": "use output_check=, or hooks= with a Hook that has check_output",
    "output_type": "use output=",
    "output_validator": "use output_check=",
    "prompt": "use instructions= here, and pass the prompt to the run",
    "response_format": "use output=",
    "result_type": "use output=",
    "system": "use instructions=",
    "system_prompt": "use instructions=",
    "prepare_tools": "use tools=Toolset([…]).prepared(function)",
    "toolsets": "use tools=, which takes a Toolset, and mcp_servers= for MCP servers",
}


def check_arguments(
    positional: tuple[object, ...], given: Mapping[str, object], known: Collection[str]
) -> None:
    """Reject positional and unknown arguments of `Agent`. Raises AgentError(invalid)."""
    if positional:
        raise AgentError(
            "invalid",
            f"Agent takes keyword arguments only, like Agent(name={positional[0]!r:.80}, model=…)",
        )
    for name in given:
        if name not in known:
            raise AgentError("invalid", f"Agent has no argument {name!r}{_instead(name, known)}")


def _instead(name: str, known: Collection[str]) -> str:
    """Return the end of the message: the argument to use, the nearest one, or all of them."""
    if name in _INSTEAD:
        return f": {_INSTEAD[name]}"
    near = difflib.get_close_matches(name, known, 1)
    hint = f": did you mean {near[0]!r}? " if near else ". "
    return f"{hint}Its arguments: {', '.join(known)}"
