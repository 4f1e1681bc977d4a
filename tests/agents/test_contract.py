"""The contract of agents, over the coding assistant and an agent with an output and deps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle import Agent, ToolContext, tool
from treadle.agents.coding.agent import coding_agent
from treadle.apps.testing.contracts.agents import *  # noqa: F403  every test of the contract
from treadle.config import load


@tool
def due(ctx: ToolContext[str]) -> str:
    """Return the date."""
    return ctx.deps


planner = Agent[str, list[int]](
    name="planner", description="Plans.", model="script:none", output=list[int], tools=[due]
)


@pytest.fixture(params=["coding", "planner"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Agent[Any, Any]:
    if request.param == "planner":
        return planner
    return coding_agent(load(files=False), tmp_path).agent


@pytest.fixture
def answer(agent: Agent[Any, Any]) -> dict[str, Any]:
    return {"text": "done"} if agent.output is None else {"text": "[1, 2]"}


@pytest.fixture
def deps() -> str:
    return "today"
