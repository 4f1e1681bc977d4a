"""Hash of an agent's definition. Entry point: `fingerprint_of`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from treadle.errors import AgentError


def fingerprint_of(agent: Any) -> str:
    """Return a hash of everything in the definition, an `Agent`, that models see.

    Raises AgentError(invalid) if the parameters of a tool are not valid JSON.
    """
    said = [(message.role, msgspec.to_builtins(message.parts)) for message in agent.messages]
    try:
        tools = [msgspec.to_builtins(tool.definition) for tool in agent.own_tools]
        if callable(agent.tools):
            tools = [_named(agent.tools)]
        tools += [msgspec.to_builtins(tool.definition) for tool in agent.handoff_tools]
        context = [[block.text for block in agent.context]] if agent.context else []
        output = [] if agent.answer is None else [{"output": agent.answer.schema}]
        own = [_named(agent.instructions), tools]
        text = json.dumps([*own, said, *context, *output], sort_keys=True)
    except (TypeError, ValueError, RecursionError) as e:
        raise AgentError(
            "invalid", f"agent {agent.name!r}: the parameters of a tool are not valid JSON: {e}"
        ) from e
    import hashlib  # noqa: PLC0415  loads OpenSSL, and only a run needs it

    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _named(value: object) -> object:
    """Return the name of a function, which is the same in every process; any other value itself."""
    if not callable(value):
        return value
    inner = getattr(value, "func", value)
    return {"function": getattr(inner, "__qualname__", type(inner).__qualname__)}
