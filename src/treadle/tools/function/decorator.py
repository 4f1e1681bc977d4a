"""The `@tool` decorator, which makes a tool from a function and its signature.

Annotations and the docstring are evaluated, and pydantic is imported, on first use (arguments.py).
Timeouts, approvals and limits of the output are declared here; toolbox.py enforces them. Entry
point: `tool`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Literal, Protocol, overload

import msgspec
from typing_extensions import Unpack

from treadle.errors import AgentError
from treadle.tools.function.arguments import SignatureArguments
from treadle.tools.function.function_tool import D, FunctionTool, P, R, S
from treadle.tools.function.signature import (
    AnyFunction,
    Signature,
    docstring_of,
    label_of,
)
from treadle.tools.function.traits import (
    CallOptions,
    Traits,
    check_function,
    check_options,
    is_async,
)
from treadle.tools.tool import (
    ToolContext,
)


class Decorator(Protocol):
    """Decorator that `tool(...)` with options returns."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[D], P], R], /
    ) -> FunctionTool[D, Concatenate[ToolContext[D], P], R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[S, ToolContext[D], P], R], /
    ) -> FunctionTool[D, Concatenate[S, ToolContext[D], P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionTool[object, P, R]: ...


@overload
def tool(
    function: Callable[Concatenate[ToolContext[D], P], R], /
) -> FunctionTool[D, Concatenate[ToolContext[D], P], R]: ...
@overload
def tool(
    function: Callable[Concatenate[S, ToolContext[D], P], R], /
) -> FunctionTool[D, Concatenate[S, ToolContext[D], P], R]: ...
@overload
def tool(function: Callable[P, R], /) -> FunctionTool[object, P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    isolate: Literal["process"] | None = None,
    **options: Unpack[CallOptions],
) -> Decorator: ...
def tool(
    function: AnyFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    isolate: Literal["process"] | None = None,
    **options: Unpack[CallOptions],
) -> Any:
    """Make a tool from a function: `@tool`, or `@tool(effect="pure", timeout_s=20)`.

    The schema comes from the signature and the docstring (Google, NumPy, reST); a parameter without
    an annotation takes any JSON. A parameter annotated `ToolContext` or `ToolContext[Deps]`, or
    named `ctx` without an annotation, receives the call's context and is not in the schema; put it
    first. The result None becomes "done" if the return annotation is None or missing, else "null".

    Args:
        function: An async function, a sync one (it runs in a thread), a method, a functools.partial
            or a callable object.
        name: Letters, digits, `_` and `-`; by default the name of the function.
        description: Description for the model; by default the docstring without its parameters.
        isolate: "process" runs a sync function in its own process, which is killed if the call is
            cancelled or times out (isolated.py has the restrictions).
        effect: Effect of repeating a call (`Effect`).
        timeout_s: Time limit of a call in seconds. None: no limit.
        parallel: False: no other call of the turn runs at the same time.
        needs_approval: True: a person must approve each call, in every mode.
        max_output: Maximum number of characters of the result that the model sees.
        probe: `async def probe(ctx, **arguments)`, called for an interrupted call of a once-tool.
            Returns `Happened(result)`, `DidNotHappen()`, or None if it cannot determine whether the
            call happened.
        is_enabled: False, or a function of the run's `RunContext` that returns False: the run does
            not offer the tool.
        prepare: Function of the run's `RunContext` and the tool's `ToolDefinition` that returns the
            definition to offer, or None to omit the tool.

    Raises:
        AgentError: invalid. Errors that only annotations reveal are raised on first use.
    """
    check_options("tool", options)
    traits = Traits(name=name or "", isolate=isolate, **options)

    def decorate(function: AnyFunction) -> FunctionTool[Any, ..., Any]:
        return _from_function(function, description, traits, _names_around())

    return (
        decorate
        if function is None
        else _from_function(function, description, traits, _names_around())
    )


def _names_around() -> Mapping[str, object]:
    """Return the local names at the place of the decorator. String annotations may refer to classes
    that the enclosing function defines.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  the only way to read them; get_type_hints sees globals only
    return {} if frame.f_locals is frame.f_globals else frame.f_locals


def _from_function(
    function: AnyFunction, description: str | None, traits: Traits, scope: Mapping[str, object]
) -> FunctionTool[Any, ..., Any]:
    if isinstance(function, FunctionTool):
        raise AgentError("invalid", f"{function!r} is a tool already: decorate the function once")
    check_function(function, f"@tool on {function!r}")
    label = label_of(function)
    traits = msgspec.structs.replace(traits, name=traits.name or label.rpartition(".")[2])
    traits.check(label)
    signature = Signature.of(function, scope)
    if traits.isolate is not None and signature.context is not None:
        raise AgentError(
            "invalid",
            (
                f"{label}: an isolated function has no context, which cannot be sent to another "
                f"process: remove {signature.context.name!r}"
            ),
        )
    if traits.isolate is not None and is_async(function):
        raise AgentError(
            "invalid",
            (
                f"{label}: isolate='process' is for sync functions; an async function can be "
                "cancelled without it: remove isolate="
            ),
        )
    return FunctionTool[Any, ..., Any].of(
        SignatureArguments(traits.name, description, signature, docstring_of(function)),
        function,
        traits,
    )
