"""Errors for arguments and methods that `Agent` does not have, with the replacement for each.

Entry points: `check_arguments`, `missing`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from treadle.errors import AgentError

_INSTEAD: Final[Mapping[str, str]] = {
    "deps_type": (
        "leave it out, because the types of deps come from the tools; pass deps= to the run"
    ),
    "context_type": "leave it out, because the types of deps come from the tools",
    "handoff_description": "use description=, or handoff(agent, description=…) in handoffs=",
    "handoff": "use handoffs=[agent]",
    "history_processors": "use history=, a function of the RunContext and the messages",
    "model_settings": "use settings=Settings(…)",
    "output_retries": "use retries=, the number of times that the model may correct an output",
    "output_guardrails": "use output_check=",
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
_METHODS: Final[Mapping[str, str]] = {
    "ainvoke": "await runtime.run(agent, …)",
    "as_tool": "the agent itself in tools= of the other one",
    "clone": "agent.with_(…)",
    "copy": "agent.with_(…)",
    "invoke": "treadle.run_sync(agent, …)",
    "iter": "runtime.stream(agent, …)",
    "output_validator": "Agent(output_check=function)",
    "result_validator": "Agent(output_check=function)",
    "run": "await runtime.run(agent, …)",
    "run_stream": "runtime.stream(agent, …)",
    "run_sync": "treadle.run_sync(agent, …)",
    "stream": "runtime.stream(agent, …)",
    "tool": "@treadle.tool above the function, and Agent(tools=[function])",
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
            raise AgentError("invalid", f"Agent has no argument {name!r}: {_instead(name, known)}")


def missing(name: str) -> AttributeError:
    """Return the error for an attribute that agents do not have."""
    instead = f": use {_METHODS[name]}" if name in _METHODS else ""
    return AttributeError(f"'Agent' object has no attribute {name!r}{instead}")


def _instead(name: str, known: Collection[str]) -> str:
    if name in _INSTEAD:
        return _INSTEAD[name]
    near = difflib.get_close_matches(name, known, 1)
    return f"{f'did you mean {near[0]!r}? ' if near else ''}Its arguments: {', '.join(known)}"
