"""Checks of an agent's fields for code without a type checker: each mistake would otherwise surface
much later, with a misleading error.

Entry points: `answer_of`, `check_kinds`, `check_output_change`, `check_tool`, `checked_handoffs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from typing_extensions import get_protocol_members

from treadle.errors import AgentError
from treadle.tools.handoff import Handoff
from treadle.tools.run_context import check_arity
from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.tool import Tool
from treadle.types import Limits, Settings

_ANSWERS: WeakKeyDictionary[type, AnswerType[Any]] = WeakKeyDictionary()
"""Cached answer types, by output type. The cache keeps the names that were in scope when the first
agent with that type was created.
"""
_STRING = (
    "pass a string, or a function that returns one: def instructions(ctx: RunContext[Deps]) -> str"
)
_LIST = (
    "pass a list of tools, like tools=[weather], or a function that returns one: def tools(ctx: "
    "RunContext[Deps]) -> list[Tool[Deps]]"
)
_CHECK = "def check(ctx: RunContext[Deps], output: Output) -> None"
_HISTORY = "def history(ctx: RunContext[Deps], messages: list[Message]) -> list[Message]"
_TOOL_MEMBERS = get_protocol_members(Tool)


def check_kinds(agent: str, fields: Mapping[str, object]) -> None:
    """Raise AgentError(invalid) if a field of the agent has the wrong type."""
    _check_functions(agent, fields)
    if isinstance(model := fields["model"], type) or not (
        model is None or isinstance(model, str) or hasattr(model, "stream")
    ):
        instead = "pass a name like 'anthropic:claude-opus-5-5', or a Model object"
        raise _mixed_up(agent, "model", model, instead)
    if not isinstance(fields["limits"], Limits | None):
        raise _mixed_up(agent, "limits", fields["limits"], "pass Limits(turns=…)")
    retries = fields["retries"]
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise AgentError(
            "invalid",
            f"agent {agent!r}: retries={retries!r} is not a whole number of at least 0: pass the "
            "number of times that the model may correct an invalid output",
        )
    servers = fields["mcp_servers"]
    if not isinstance(servers, list | tuple) or any(
        isinstance(server, type) or not hasattr(server, "secrets")
        for server in cast("Sequence[object]", servers)
    ):
        raise AgentError(
            "invalid",
            f"agent {agent!r}: mcp_servers= takes a list of McpServer objects, like "
            "[McpServer(name=…, command=[…])]",
        )
    if fields["hooks"] != ():
        _check_hooks(agent, fields["hooks"])
    if not isinstance(fields["settings"], Settings):
        raise _mixed_up(agent, "settings", fields["settings"], "pass Settings(max_tokens=…)")


def _check_hooks(agent: str, hooks: object) -> None:
    from treadle.events.hooks import checked_hooks  # noqa: PLC0415  imports asyncio

    try:
        checked_hooks(hooks)
    except AgentError as e:
        raise AgentError("invalid", f"agent {agent!r}: {e.message}") from e


def _check_functions(agent: str, fields: Mapping[str, object]) -> None:
    """Check the fields that take a value or a function of the run's context."""
    for name, kind, instead in (("instructions", str, _STRING), ("tools", Iterable, _LIST)):
        given = fields[name]
        if isinstance(given, kind):
            continue
        if not callable(given) or isinstance(given, type) or hasattr(given, "execute"):
            raise _mixed_up(agent, name, given, instead)
        check_arity(given, f"agent {agent!r}: {name}=", instead[instead.index("def ") :])
    for name, like in (("output_check", _CHECK), ("history", _HISTORY)):
        if (given := fields[name]) is None:
            continue
        if not callable(given) or isinstance(given, type):
            raise _mixed_up(agent, name, given, f"pass a function: {like}")
        check_arity(given, f"agent {agent!r}: {name}=", like, arguments=2)


def check_output_change(agent: str, changes: Mapping[str, object], *, has_check: bool) -> None:
    """Raise AgentError(invalid) if an agent changes its output, but not the check of the output."""
    if has_check and "output" in changes and "output_check" not in changes:
        raise AgentError(
            "invalid",
            f"agent {agent!r}: its output_check= is for its own output: with another output=, pass "
            "another output_check=, or output_check=None",
        )


def checked_handoffs(agent: str, given: object) -> tuple[Handoff[Any, Any], ...]:
    """Return the members of `handoffs=` as handoffs. Raises AgentError(invalid)."""
    if not isinstance(given, list | tuple):
        raise _mixed_up(agent, "handoffs", given, "pass a list of agents, like handoffs=[billing]")
    members = cast("Sequence[Any]", given)
    found: list[Handoff[Any, Any]] = []
    for one in members:
        found.append(cast("Any", one) if isinstance(one, Handoff) else Handoff(one))
    names = [one.name for one in found]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise AgentError("invalid", f"agent {agent!r}: two handoffs are to {doubled!r}: leave one")
    return tuple(found)


def check_needs(agent: str, handoffs: Sequence[Handoff[Any, Any]], has: Collection[str]) -> None:
    """Raise AgentError(invalid) if the agent of a handoff needs an input that runs may not have."""
    for one in handoffs:
        needs: Sequence[str] = getattr(one.agent, "needs", ())
        if lacking := [name for name in needs if name not in has]:
            raise AgentError(
                "invalid",
                f"agent {agent!r}: {one.name!r} among its handoffs needs the input(s) "
                f"{', '.join(lacking)}, and a run has only the inputs of its first agent: declare "
                "them there too, or give them defaults",
            )


def check_tool(agent: str, one: object) -> None:
    """Raise AgentError(invalid) if a member of `tools=` is not a complete tool."""
    if hasattr(one, "secrets") and not hasattr(one, "execute"):
        raise AgentError(
            "invalid",
            f"agent {agent!r}: {shown(one)} among its tools is an MCP server: "
            "pass it as mcp_servers=[…]",
        )
    # the definition would build the schema, which imports pydantic
    has = dir(one)
    if "execute" not in has and not hasattr(one, "execute"):
        name = getattr(one, "__name__", None) or repr(one)
        raise AgentError(
            "invalid",
            f"agent {agent!r}: {name} is not a tool: put @tool above the function, or "
            "make a FunctionTool",
        )
    if missing := sorted(name for name in _TOOL_MEMBERS.difference(has) if not hasattr(one, name)):
        raise AgentError(
            "invalid",
            f"agent {agent!r}: {one!r} is not a complete tool: it lacks "
            f"{', '.join(missing)} (the protocol treadle.Tool)",
        )


def _mixed_up(agent: str, field: str, given: object, instead: str) -> AgentError:
    return AgentError("invalid", f"agent {agent!r}: {field}= is {shown(given)}: {instead}")


def shown(value: object) -> str:
    """Return only the type of the value, because a misplaced value may be a secret."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def answer_of(name: str, output: Any) -> AnswerType[Any] | None:
    """Return the answer type for the `output` of an agent; None for text.

    Raises AgentError(invalid) for a type that cannot be an output.
    """
    if output is None or output is str:
        return None
    from treadle.tools.structured_output import answer_type  # noqa: PLC0415  needed only for typed output

    known = isinstance(output, type) and _ANSWERS.get(output)
    if known:
        return known
    try:
        made = answer_type(output)
    except AgentError as e:
        raise AgentError(e.kind, f"agent {name!r}: {e.message}") from e
    if isinstance(output, type) and made is not None:
        _ANSWERS[output] = made
    return made
