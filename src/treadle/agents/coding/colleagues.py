"""Agents that the coding assistant can hand work to: those that files and modules define, and that
need nothing but a prompt.

How they are defined is treadle.agents.definitions'. Entry: `colleagues`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.config.places import FOLDER, Project
from treadle.config.trust import AGENTS_NAME, Trust
from treadle.errors import AgentError


def colleagues(
    config: Config, own: Path | None, project: Project, trust: Trust
) -> tuple[dict[str, Agent[Any, Any]], list[str]]:
    """Agents by name, and a line for each that is left out because something is wrong with it.

    `trust`: in the project.
    """
    folders = [folder / FOLDER / AGENTS_NAME for folder in project.folders()] + (
        [own / AGENTS_NAME] if own is not None else []
    )
    if not config.agents and not any(folder.is_dir() for folder in folders):
        return {}, []
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  12 ms of start-up, and most projects define none

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
