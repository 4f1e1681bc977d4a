"""Agents by name: unique, in the order of registration, found again by the runtime that goes on
with their runs.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from treadle import Agent, AgentError, AgentRegistry, Runtime
from treadle.testing import ScriptedModel


def agent(name: str, **more: Any) -> Agent[Any, Any]:
    return Agent(name=name, model=ScriptedModel([{"text": "done"}]), **more)


def test_an_agent_is_found_by_its_name() -> None:
    registry, guide = AgentRegistry(), agent("guide")
    registry.register(guide)
    assert registry.get("guide") is guide
    assert registry.get("other") is None
    assert "guide" in registry
    assert "other" not in registry


def test_a_second_agent_of_a_name_is_refused_and_the_first_one_stays() -> None:
    registry, first = AgentRegistry(), agent("guide")
    registry.register(first)
    with pytest.raises(AgentError, match="two agents are named 'guide'") as refused:
        registry.register(agent("guide"))
    assert refused.value.kind == "invalid"
    assert registry.get_all() == [first]


def test_agents_are_listed_in_the_order_of_registration() -> None:
    registry = AgentRegistry()
    for name in ("b", "a", "c"):
        registry.register(agent(name))
    assert [each.name for each in registry.get_all()] == ["b", "a", "c"]
    assert [each.name for each in registry] == ["b", "a", "c"]
    assert len(registry) == 3


def test_an_unregistered_name_is_free_again() -> None:
    registry = AgentRegistry()
    registry.register(agent("guide"))
    assert registry.unregister("guide")
    assert not registry.unregister("guide")
    registry.register(agent("guide"))


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(AgentError, match="not a str"):
        AgentRegistry().register("guide")  # type: ignore[arg-type]


def test_of_many_threads_that_register_one_name_one_succeeds() -> None:
    registry, refused, begin = AgentRegistry(), list[AgentError](), threading.Barrier(8)

    def register() -> None:
        mine = agent("guide")
        begin.wait()
        try:
            registry.register(mine)
        except AgentError as e:
            refused.append(e)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    assert len(registry) == 1


async def test_a_run_is_forked_in_another_process_by_the_name_of_its_agent(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    async with Runtime.open(url) as runtime:
        first = await runtime.run(agent("guide"), "go")
    async with Runtime.open(url) as runtime:
        with pytest.raises(AgentError, match=r"the agent 'guide' .* is not known here"):
            await runtime.fork(first.run_id, turn=0)
        runtime.agents.register(agent("guide"))
        again = await runtime.fork(first.run_id, turn=0)
    assert again.text == "done"


@pytest.mark.parametrize("model", ["nosuch:x", "claude-opus", "anthropc:claude-opus-5-5"])
async def test_a_runtime_refuses_an_agent_whose_provider_is_unknown_when_it_is_registered(
    model: str,
) -> None:
    async with Runtime.open() as rt:
        wrong = Agent[Any, Any](name="wrong", model=model, description="x")
        for one in (
            wrong,
            agent("boss", tools=[wrong]),
            agent("top", tools=[agent("boss", tools=[wrong], description="x")]),
        ):
            with pytest.raises(
                AgentError, match=f"agent 'wrong': .*{model.partition(':')[0]}"
            ) as refused:
                rt.agents.register(one)
            assert refused.value.kind == "invalid"
        assert not rt.agents.get_all()
        # its key is asked for when it runs
        rt.agents.register(Agent(name="right", model="anthropic:claude-opus-5-5"))
