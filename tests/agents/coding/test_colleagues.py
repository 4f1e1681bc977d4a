"""The coding assistant hands work to agents that files define: which those are, and what comes of
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tests.agents.coding.conftest import Place
from tests.doubles import asks, call, open_runtime, says
from treadle import Agent
from treadle.testing import ScriptedModel
from treadle.tools.builtin.agent import AgentTool


def define(place: Place, name: str, text: str, *, mine: bool = False) -> Path:
    if mine:
        return place.mine(f"agents/{name}", text)
    path = place.root / ".treadle" / "agents" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def tool_of(place: Place) -> AgentTool | None:
    return next(
        (tool for tool in place.assistant().agent.own_tools if isinstance(tool, AgentTool)), None
    )


def test_where_no_agent_is_defined_there_is_no_such_tool(place: Place) -> None:
    assert tool_of(place) is None


def test_it_is_told_of_every_agent_that_a_prompt_is_enough_for(place: Place) -> None:
    define(place, "reviewer.md", "---\ndescription: Reviews changes\n---\nReview.\n")
    define(place, "mine.md", "---\ndescription: Of my own\n---\nDo.\n", mine=True)
    define(
        place,
        "needy.md",
        "---\ndescription: Needs\ninputs:\n  who: {type: string}\n---\nAsk ${who}.\n",
    )
    place.trust()
    tool = tool_of(place)
    assert tool is not None
    assert tool.definition.description.endswith(
        "There are:\n- `mine`: Of my own\n- `reviewer`: Reviews changes"
    )
    assert tool.definition is tool.definition


def test_one_that_something_is_wrong_with_is_left_out_and_said(place: Place) -> None:
    broken = define(place, "broken.md", "---\ndescription: x\ntools: [reed]\n---\nDo.\n")
    define(place, "fine.md", "---\ndescription: Fine\n---\nDo.\n")
    place.trust()
    (warning,) = [one for one in place.assistant().warnings if "broken" in one]
    assert f"{broken}:3" in warning
    tool = tool_of(place)
    assert tool is not None
    assert "broken" not in tool.definition.description


def agents(*names: str, answer: str = "looks good") -> dict[str, Agent[object, str]]:
    return {
        name: Agent(name=name, description=f"Does {name}.", model=ScriptedModel([says(answer)] * 5))
        for name in names
    }


async def test_work_is_done_by_the_agent_of_that_name(tmp_path: Path) -> None:
    for mode in ("plan", "ask", "full"):
        rt, script = (
            open_runtime(),
            [asks(call("agent", name="reviewer", prompt="Look.")), says("done")],
        )
        boss = Agent[object, str](
            name="boss",
            model=ScriptedModel(script),
            tools=[cast("Any", AgentTool(agents("reviewer", "other")))],
        )
        result = await rt.run(boss, "go", mode=mode, cwd=tmp_path)
        assert [one.text for message in result.messages for one in message.tool_results] == [
            "looks good"
        ]
        assert sorted(info.agent for info in await rt.journal.runs()) == ["boss", "reviewer"]


async def test_a_name_that_there_is_not_is_explained() -> None:
    script = [
        asks(
            call("agent", name="reviwer", prompt="Look."),
            call("agent", name="zzz", prompt="x"),
            call("agent", name="reviewer", prompt=" "),
        ),
        says("done"),
    ]
    result = await open_runtime().run(
        Agent(
            name="boss",
            model=ScriptedModel(script),
            tools=[cast("Any", AgentTool(agents("reviewer")))],
        ),
        "go",
    )
    first, second, third = [one.text for message in result.messages for one in message.tool_results]
    assert "Did you mean 'reviewer'?" in first
    assert "There are: reviewer." in second
    assert "empty" in third


def test_of_very_many_agents_the_model_is_told_a_part() -> None:
    tool = AgentTool(agents(*[f"agent{n}" for n in range(500)]))
    assert "and 450 more" in tool.definition.description
    assert tool.parse('{"name": "agent499", "prompt": "x"}').name == "agent499"
