"""Context of a run for the functions of its agent: those that return instructions and tools before
the first request, and those that check the output.

agents/evaluation.py calls them. Entry points: `RunContext`, `called_with`, `check_arity`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from treadle._internal.signatures import signature_of
from treadle.errors import AgentError
from treadle.tools.failures import words_of
from treadle.tools.tool import DepsOut
from treadle.types import Mode

T = TypeVar("T")
Given: TypeAlias = "T | Awaitable[T]"
"""Result of a function that may be sync or async."""
_COUNTS = {1: "one argument", 2: "two arguments"}


class RunContext(msgspec.Struct, Generic[DepsOut], frozen=True, kw_only=True):
    """The run, as passed to functions of its agent's definition.

    Attributes:
        deps: The application's own dependencies, as passed to the run.
        inputs: Inputs of the run by name, with defaults filled in.
        agent: Name of the agent.
        run_id: Id of the run.
        session_id: Session of the run, or None.
        user_id: User on whose behalf the run acts, or None.
        cwd: Absolute working directory of the run.
        mode: Mode of the run.
    """

    deps: DepsOut
    inputs: Mapping[str, Any]
    agent: str
    run_id: str
    session_id: str | None
    user_id: str | None
    cwd: Path
    mode: Mode


def check_arity(
    function: Callable[..., object], label: str, like: str, *, arguments: int = 1
) -> None:
    """Check the number of arguments that a function accepts: one, or as many as given. Raises
    AgentError(invalid).

    `label` names the function; `like` shows how to write it.
    """
    try:
        signature = signature_of(function)
    except (TypeError, ValueError):  # some C callables have no signature
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as e:
        raise AgentError(
            "invalid",
            f"{label} is a function that cannot be called with {_COUNTS[arguments]} ({e}): write "
            f"{like}",
        ) from e


async def called_with(
    ctx: RunContext[Any],
    function: Callable[[RunContext[Any]], Given[T]],
    label: str,
    so: str = ". Nothing was started",
) -> T:
    """Call a function of a definition and await its result if needed.

    Raises AgentError(agent) if it fails; its own AgentError propagates.
    """
    try:
        found = function(ctx)
        return await cast("Awaitable[T]", found) if inspect.isawaitable(found) else cast("T", found)
    except AgentError:
        raise
    except Exception as e:
        raise AgentError("agent", f"{label} failed: {words_of(e)}{so}") from e
