"""Options that select an agent: `--agent`, its inputs and its output schema.

Definitions are parsed in treadle.agents.definitions; the coding assistant is built in
treadle.agents.coding. Entry points: `agent_options`, `chosen_agent`,
`defined_agent`, `typed_inputs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import click
import msgspec

from treadle.agents.agent import Agent
from treadle.agents.templates import Input
from treadle.cli.exits import CommandFailed
from treadle.config import Config
from treadle.errors import AgentError
from treadle.events.hooks import Hook
from treadle.types import Limits

if TYPE_CHECKING:
    from treadle.agents.definitions import Catalog

F = TypeVar("F", bound=Callable[..., Any])

ASSISTANT = "treadle"
"""Name of the coding assistant, the default agent."""

_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--agent",
        metavar="NAME",
        help="Run this agent, with its instructions and tools: see `treadle agents list`.",
    ),
    click.option(
        "--input",
        "inputs",
        metavar="K=V",
        multiple=True,
        help="An input of the agent, of the type that it declares; repeatable.",
    ),
    click.option(
        "--output-schema",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A JSON Schema that the answer, as JSON, must match.",
    ),
)


class ChosenAgent(NamedTuple):
    agent: Agent[Any, Any]
    limits: Limits
    """Limits of the agent's runs."""
    inputs: dict[str, Any]
    others: tuple[Agent[Any, Any], ...] = ()
    """Agents that this agent can start by name."""
    warnings: tuple[str, ...] = ()
    """Warnings about the definition, to show once."""


def agent_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_agent(
    config: Config, cwd: Path, options: Mapping[str, Any], *, attended: bool = False
) -> ChosenAgent:
    """Return the agent that the options select. `attended`: a person can answer questions.

    Raises AgentError(invalid) for an invalid definition, and CommandFailed for invalid inputs or an
    invalid output schema.
    """
    chosen = _named(config, cwd, options, attended=attended)
    return (
        chosen._replace(agent=_with_output(chosen.agent, options["output_schema"]))
        if options["output_schema"]
        else chosen
    )


def _named(config: Config, cwd: Path, options: Mapping[str, Any], *, attended: bool) -> ChosenAgent:
    name, given = options["agent"] or ASSISTANT, options["inputs"]
    if name == ASSISTANT:
        from treadle.agents.coding import coding_agent  # noqa: PLC0415  it brings the tools, and --help needs none

        if given:
            raise CommandFailed(f"--input {given[0]} belongs to an agent: name it with --agent")
        assistant = coding_agent(config, cwd, attended=attended)
        return ChosenAgent(assistant.agent, config.limits, {}, warnings=assistant.warnings)
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  it brings the library for YAML

    chosen = defined_agent(config, Catalog(config, cwd), name)
    agent = replace(chosen.agent, model=options["model"]) if options["model"] else chosen.agent
    return chosen._replace(agent=agent, inputs=_inputs(agent, given))


def defined_agent(config: Config, catalog: Catalog, name: str) -> ChosenAgent:
    """Build the agent that a user named, from files and modules.

    Raises AgentError(invalid) with every problem found in its definition.
    """
    catalog.name(name)
    return made_agent(config, catalog, name)


def made_agent(config: Config, catalog: Catalog, name: str) -> ChosenAgent:
    """Build an agent that no user named. Definitions of an untrusted project are ignored."""
    agent = catalog.agent(name)
    others = tuple(other for other in catalog.made() if other is not agent)
    return ChosenAgent(agent, _limits(config, agent), {}, others, catalog.remarks(name))


def module_hooks(config: Config) -> tuple[Hook[Any], ...]:
    """Return the hooks of the configured modules, which apply to every run.

    Raises AgentError(invalid) if a module cannot be imported, because a guard must not be skipped
    silently.
    """
    if not config.agents:
        return ()
    from treadle.agents.definitions import import_modules  # noqa: PLC0415  it brings the library for YAML

    modules = import_modules(config.agents, config.origin("agents"))
    if modules.problems:
        raise AgentError("invalid", "\n".join(map(str, modules.problems)))
    return tuple(modules.hooks)


def _with_output(agent: Agent[Any, Any], file: Path) -> Agent[Any, Any]:
    try:
        schema: object = json.loads(file.read_bytes())
    except OSError as e:
        raise CommandFailed(f"cannot read --output-schema {str(file)!r}: {e.strerror or e}") from e
    except json.JSONDecodeError as e:
        raise CommandFailed(f"{file}:{e.lineno}: --output-schema is not valid JSON: {e.msg}") from e
    except RecursionError as e:
        raise CommandFailed(f"{file}: --output-schema is nested too deeply") from e
    except ValueError as e:
        raise CommandFailed(f"{file}: --output-schema is not valid JSON: {e}") from e
    if not isinstance(schema, dict):
        raise CommandFailed(
            f'{file}: --output-schema must be a JSON Schema, an object like {{"type": '
            f'"object"}}, not {type(schema).__name__}'
        )
    if agent.output_check is not None:
        raise CommandFailed(
            f"agent {agent.name!r} checks its own output (output_check=): leave out --output-schema"
        )
    try:
        asked = replace(agent, output=cast("dict[str, object]", schema))
        assert asked.answer is not None, "there is a schema"
        _ = asked.answer.schema  # built now, so that errors name the file
    except RecursionError as e:
        raise CommandFailed(f"{file}: --output-schema is nested too deeply") from e
    except AgentError as e:
        raise CommandFailed(f"{file}: --output-schema{e.message.partition('output=')[2]}") from e
    return asked


def _limits(config: Config, agent: Agent[Any, Any]) -> Limits:
    """Merge limits: options override the agent's limits, which override the configuration."""
    said = msgspec.structs.asdict(agent.limits or Limits())
    own = {
        name: None
        for name, value in said.items()
        if value is not None and config.origin("limits", name).source != "flag"
    }
    return msgspec.structs.replace(config.limits, **own)


def typed_inputs(declared: Mapping[str, Input], given: Sequence[str]) -> dict[str, Any]:
    """Parse `K=V` texts with the types that an agent declares; an undeclared input stays text.

    Raises CommandFailed, and AgentError(invalid) for a value of another type.
    """
    from treadle.agents.definitions import typed  # noqa: PLC0415  brings the library for YAML

    values: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise CommandFailed(
                f"--input {each!r} is not K=V: name the input and its value, like --input who=Ada"
            )
        if name in values:
            raise CommandFailed(f"--input gives {name!r} twice")
        values[name] = typed(name, text, declared.get(name))
    return values


def _inputs(agent: Agent[Any, Any], given: Sequence[str]) -> dict[str, Any]:
    from treadle.agents.definitions import missing  # noqa: PLC0415  brings the library for YAML
    from treadle.config.readers import nearest  # noqa: PLC0415  as in chosen_agent

    values = typed_inputs(agent.inputs, given)
    for name in values if agent.inputs else ():
        if name not in agent.inputs:
            near = nearest(name, agent.inputs)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(agent.inputs)}"
            raise CommandFailed(f"agent {agent.name!r} has no input {name!r}: {hint}")
    if needed := missing(agent.inputs, agent.instructions, values):
        raise CommandFailed(
            f"agent {agent.name!r} needs the input {needed[0]!r}: give it with --input "
            f"{needed[0]}=…"
        )
    return values
