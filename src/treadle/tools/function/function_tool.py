"""A function as a tool: definition, arguments and execution. Entry point: `FunctionTool`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, Generic, Protocol, TypeAlias, cast, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from treadle.errors import AgentError
from treadle.models.model import ToolDefinition
from treadle.tools.function.arguments import SignatureArguments, Unbound, WithText
from treadle.tools.function.given import GivenArguments
from treadle.tools.function.isolated import Target
from treadle.tools.function.returned import to_output, to_text
from treadle.tools.function.signature import (
    AnyFunction,
    Context,
    context_of,
)
from treadle.tools.function.traits import (
    CallOptions,
    Traits,
    check_function,
    check_options,
    is_async,
)
from treadle.tools.tool import (
    DidNotHappen,
    Happened,
    ProbeAnswer,
    ToolContext,
    ToolOutput,
    Touched,
)
from treadle.types import Effect

Deps = TypeVar("Deps", contravariant=True, default=object)
Params = ParamSpec("Params", default=...)
Result = TypeVar("Result", covariant=True, default=Any)
D = TypeVar("D")
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_Run: TypeAlias = Callable[[ToolContext[Any], Mapping[str, Any]], Awaitable[object]]


class _Arguments(Protocol):
    """Source of the schema."""

    @property
    def definition(self) -> ToolDefinition: ...

    def parse(self, arguments_json: str) -> dict[str, Any]: ...


class FunctionTool(Generic[Deps, Params, Result]):
    """Function that a model can call. Your own code can still call it too: `await charge(ctx, 3)`
    calls the function directly.

    `FunctionTool[Shop]` requires dependencies of type Shop. A function without a context is a
    `FunctionTool[object]`, which every agent accepts.
    """

    function: AnyFunction
    """The decorated function."""

    @overload
    def __init__(
        self: FunctionTool[D, Concatenate[ToolContext[D], P], R],
        *,
        name: str,
        description: str,
        parameters: Mapping[str, object],
        execute: Callable[Concatenate[ToolContext[D], P], R],
        **options: Unpack[CallOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: FunctionTool[object, P, R],
        *,
        name: str,
        description: str,
        parameters: Mapping[str, object],
        execute: Callable[P, R],
        **options: Unpack[CallOptions],
    ) -> None: ...
    def __init__(
        self,
        *,
        name: str,
        description: str,
        parameters: Mapping[str, object],
        execute: AnyFunction,
        **options: Unpack[CallOptions],
    ) -> None:
        """Make a tool from a JSON Schema of an object. `execute` receives keyword arguments, and
        the context if it has a parameter for it. Options: those of `@tool` except `isolate`.

        Raises AgentError(invalid) if the schema is obviously invalid. Errors that only compilation
        detects are raised on the first call.
        """
        check_options("FunctionTool", options)
        traits = Traits(name=name, **options)
        traits.check(f"tool {name!r}")
        check_function(execute, f"tool {name!r}")
        arguments = GivenArguments(name, description, parameters)
        context = context_of(execute)
        if context is not None and arguments.asks_for(context.name):
            context = None
        self._set_up(arguments, execute, traits, _runner(traits, execute, context, "null"))

    @classmethod
    def of(
        cls, arguments: SignatureArguments, function: AnyFunction, traits: Traits
    ) -> FunctionTool[Any, ..., Any]:
        """Return the tool for a function, with arguments from its signature. Checks only that a
        child process can import an isolated function.
        """
        signature = arguments.signature
        nothing = "done" if signature.returns_nothing else "null"
        made = cls.__new__(cls)
        if traits.isolate is None:
            made._set_up(
                arguments,
                function,
                traits,
                _runner(traits, function, signature.context, nothing),
                nothing=nothing,
            )
        else:
            target = Target.of(function, signature.label, tool=traits.name, nothing=nothing)
            made._set_up(
                WithText(arguments), function, traits, _isolated_runner(target), nothing=nothing
            )
        return made

    def _set_up(
        self,
        arguments: _Arguments,
        function: AnyFunction,
        traits: Traits,
        run: _Run,
        *,
        nothing: str = "null",
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.name = traits.name
        self.effect: Effect = traits.effect
        self.timeout_s = traits.timeout_s
        self.parallel = traits.parallel
        self.needs_approval = traits.needs_approval
        self.max_output = traits.max_output
        self.isolate = traits.isolate
        self.conditions = traits.conditions
        self.function = function
        self._traits = traits
        self._arguments = arguments
        self._run = run
        self._nothing = nothing
        self._method: SignatureArguments | None = None
        self._bound: SignatureArguments | None = None

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        """Call the function directly: without validation, and in the caller's thread and
        process.
        """
        return cast("Result", self.function(*args, **kwargs))

    def __repr__(self) -> str:
        return f"FunctionTool({self.name!r}, effect={self.effect!r})"

    @property
    def definition(self) -> ToolDefinition:
        """Definition for the model. Built on first use; later uses return the same object.

        Raises AgentError(invalid), which names the function, the parameter and its type, if JSON
        cannot describe the type.
        """
        return self._arguments.definition

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """Return the validated arguments by name. An empty text counts as `{}`.

        Raises InvalidArguments, with a line for each problem.
        """
        return self._arguments.parse(arguments_json)

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        """Return None: the files that a function touches are unknown."""
        return None

    async def execute(self, ctx: ToolContext[Deps], arguments: Any) -> ToolOutput:
        """Call the function with parsed arguments. Its exceptions propagate.

        Raises ToolFailed(happened=True) for a result that is neither text, media nor JSON.
        Cancellation: an async function is cancelled; a sync one runs on in its thread
        (threads.abandoned_calls); an isolated one is killed.
        """
        value = await self._run(ctx, arguments)
        return value if type(value) is str else to_output(value, self._nothing)

    async def probe(self, ctx: ToolContext[Deps], arguments: Any) -> ProbeAnswer:
        """Run the tool's probe for this call. None if there is no probe or it cannot tell.

        Propagates exceptions of the probe. Raises AgentError(tool) if it returns anything else.
        """
        if self._traits.probe is None:
            return None
        answer = cast("object", await self._traits.probe(ctx, **arguments))
        if answer is None or isinstance(answer, (Happened, DidNotHappen)):
            return answer
        raise AgentError(
            "tool",
            (
                f"the probe of tool {self.name!r} returned {answer!r}: it must return "
                "Happened(result), DidNotHappen() or None"
            ),
        )

    def __set_name__(self, owner: type, name: str) -> None:
        """Turn a tool that is decorated in a class body into a method: accessed through an
        instance, it is bound to it, as a function would be.
        """
        arguments = self._arguments
        if (
            isinstance(arguments, SignatureArguments)
            and getattr(self.function, "__qualname__", "") == f"{owner.__qualname__}.{name}"
        ):
            self._method = arguments
            self._arguments = Unbound(arguments.signature.label)

    @overload
    def __get__(
        self, instance: None, owner: type | None = None
    ) -> FunctionTool[Deps, Params, Result]: ...
    @overload
    def __get__(
        self: FunctionTool[D, Concatenate[S, P], R], instance: S, owner: type | None = None
    ) -> FunctionTool[D, P, R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if self._method is None or instance is None:
            return self
        function = cast("Any", self.function).__get__(instance, owner)
        if self._bound is None:
            self._bound = self._method.of_bound(function)
        return self.of(self._bound, function, self._traits)


def _runner(traits: Traits, function: AnyFunction, context: Context | None, nothing: str) -> _Run:
    call = _caller(function, context)
    if is_async(function):
        return call
    # a late result matters only for a call that may be `unknown`; any other call can be repeated
    text_of = functools.partial(_late_text, nothing=nothing) if traits.effect == "once" else None

    async def in_thread(ctx: ToolContext[Any], arguments: Mapping[str, Any]) -> object:
        from treadle.tools.function.threads import run_in_thread  # noqa: PLC0415  start-up: asyncio and anyio come with the first run

        value = await run_in_thread(
            traits.name, ctx, functools.partial(call, ctx, arguments), text_of
        )
        return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value

    return in_thread


def _late_text(value: object, nothing: str) -> str:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        return (
            f"The call returned a {type(value).__name__} after it was cut off, and nothing awaited "
            "it: its work may not have been done."
        )
    return to_text(value, nothing)


def _caller(
    function: AnyFunction, context: Context | None
) -> Callable[[ToolContext[Any], Mapping[str, Any]], Any]:
    if context is None:
        return lambda _, arguments: function(**arguments)
    if context.first:
        return lambda ctx, arguments: function(ctx, **arguments)
    keyword = context.name
    return lambda ctx, arguments: function(**{keyword: ctx}, **arguments)


def _isolated_runner(target: Target) -> _Run:
    async def in_process(ctx: ToolContext[Any], arguments: Mapping[str, Any]) -> object:
        from treadle.tools.function.isolate import run_isolated  # noqa: PLC0415  start-up: as in _runner

        return await run_isolated(target, ctx, arguments)

    return in_process
