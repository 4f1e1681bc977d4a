"""Recorded sessions of agents run again through the loop: the model says what it said, the tools
give what they gave, and nothing is lost.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import PlainTool
from treadle import Agent, Limits, Runtime, ToolContext, check_history
from treadle.messages.result import RunResult
from treadle.testing import ScriptedModel

SHARED = Path(__file__).parents[2] / "../shared/recordings/trajectories"
RECORDINGS = sorted(SHARED.glob("*.json"))

pytestmark = pytest.mark.skipif(
    not RECORDINGS, reason="there is no folder of shared recordings beside this checkout"
)


class Trajectory:
    """What was said and given, in order."""

    def __init__(self, file: Path) -> None:
        messages: list[dict[str, Any]] = json.loads(file.read_text())["messages"]
        said = [message for message in messages if message["role"] == "assistant"]
        self.system, self.prompt = messages[0]["content"], messages[1]["content"]
        self.words = [message["content"] for message in said]
        self.given = [message["content"] for message in messages if message["role"] == "tool"]
        self.calls = [
            [call["function"] | {"id": call["id"]} for call in message["tool_calls"]]
            for message in said
        ]

    @property
    def script(self) -> list[dict[str, Any]]:
        turns = [
            {
                "text": words,
                "tool_calls": [
                    {
                        "id": call["id"],
                        "name": call["name"],
                        "arguments": json.loads(call["arguments"]),
                    }
                    for call in calls
                ],
            }
            for words, calls in zip(self.words, self.calls, strict=True)
        ]
        return [*turns, {"text": "Done."}]

    def agent(self) -> Agent[Any, Any]:
        left = deque(self.given)

        async def gives(ctx: ToolContext[Any], arguments: Any) -> str:
            return left.popleft()

        names = dict.fromkeys(call["name"] for calls in self.calls for call in calls)
        tools = [PlainTool(name=name, does=gives, effect="pure") for name in names]
        return Agent(
            name="recorded",
            instructions=self.system.replace("$", "$$"),
            model=ScriptedModel(self.script),
            tools=tools,
        )

    def check(self, result: RunResult[Any]) -> None:
        assert result.outcome == "completed", result.error
        assert result.turn_count == len(self.words) + 1
        assistant = [message for message in result.new_messages if message.role == "assistant"]
        assert [message.text for message in assistant] == [*self.words, "Done."]
        assert [
            [(call.name, call.arguments) for call in message.tool_calls]
            for message in assistant[:-1]
        ] == [
            [(call["name"], json.loads(call["arguments"])) for call in calls]
            for calls in self.calls
        ]
        results = [part for message in result.new_messages for part in message.tool_results]
        assert [part.text for part in results] == self.given
        assert not any(part.is_error for part in results)
        assert check_history(result.messages) == []
        ids = [call.id for message in assistant for call in message.tool_calls]
        assert len({*ids}) == len(ids), "a recording may use an id twice, a history may not"


@pytest.fixture(params=RECORDINGS, ids=lambda file: file.stem)
def trajectory(request: pytest.FixtureRequest) -> Trajectory:
    return Trajectory(request.param)


@pytest.mark.parametrize("url", ["memory:", "sqlite:///runs.db"])
async def test_a_recorded_session_runs_as_it_was_recorded(
    trajectory: Trajectory, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Runtime.open(url) as runtime:
        result = await runtime.run(trajectory.agent(), trajectory.prompt, cwd=tmp_path)
        trajectory.check(result)
        again = await runtime.replay(result.run_id)
        trajectory.check(again)
        assert again.messages == result.messages


async def test_a_recorded_session_goes_on_from_each_of_its_turns(
    trajectory: Trajectory, tmp_path: Path
) -> None:
    async with Runtime.open("memory:") as runtime:
        first = await runtime.run(trajectory.agent(), trajectory.prompt, cwd=tmp_path)
        for turn in range(1, len(trajectory.words) + 1):
            other = Agent(name="other", model=ScriptedModel([{"text": "Enough."}]))
            fork = await runtime.fork(first.run_id, turn=turn, text="Stop here.", agent=other)
            assert fork.text == "Enough."
            assert check_history(fork.messages) == []
            assert [
                part.text for message in fork.messages for part in message.tool_results
            ] == trajectory.given[:turn]


async def test_a_recorded_session_ends_at_its_limit(trajectory: Trajectory, tmp_path: Path) -> None:
    async with Runtime.open("memory:") as runtime:
        result = await runtime.run(
            trajectory.agent(), trajectory.prompt, cwd=tmp_path, limits=Limits(turns=2)
        )
    assert result.outcome == "turn_limit"
    assert check_history(result.messages) == []
