"""Definition of the coding assistant for one directory: instructions, guidance, environment, tools.

Entry points: `coding_agent`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import get_data
from typing import Any, NamedTuple

from treadle._internal.redaction import Redactor
from treadle.agents.agent import Agent
from treadle.agents.coding.guidance import guidance
from treadle.agents.coding.skills import SkillReader, Skills
from treadle.agents.coding.vain_rules import vain_rules
from treadle.agents.coding.whereabouts import whereabouts
from treadle.agents.templates import Input
from treadle.config import Config, project_of, trust_of
from treadle.config.places import FOLDER, Project
from treadle.config.trust import AGENTS_NAME, Trust
from treadle.errors import AgentError
from treadle.tools.builtin.agent import AgentTool
from treadle.tools.builtin.coding import default_tools
from treadle.tools.tool import Tool, ToolProvider
from treadle.types import SystemBlock


def colleagues(
    config: Config, own: Path | None, project: Project, trust: Trust
) -> tuple[dict[str, Agent[Any, Any]], list[str]]:
    """Return the usable agents by name, and a warning for each one with errors.

    `trust`: the trust in `project`.
    """
    folders = [folder / FOLDER / AGENTS_NAME for folder in project.folders()] + (
        [own / AGENTS_NAME] if own is not None else []
    )
    if not config.agents and not any(folder.is_dir() for folder in folders):
        return {}, []
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  takes 12 ms, and few projects define agents

    catalog = Catalog(config, project.here, trust=trust)
    found: dict[str, Agent[Any, Any]] = {}
    wrong: dict[str, None] = {}
    for name in catalog.names():
        try:
            agent = catalog.agent(name)
        except AgentError as e:
            wrong |= dict.fromkeys(
                f"the agent {name!r} is left out: {line}" for line in e.message.splitlines()[:1]
            )
            continue
        if not agent.needs:
            found[name] = agent
    return found, [*wrong, *catalog.warnings]


GUIDANCE, WHEREABOUTS = "guidance", "whereabouts"


class Assistant(NamedTuple):
    agent: Agent[object, str]
    warnings: tuple[str, ...]
    """Warnings to show once: ignored project files, with the reason, and rules that match nothing.
    """


def coding_agent(
    config: Config,
    cwd: Path,
    *,
    attended: bool = False,
    moved: bool = False,
    trust: Trust | None = None,
) -> Assistant:
    """Build the coding assistant for `cwd`. Blocks while it reads files.

    The prompt is identical for the same configuration, directory and day. `attended`: True if a
    user can answer questions. `trust`: replaces the stored trust in the project of `cwd`, for a
    copy of a project that Treadle has made. `moved`: the run is resumed in another directory and
    gets new texts; other resumed runs keep the journaled ones.
    """
    own = Path(config.home) if config.home else None
    project = project_of(cwd)
    assert project is not None, "a directory always has a project, at least itself"
    trust = trust or (trust_of(own, project) if own is not None else Trust(root=project.root))
    written = guidance(own, project, trust)
    others, wrong = colleagues(config, own, project, trust)
    clean = Redactor(config.secrets()).exact
    said = {
        GUIDANCE: clean(written.text),
        WHEREABOUTS: clean(whereabouts(project, attended=attended)),
    }
    blocks = {
        name: text.replace("$", "$$") if moved else f"${{{name}}}" for name, text in said.items()
    }
    agent = Agent[object, str](
        name="treadle",
        description="A coding assistant",
        instructions=_instructions().replace("$", "$$"),
        context=[
            SystemBlock(text=blocks[GUIDANCE]),
            SystemBlock(text=blocks[WHEREABOUTS], passing=True),
        ],
        inputs={}
        if moved
        else {name: Input(required=False, default=text) for name, text in said.items()},
        model=config.models.large,
        tools=[*_tools(written.skills), *_handing_on(others)],
        mcp_servers=_servers(config, cwd),
    )
    warnings = (
        *written.warnings,
        *wrong,
        *vain_rules(config, [tool.name for tool in agent.own_tools]),
    )
    return Assistant(
        agent, tuple(warning for warning in warnings if warning not in config.warnings)
    )


def _instructions() -> str:
    text = get_data("treadle.agents.coding", "prompt.md")
    assert text is not None, "it is part of the package"
    return text.decode().strip()


def _servers(config: Config, cwd: Path) -> Sequence[ToolProvider]:
    """Return all configured MCP servers. They start in `cwd`, when a run begins."""
    if not config.mcp_servers:
        return ()
    from treadle.tools.mcp import McpServer  # noqa: PLC0415  few configurations have MCP servers

    return [McpServer.of(name, server, cwd=cwd) for name, server in config.mcp_servers.items()]


def _handing_on(others: Mapping[str, Agent[Any, Any]]) -> Sequence[Tool[Any]]:
    return [AgentTool(others)] if others else []


def _tools(skills: Skills) -> Sequence[Tool[Any]]:
    return [SkillReader(skills) if tool.name == "read" else tool for tool in default_tools()]
