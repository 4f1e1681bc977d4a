"""Declared traits of a function tool, the options that declare them, and the check of which
callables can be tools. Entry points: `Traits`, `CallOptions`, `check_function`.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any, Final, Literal, TypedDict, cast, get_args

import msgspec

from treadle.errors import AgentError
from treadle.tools.function.signature import AnyFunction
from treadle.tools.offered import ALWAYS, Conditions, IsEnabled, Prepare
from treadle.tools.tool import MAX_OUTPUT_CHARS, Probe
from treadle.types import Effect

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_EFFECTS: Final[tuple[str, ...]] = get_args(Effect)


class CallOptions(TypedDict, total=False):
    """Options of every way to make a tool from a function, with the defaults of `Traits`. A wrapper
    takes `**options: Unpack[CallOptions]`.
    """

    effect: Effect
    """Effect of a call, which decides whether it may be repeated."""
    timeout_s: float | None
    """Time limit of a call in seconds; None: no limit."""
    parallel: bool
    """False: no other call of the turn runs at the same time."""
    needs_approval: bool
    """True: every call requires approval, in every mode."""
    max_output: int
    """Maximum number of characters of the result that the model sees."""
    probe: Probe | None
    """Function that determines whether an interrupted call of a once-tool took effect."""
    is_enabled: IsEnabled
    """False, or a function of the run's `RunContext` that returns False: the run does not offer the
    tool.
    """
    prepare: Prepare | None
    """Function of the run's `RunContext` and the tool's definition that returns the definition to
    offer, or None.
    """


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """All properties of a tool except its schema and its function."""

    name: str
    effect: Effect = "once"
    timeout_s: float | None = None
    parallel: bool = True
    needs_approval: bool = False
    max_output: int = MAX_OUTPUT_CHARS
    probe: Probe | None = None
    isolate: Literal["process"] | None = None
    is_enabled: IsEnabled = True
    prepare: Prepare | None = None

    def check(self, label: str) -> None:
        """Validate the traits. Raises AgentError(invalid); `label` names the tool in its
        message.
        """
        for fault in (self._name_fault(), self._number_fault(), self._effect_fault()):
            if fault:
                raise AgentError("invalid", f"{label}: {fault}")
        self.conditions.check(label)

    @property
    def conditions(self) -> Conditions:
        """Conditions under which a run offers the tool."""
        if self.is_enabled is True and self.prepare is None:
            return ALWAYS
        return Conditions(is_enabled=self.is_enabled, prepare=self.prepare)

    def _name_fault(self) -> str | None:
        fault = name_fault(self.name)
        return fault and f"{fault}: pass name="

    def _number_fault(self) -> str | None:
        if self.timeout_s is not None and not self.timeout_s > 0:
            return f"timeout_s={self.timeout_s!r} must be greater than 0, or None for no limit"
        if self.max_output < 1:
            return (
                f"max_output={self.max_output!r} is a number of characters and must be at least 1"
            )
        return None

    def _effect_fault(self) -> str | None:
        if self.effect not in _EFFECTS:
            return f"effect={self.effect!r} is not one of {', '.join(map(repr, _EFFECTS))}"
        if self.isolate not in (None, "process"):
            return f"isolate={self.isolate!r} is neither 'process' nor None"
        if self.probe is not None and self.effect != "once":
            return (
                f"a probe is for once-tools; with effect={self.effect!r} an interrupted call runs "
                "again: remove probe="
            )
        if self.probe is not None and not is_async(self.probe):
            return (
                f"probe={self.probe!r} must be an async function: async def probe(ctx, **arguments)"
            )
        return None


_INSTEAD = {
    "description_override": "use description=",
    "name_override": "use name=",
    "requires_approval": "use needs_approval=True",
    "retries": "leave it out, because the model may correct failed calls until a limit",
    "return_direct": "return ToolDone(value) from the tool that ends the run",
    "timeout": "use timeout_s=",
}
"""Options of other libraries, and their replacements here."""


def name_fault(name: str) -> str | None:
    """Return the reason why a tool name is invalid, or None."""
    if _NAME.fullmatch(name):
        return None
    return f"{name!r} is not a valid tool name (letters, digits, '_' and '-', at most 128)"


def check_options(callee: str, options: CallOptions) -> None:
    """Raise TypeError for an option that does not exist, with the message of a call of `callee`."""
    if unknown := options.keys() - CallOptions.__optional_keys__:
        name = min(unknown)
        takes = f"it also takes {', '.join(sorted(CallOptions.__optional_keys__))}"
        raise TypeError(
            f"{callee}() got an unexpected keyword argument {name!r}: {_INSTEAD.get(name, takes)}"
        )


def check_function(function: object, label: str) -> None:
    """Raise AgentError(invalid) if the function cannot be a tool. The message names the
    alternative.
    """
    fault = None
    if isinstance(function, staticmethod):
        fault = "put @staticmethod above it"
    elif isinstance(function, classmethod):
        fault = "a class method cannot be a tool: make it a method or a static method"
    elif isinstance(function, type):
        fault = "a class cannot be a tool: write a function that returns the result for the model"
    elif not callable(function):
        fault = (
            f"a string is not a function; pass options by keyword, like @tool(name={function!r})"
            if isinstance(function, str)
            else "it cannot be called"
        )
    elif any(
        check(_called(cast("AnyFunction", function)))
        for check in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    ):
        fault = (
            "a generator cannot be a tool: collect the values that it yields and return them; "
            "ctx.progress(text) shows progress to people"
        )
    if fault:
        raise AgentError("invalid", f"{label}: {fault}")


def is_async(function: AnyFunction) -> bool:
    return inspect.iscoroutinefunction(_called(function))


def _called(function: AnyFunction) -> Any:
    """Return the function whose body runs: the one that a partial wraps, or an object's
    `__call__`.
    """
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = cast("functools.partial[object]", inner).func
    return inner if inspect.isroutine(inner) else type(inner).__call__
