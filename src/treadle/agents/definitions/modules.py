"""Python modules of the configuration: imported, and what stands in them by name is taken: agents,
tools and hooks.

Whose modules count is the configuration's. Entry: `import_modules`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

from typing_extensions import get_protocol_members

from treadle.agents.agent import Agent
from treadle.agents.definitions.places import DefinitionProblem
from treadle.config import Origin
from treadle.events.hooks import Hook
from treadle.tools.tool import Tool

T = TypeVar("T")

_TOOL_MEMBERS = get_protocol_members(Tool)
_LIBRARIES = (
    str(Path(__file__).parents[1]),
    *(
        path
        for key, path in sysconfig.get_paths().items()
        if key in ("stdlib", "platstdlib", "purelib", "platlib")
    ),
)
"""Where nobody looks for a mistake of theirs."""


class Of(NamedTuple, Generic[T]):
    """What a module brought."""

    module: str
    it: T


@dataclass(frozen=True, slots=True)
class Modules:
    """What all modules together brought, agents and tools by name."""

    agents: dict[str, Of[Agent[Any, Any]]] = field(default_factory=dict[str, Of[Agent[Any, Any]]])
    tools: dict[str, Of[Tool[Any]]] = field(default_factory=dict[str, Of[Tool[Any]]])
    hooks: list[Hook] = field(default_factory=list[Hook])
    """In their order; each once."""
    problems: list[DefinitionProblem] = field(default_factory=list[DefinitionProblem])


def import_modules(names: Sequence[str], origin: Origin) -> Modules:
    """In their order. What cannot be imported is among the problems. What a module prints while it
    is imported goes to stderr.

    `origin`: where they were named.
    """
    modules = Modules()
    for name in names:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                module = importlib.import_module(name)
        except (Exception, SystemExit) as e:  # noqa: BLE001  it is told: the code is somebody else's
            modules.problems.append(_told(name, e, origin))
        else:
            _take(modules, name, module)
    return modules


def _take(modules: Modules, name: str, module: ModuleType) -> None:
    for attribute, value in list(vars(module).items()):
        if attribute.startswith("_") or isinstance(value, type):
            continue
        if isinstance(value, Agent):
            _register(modules, modules.agents, "agent", value.name, Of(name, value))
        elif isinstance(value, Hook):
            if not any(value is hook for hook in modules.hooks):
                modules.hooks.append(value)
        elif _TOOL_MEMBERS.issubset(dir(value)):
            _register(modules, modules.tools, "tool", value.name, Of(name, value))


def _register(modules: Modules, known: dict[str, Of[T]], kind: str, name: str, new: Of[T]) -> None:
    old = known.setdefault(name, new)
    if old.it is not new.it:
        where = "twice" if old.module == new.module else f"in {old.module} too"
        modules.problems.append(
            DefinitionProblem(
                new.module, None, f"the {kind} {name!r} is {where}: names are unique, rename one"
            )
        )


def _told(name: str, error: BaseException, origin: Origin) -> DefinitionProblem:
    """What went wrong in a sentence, with the line of the module that did it, or else of the
    configuration.
    """
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name is not None
        and f"{name}.".startswith(f"{error.name}.")
    ):
        text = (
            f"agents names the module {name!r}, and there is no {error.name!r}: install it for "
            f"{sys.executable}, or add its folder to PYTHONPATH"
        )
        return DefinitionProblem(origin.name or origin.source, origin.line, text)
    file, line = _place(name, error)
    return DefinitionProblem(
        file or name,
        line,
        (
            f"the module {name!r} cannot be imported: {type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}"
        ),
    )


def _place(name: str, error: BaseException) -> tuple[str, int | None]:
    """The innermost line that somebody wrote who is to mend it: of no library, or else of the
    package that was named.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    frames = [
        (frame.f_code.co_filename, line, str(frame.f_globals.get("__name__")))
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    written = [(file, line) for file, line, _ in frames if not file.startswith(("<", *_LIBRARIES))]
    of_package = [
        (file, line)
        for file, line, module in frames
        if module.partition(".")[0] == name.partition(".")[0]
    ]
    return (written or of_package or [("", None)])[-1]
