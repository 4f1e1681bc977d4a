"""Contract of agents, over the fixture `agent`, an `Agent`. An agent whose output has a type, or
whose runs have dependencies, also needs the fixtures `answer`, a `ScriptedModel` entry with which a
run completes, and `deps`. Import its tests: `from treadle.testing.contracts.agents import *`.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from treadle.agents.agent import Agent
from treadle.agents.registry import AgentRegistry
from treadle.models.model import ModelRequest
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel, override
from treadle.types import Outcome, new_id

WITHIN_S = 30.0


@pytest.fixture
def answer() -> dict[str, Any]:
    return {"text": "done"}


@pytest.fixture
def deps() -> Any:
    return None


def test_an_agent_is_found_by_its_name_and_described(agent: Agent[Any, Any]) -> None:
    registry = AgentRegistry()
    registry.register(agent)
    assert registry.get(agent.name) is agent
    assert agent.description.strip()


def test_tools_of_an_agent_have_names_of_their_own(agent: Agent[Any, Any]) -> None:
    names = [tool.name for tool in agent.own_tools]
    assert len(set(names)) == len(names)


async def test_a_run_completes_and_offers_tools(
    agent: Agent[Any, Any], answer: dict[str, Any], deps: Any
) -> None:
    offered = set[str]()

    def respond(request: ModelRequest) -> dict[str, Any]:
        offered.update(tool.name for tool in request.tools)
        return answer

    with anyio.fail_after(WITHIN_S), override(agent, model=ScriptedModel(respond)):
        async with Runtime.open() as runtime:
            result = await runtime.run(agent, "Go.", deps=deps)
    assert result.outcome is Outcome.COMPLETED, result.error
    own = {tool.name for tool in agent.own_tools}
    assert offered & own or not own


async def test_a_run_is_ensured_once_under_its_id(
    agent: Agent[Any, Any], answer: dict[str, Any], deps: Any
) -> None:
    run_id, asked = new_id("run"), list[ModelRequest]()

    def respond(request: ModelRequest) -> dict[str, Any]:
        asked.append(request)
        return answer

    with anyio.fail_after(WITHIN_S), override(agent, model=ScriptedModel(respond)):
        async with Runtime.open() as runtime:
            first = await runtime.ensure(agent, "Go.", run_id=run_id, deps=deps)
            again = await runtime.ensure(agent, "Go.", run_id=run_id, deps=deps)
    assert len(asked) == 1
    assert again.output_json == first.output_json
