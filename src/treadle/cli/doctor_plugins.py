"""Plug-in checks of `treadle doctor`: each is loaded in a separate process, so that one that
crashes or never returns is reported and stops nothing.

Entry points: `plugin_findings`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Literal, TypeAlias

import click

from treadle.agents.definitions.modules import plugin_tool
from treadle.agents.registry import plugin_agent
from treadle.cli.app import COMMANDS
from treadle.cli.command_group import plugin_command
from treadle.config.keys import STAND_INS, VENDORS
from treadle.config.plugins import KINDS, LOAD_S, Plugin, PluginKind, installed, load_plugin
from treadle.config.presets import PRESETS
from treadle.config.readers import ALIASES
from treadle.errors import AgentError

State: TypeAlias = Literal["ok", "note", "bad"]

AT_ONCE: Final = 4
"""Plug-ins that are loaded at the same time."""
BROKEN: Final = 3
"""Exit code of the process that loads a plug-in, if it is broken."""


def plugin_findings(*, within_s: float = LOAD_S) -> Iterator[tuple[State, str]]:
    """Yield state and text of each installed plug-in. `within_s`: maximum seconds for loading
    one.
    """
    plugins = installed()
    if not plugins:
        return
    taken = _built_in()
    counts = Counter((plugin.kind, plugin.name) for plugin in plugins)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems = pool.map(partial(_problem, within_s), plugins)
        for plugin, problem in zip(plugins, problems, strict=True):
            if plugin.name in taken[plugin.kind]:
                yield "note", f"{plugin} is ignored: the name is built in"
            elif plugin.name and counts[plugin.kind, plugin.name] > 1:
                yield "bad", f"{plugin} is ignored: another plug-in has the same name"
            elif problem:
                yield "bad", problem
            else:
                yield "ok", f"treadle.{plugin.kind} {plugin.name!r} of {plugin.distribution}"


def _built_in() -> Mapping[PluginKind, frozenset[str]]:
    from treadle.tools.builtin.coding import default_tools  # noqa: PLC0415  only if there are plug-ins

    return {
        "models": frozenset((*VENDORS, *PRESETS, *STAND_INS, *ALIASES)),
        "tools": frozenset((*(tool.name for tool in default_tools()), "complete")),
        "journals": frozenset(("memory", "sqlite", "postgresql", "postgres")),
        "engines": frozenset(("local", "dbos")),
        "sandboxes": frozenset(("auto", "on", "off")),
        "commands": frozenset(COMMANDS),
        "agents": frozenset(("treadle",)),
    }


def _problem(within_s: float, plugin: Plugin) -> str:
    """Load a plug-in in another process, and return its problem, or ""."""
    if plugin.problem:
        return f"{plugin} cannot be read: {plugin.problem}"
    argv = [sys.executable, "-P", "-m", "treadle.cli.doctor_plugins", plugin.kind, plugin.name]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{plugin} cannot be loaded: its import takes longer than {within_s:g} s"
    if done.returncode == BROKEN:
        return done.stdout.decode(errors="replace").strip()
    return f"{plugin} ends the process with {done.returncode}" if done.returncode else ""


def _check(kind: PluginKind, name: str) -> None:
    """Load a plug-in as its users do. Raises AgentError(invalid) if it is broken."""
    match kind:
        case "models":
            from treadle.models.providers.wires import wire_of  # noqa: PLC0415  loaded on use

            wire_of(name)
        case "tools":
            plugin_tool(name)
        case "agents":
            plugin_agent(name)
        case "commands":
            plugin_command(name)
        case _:
            if (loaded := load_plugin(kind, name)) is not None:
                loaded.having("__call__")


def main() -> None:
    """Load one plug-in. Prints the problem and exits with `BROKEN` if there is one."""
    given, name = sys.argv[1:]
    try:
        for kind in KINDS:
            if kind == given:
                _check(kind, name)
    except AgentError as e:
        click.echo(e.message)
        sys.exit(BROKEN)


if __name__ == "__main__":
    main()
