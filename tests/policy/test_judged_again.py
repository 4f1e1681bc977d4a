"""A command is judged once more as it starts: another call of the same response may have changed
what it was judged by.
"""

from __future__ import annotations

from pathlib import Path

from treadle import Agent, Runtime, tool
from treadle.config import load
from treadle.messages.message import ToolResult
from treadle.testing import ScriptedModel
from treadle.tools.builtin.bash import Bash


async def told(place: Path, command: str) -> list[ToolResult]:
    """The results of one response that first plants a file and then runs a command, where nothing
    confines it.
    """

    @tool(effect="pure", parallel=False)
    def plant() -> str:
        """Write a file that probably contains a secret."""
        (place / "secrets.json").write_text("CANARY")
        return "planted"

    calls = [
        {"name": "plant", "arguments": {}},
        {"name": "bash", "arguments": {"command": command}},
    ]
    agent = Agent(
        name="a",
        model=ScriptedModel([{"tool_calls": calls}, {"text": "done"}]),
        tools=[plant, Bash()],
    )
    async with Runtime(
        config=load(
            {"HOME": str(place), "PATH": "/usr/bin:/bin"},
            files=False,
            flags={"--no-sandbox": "off"},
        )
    ) as runtime:
        result = await runtime.run(agent, "go", cwd=place, mode="ask")
    return list(result.messages[-2].tool_results)


async def test_a_command_is_judged_again_when_it_starts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    planted, run = await told(tmp_path, "cat *.json")
    assert not planted.is_error
    assert run.is_error
    assert "files changed since the call was allowed" in run.text
    assert "CANARY" not in run.text


async def test_what_is_still_allowed_runs(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    _, run = await told(tmp_path, "cat a.json")
    assert (run.is_error, run.text) == (False, "{}")
