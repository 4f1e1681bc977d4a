"""Import of the Python modules named in the configuration, and collection of their agents, tools
and hooks.

Entry points: `import_modules`.
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
from typing import Any, Generic, NamedTuple, TypeVar, cast

from typing_extensions import get_protocol_members

from treadle.agents.agent import Agent
from treadle.agents.definitions.places import DefinitionProblem
from treadle.config import Origin
from treadle.config.plugins import load_plugin
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
"""Paths of libraries. They are skipped when an error is located."""


class Of(NamedTuple, Generic[T]):
    """An agent or tool, with the module or distribution that defines it."""

    module: str
    it: T


@dataclass(frozen=True, slots=True)
class Modules:
    """Agents and tools by name, and hooks, of all imported modules."""

    agents: dict[str, Of[Agent[Any, Any]]] = field(default_factory=dict[str, Of[Agent[Any, Any]]])
    tools: dict[str, Of[Tool[Any]]] = field(default_factory=dict[str, Of[Tool[Any]]])
    hooks: list[Hook] = field(default_factory=list[Hook])
    """Hooks in definition order, without duplicates."""
    problems: list[DefinitionProblem] = field(default_factory=list[DefinitionProblem])


def import_modules(names: Sequence[str], origin: Origin) -> Modules:
    """Import modules in order, and return import errors as problems.

    Output that a module prints goes to stderr. `origin`: place in the configuration that names the
    modules.
    """
    modules = Modules()
    for name in names:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                module = importlib.import_module(name)
        except (Exception, SystemExit) as e:  # noqa: BLE001  user code; reported as a problem
            modules.problems.append(_told(name, e, origin))
        else:
            _take(modules, name, module)
    return modules


def plugin_tool(name: str) -> Of[Tool[Any]] | None:
    """Return the tool that a plug-in provides, or None. Raises AgentError(invalid)."""
    if (loaded := load_plugin("tools", name)) is None:
        return None
    tool = cast("Tool[Any]", loaded.having(*_TOOL_MEMBERS))
    loaded.must_be_named(tool.name)
    return Of(loaded.plugin.distribution, tool)


def _take(modules: Modules, name: str, module: ModuleType) -> None:
    for attribute, value in list(vars(module).items()):
        if attribute.startswith("_") or isinstance(value, type):
            continue
        if isinstance(value, Agent):
            _register(modules, modules.agents, "agent", value.name, Of(name, value))
        elif isinstance(value, Hook):
            if not any(value is hook for hook in modules.hooks):
                modules.hooks.append(cast("Hook[Any]", value))
        elif _TOOL_MEMBERS.issubset(dir(value)):
            _register(modules, modules.tools, "tool", value.name, Of(name, value))


def _register(modules: Modules, known: dict[str, Of[T]], kind: str, name: str, new: Of[T]) -> None:
    old = known.setdefault(name, new)
    if old.it is not new.it:
        where = "twice" if old.module == new.module else f"in {old.module} too"
        modules.problems.append(
            DefinitionProblem(
                new.module,
                None,
                f"the {kind} {name!r} is {where}: names must be unique; rename one",
            )
        )


def _told(name: str, error: BaseException, origin: Origin) -> DefinitionProblem:
    """Describe an import error, with the line of user code that raised it; or of the configuration
    if the module is not found.
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
    """Return file and line of the innermost frame outside libraries, else of one in the package."""
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
