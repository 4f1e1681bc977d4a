"""Tools from functions: `@tool` takes a function's signature for a schema.

Nothing is evaluated at decoration that can wait: annotations, docstring and pydantic come with the
first use (arguments.py). Timeouts, approval and caps on output are declared here and done by
whoever runs the call (toolbox.py). Entry: `tool`.
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
    named `ctx` and not annotated, is given the call's context and is not in the schema; put it
    first. None as a result becomes "done" where the function is annotated to return None or not
    annotated, else "null".

    Args:
        function: An async function, a sync one (it runs in a thread), a method, a functools.partial or a callable object.
        name: Letters, digits, `_` and `-`; by default the name of the function.
        description: Description for the model; by default the docstring without its
            parameters.
        isolate: "process": a sync function runs in a process that is killed when the call is cut (isolated.py has the limits).
        effect: What a repetition does (`Effect`).
        timeout_s: Time limit of a call in seconds.
        parallel: False: no other call of the turn runs at the same time.
        needs_approval: Somebody is asked before each call, in every mode.
        max_output: Characters of the result that the model is shown.
        probe: `async def probe(ctx, **arguments)` tells of a once-tool whether a call happened: `Happened(result)`, `DidNotHappen()` or None.
        is_enabled: False, or a function of the run's `RunContext` that returns False: the run does not offer the tool.
        prepare: Function of the run's `RunContext` and the tool's `ToolDefinition` that returns the definition to offer, or None not to offer it.

    Raises:
        AgentError: invalid, for everything that can be told without evaluating annotations; what
            they tell comes with the first use.
    """  # noqa: E501
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
    """The local names where a decorator stands: annotations kept as text may mean classes of the
    function around it.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  the one way to see them; get_type_hints sees globals only
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
                f"process: drop {signature.context.name!r}"
            ),
        )
    if traits.isolate is not None and is_async(function):
        raise AgentError(
            "invalid",
            (
                f"{label}: isolate='process' takes a sync function; an async one can be cancelled "
                "as it is"
            ),
        )
    return FunctionTool[Any, ..., Any].of(
        SignatureArguments(traits.name, description, signature, docstring_of(function)),
        function,
        traits,
    )
