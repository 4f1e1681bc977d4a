"""`treadle agents`: list, show and check the agents defined in files and modules.

Definitions are parsed in treadle.agents.definitions. Entry points: `agents`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain, wrapped
from treadle._internal.units import count
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.run_options import check_directory
from treadle.cli.terminal import Ink, Style, put, put_json, table, width
from treadle.config import Config, load
from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.agents.agent import Agent
    from treadle.agents.definitions import Catalog
    from treadle.agents.definitions.keys import ReadDefinition

NONE = "no agents are defined here: `treadle init` writes an example"
folder = click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=".",
    help="Directory whose agents are used. Default: the working directory.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="As JSON.")


@click.group(context_settings=HELP)
def agents() -> None:
    """List, show and check the agents that are defined in files and in Python modules.

    .treadle/agents/NAME.md or NAME.yaml defines the agent NAME, in your own folder and in the
    project. If a name is defined twice, your own definition wins, then the nearest one of the
    project. Agents of a project that you have not trusted are marked; they run only if you name
    them with --agent. The configuration key `agents` names the modules.
    """


@agents.command("list", context_settings=HELP, short_help="List the agents.")
@as_json
@folder
def list_(as_json: bool, cwd: Path) -> None:
    """List the agents and where each is defined."""
    config, catalog = _opened(cwd)
    secrets = Redactor(config.secrets())
    catalog.adopt_all()
    for problem in catalog.modules.problems:
        _warn(secrets, str(problem))
    facts = [_facts(catalog, name, cwd) for name in catalog.names()]
    for line in (*catalog.hidden(), *(problem for each in facts for problem in each["problems"])):
        _warn(secrets, line)
    if as_json:
        put_json(
            [
                {key: value for key, value in each.items() if key != "instructions"}
                for each in facts
            ],
            secrets,
        )
    elif facts:
        rows = [
            [
                each["name"],
                each["model"] or "",
                _marked(each),
                "(see above)" if each["problems"] else plain(" ".join(each["description"].split())),
            ]
            for each in facts
        ]
        broken = {each["name"] for each in facts if each["problems"]}
        for line in table(
            ["name", "model", "from", "description"],
            rows,
            ink=Ink(),
            style=partial(_colour, broken),
        ):
            put(secrets.text(line))
    else:
        echo(NONE, err=True)


def _marked(facts: dict[str, Any]) -> str:
    return facts["place"] if facts["trusted"] else f"{facts['place']} (not trusted)"


def _colour(broken: set[str], column: int, text: str) -> Style:
    return "" if column else "red" if text in broken else "bold"


@agents.command(context_settings=HELP, short_help="Show an agent's instructions, tools and limits.")
@click.argument("name")
@as_json
@folder
def show(name: str, as_json: bool, cwd: Path) -> None:
    """Show the instructions, tools and limits of the agent NAME.

    Exits with 1 if its definition has problems.
    """
    config, catalog = _opened(cwd)
    secrets = Redactor(config.secrets())
    with failing():
        catalog.problems(name)
    facts = _facts(catalog, name, cwd)
    for line in facts["problems"]:
        _warn(secrets, line)
    if as_json:
        put_json(facts, secrets)
    elif not facts["problems"]:
        put("\n".join(map(secrets.text, _page(facts, Ink()))))
    sys.exit(int(bool(facts["problems"])))


@agents.command(
    context_settings=HELP, short_help="Check definitions, with file and line of each problem."
)
@click.argument("which", metavar="[NAME|FILE]", required=False)
@folder
def check(which: str | None, cwd: Path) -> None:
    """Check the agent NAME, FILE, or all agents, and print each problem with file and line.

    MCP servers are not started, so their tools are not checked. Exits with 1 if there are problems.
    """
    config, catalog = _opened(cwd)
    with failing():
        name = _added(catalog, which) if which is not None and _is_file(which) else which
        problems = catalog.problems(name)
    secrets = Redactor(config.secrets())
    for problem in problems:
        echo(plain(secrets.text(str(problem))), err=True)
    if problems:
        raise CommandFailed(f"{count(len(problems), 'problem')} to fix", 1)
    for line in catalog.hidden() if name is None else ():
        _warn(secrets, line)
    names = catalog.names() if name is None else [name]
    put(f"ok: {', '.join(names)}" if names else "ok: no agents are defined here")


@agents.command(
    context_settings=HELP,
    short_help="Print the format of a definition as a JSON Schema, for editors.",
)
def schema() -> None:
    """Print the format of a definition as a JSON Schema, which editors use to complete and check
    input.
    """
    from treadle.agents.definitions.format import definition_schema  # noqa: PLC0415  only here

    put_json(definition_schema(), Redactor(()))


# ---------------------------------------------------------------- facts about an agent


def _opened(cwd: Path) -> tuple[Config, Catalog]:
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  --help needs none of it

    check_directory(cwd)
    with failing():
        config = load(cwd=cwd)
        for warning in config.warnings:
            _warn(Redactor(config.secrets()), warning)
        catalog = Catalog(config, cwd)
        catalog.admit_all()  # shown to a person, and to no model
        return config, catalog


def _warn(secrets: Redactor, text: str) -> None:
    echo(f"! {plain(secrets.text(text))}", err=True)


def _is_file(which: str) -> bool:
    return which.endswith((".md", ".yaml", ".yml")) or os.sep in which


def _added(catalog: Catalog, which: str) -> str:
    path = Path(which)
    if not path.is_file():
        raise CommandFailed(f"{which!r} does not exist")
    return catalog.add(path)


def _facts(catalog: Catalog, name: str, cwd: Path) -> dict[str, Any]:
    problems = [str(problem) for problem in catalog.problems(name)]
    of = catalog.modules.agents.get(name)
    file = catalog.found.files.get(name)
    definition = catalog.definition(name)
    if file is None and of is not None:
        try:
            return {
                "name": name,
                "source": "module",
                "place": of.module,
                "trusted": True,
                **_of_code(of.it),
                "problems": problems,
            }
        except AgentError as e:  # an output type that JSON Schema cannot describe
            return {
                "name": name,
                "source": "module",
                "place": of.module,
                "trusted": True,
                **dict.fromkeys(_KEYS),
                "problems": [f"{of.module}: {e.message}"],
            }
    said: dict[str, Any] = _of_file(definition) if definition is not None else dict.fromkeys(_KEYS)
    place = "" if file is None else _short(file.path, cwd)
    source, trusted = (
        "own" if file is not None and file.root is None else "project",
        not catalog.is_untrusted(name),
    )
    return {
        "name": name,
        "source": source,
        "place": place,
        "trusted": trusted,
        **said,
        "problems": problems,
    }


_KEYS = ("description", "model", "tools", "handoffs", "limits", "inputs", "output", "instructions")


def _of_file(definition: ReadDefinition) -> dict[str, Any]:
    return {
        "description": definition.description,
        "model": definition.model.text if definition.model else None,
        "tools": [named.text for named in definition.tools],
        "handoffs": [named.text for named in definition.handoffs],
        "limits": msgspec.to_builtins(definition.limits) if definition.limits else {},
        "inputs": _inputs(definition),
        "output": definition.output,
        "instructions": definition.instructions,
    }


def _of_code(agent: Agent[Any, Any]) -> dict[str, Any]:
    model = agent.model
    return {
        "description": agent.description,
        "model": model
        if isinstance(model, str | None)
        else getattr(model, "name", type(model).__name__),
        "tools": [one.name for one in agent.own_tools],
        "handoffs": [one.name for one in agent.handoffs],
        "limits": msgspec.to_builtins(agent.limits) if agent.limits else {},
        "inputs": _inputs(agent),
        "output": None if agent.answer is None else agent.answer.schema,
        "instructions": agent.instructions
        if isinstance(agent.instructions, str)
        else f"(a function, {getattr(agent.instructions, '__qualname__', '…')})",
    }


def _inputs(of: ReadDefinition | Agent[Any, Any]) -> dict[str, Any]:
    return {
        name: {
            "type": one.type,
            "required": one.required and one.default is None,
            "default": one.default,
            "description": one.description,
        }
        for name, one in of.inputs.items()
    }


def _short(path: Path, cwd: Path) -> str:
    """Return the path relative to `cwd` or to the home directory if it is inside one of them."""
    for base, sign in ((Path(os.path.realpath(cwd)), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return f"{sign}{path.relative_to(base)}"
    return str(path)


# ---------------------------------------------------------------- the page of an agent


def _page(facts: dict[str, Any], ink: Ink) -> Iterator[str]:
    yield ink(facts["name"], "bold")
    yield from _field("", facts["description"] or "(no description)", ink)
    yield from _field("from", _marked(facts), ink)
    yield from _field("model", facts["model"] or "from the configuration", ink)
    yield from _field("tools", ", ".join(facts["tools"]) or "none", ink)
    if facts["handoffs"]:
        yield from _field("handoffs", ", ".join(facts["handoffs"]), ink)
    if facts["limits"]:
        yield from _field(
            "limits", ", ".join(f"{name} {value}" for name, value in facts["limits"].items()), ink
        )
    for name, one in facts["inputs"].items():
        need = (
            "required"
            if one["required"]
            else f"default {one['default']!r}"
            if one["default"] is not None
            else "optional"
        )
        yield from _field(
            f"input {name}",
            f"{one['type']}, {need}{': ' if one['description'] else ''}{one['description']}",
            ink,
        )
    if facts["output"] is not None:
        yield from _field("output", msgspec.json.encode(facts["output"]).decode(), ink)
    if facts["instructions"]:
        yield ""
        yield from plain(facts["instructions"]).splitlines()


def _field(name: str, text: str, ink: Ink) -> Iterator[str]:
    lines = wrapped(plain(text), width() - 14) or [""]
    yield f"{ink(f'{name:<12}', 'dim')}  {lines[0]}" if name else lines[0]
    for line in lines[1:]:
        yield f"{'':<14}{line}" if name else line
