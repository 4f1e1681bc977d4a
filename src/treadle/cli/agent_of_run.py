"""Selection of the agent that resumes a run: the one that its name refers to in the run's
directory.

The command-line options for agents are in agent_option.py. Entry points: `agent_of_run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle._internal.json_text import decode_json
from treadle.agents.agent import Agent
from treadle.cli.agent_option import ASSISTANT, defined_agent
from treadle.cli.exits import CommandFailed
from treadle.config import Config

if TYPE_CHECKING:
    from treadle.journal.entries import RunStarted
    from treadle.journal.journal import Journal
    from treadle.journal.run_info import RunInfo

ELSEWHERE = "resume or fork it in its own program, with Runtime.resume or Runtime.fork"


class RunAgent(NamedTuple):
    agent: Agent[Any, Any]
    others: tuple[Agent[Any, Any], ...] = ()
    """Agents that the resumed agent can start by name."""
    warnings: tuple[str, ...] = ()


def agent_of_run(
    info: RunInfo, config: Config, cwd: Path, *, schema: dict[str, object] | None = None
) -> RunAgent:
    """Return the agent that resumes the run in `cwd`. Reads files, so it blocks.

    `schema`: output schema with which the run began. Raises CommandFailed if the agent is no longer
    defined there, and AgentError(invalid) if its definition is invalid.
    """
    found = (
        _assistant(info, config, cwd) if info.agent == ASSISTANT else _defined(info, config, cwd)
    )
    agent = found.agent
    differs = schema is not None and (
        agent.answer is None or schema not in (agent.output, agent.answer.schema)
    )
    return found._replace(agent=agent.with_(output=schema)) if differs else found


def _assistant(info: RunInfo, config: Config, cwd: Path) -> RunAgent:
    from treadle.agents.coding import coding_agent  # noqa: PLC0415  as in agent_option.py

    made = coding_agent(config, cwd, moved=cwd.resolve() != Path(info.cwd))
    return RunAgent(made.agent, warnings=made.warnings)


def _defined(info: RunInfo, config: Config, cwd: Path) -> RunAgent:
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  brings the library for YAML

    name, catalog = info.agent, Catalog(config, cwd)
    catalog.name(name)  # as the command line did when the run began
    if name not in catalog.names() and not catalog.modules.problems:
        raise CommandFailed(
            f"the agent {name!r} of run {info.run_id} is not defined in {str(cwd)!r}: {ELSEWHERE}"
        )
    chosen = defined_agent(config, catalog, name)
    return RunAgent(chosen.agent, chosen.others, chosen.warnings)


async def schema_of(journal: Journal, run_id: str) -> dict[str, object] | None:
    """Return the output schema with which a run began."""
    started = (await journal.load(run_id)).started
    assert started is not None, "a run begins with run.started"
    return schema_when_begun(started)


def schema_when_begun(started: RunStarted) -> dict[str, object] | None:
    return (
        started.settings.output_schema
        if started.output is None
        else decode_json(started.output.encode(), dict[str, object])
    )
