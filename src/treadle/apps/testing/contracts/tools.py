"""Contract of tools, over the fixtures `tool`, a `Tool`, and `arguments`, a mapping of valid
arguments of a call that succeeds in `tmp_path`, any number of times. Import its tests:
`from treadle.testing.contracts.tools import *`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.lowlevel
import msgspec
import pytest

from treadle.agents.agent import Agent
from treadle.messages.message import ToolResult
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel, context
from treadle.tools.failures import DidNotHappen, Happened, InvalidArguments
from treadle.tools.tool import Tool, Touched
from treadle.types import Effect, Outcome

WITHIN_S = 30.0


async def _called(
    tool: Tool[Any], arguments: Mapping[str, Any], cwd: Path, *, times: int = 1
) -> list[ToolResult]:
    """Return the results of calls in one turn of a run, approved if they need it."""
    calls = [{"name": tool.name, "arguments": dict(arguments)}] * times
    model = ScriptedModel([{"tool_calls": calls}, {"text": "done"}])
    agent = Agent[Any](name="caller", model=model, tools=[tool])
    with anyio.fail_after(WITHIN_S):
        async with Runtime.open() as runtime:
            result = await runtime.run(agent, "Call it.", cwd=cwd, mode="full", on_ask="wait")
            while result.waiting:
                approve = [call.call_id for call in result.pending]
                result = await runtime.resume(result.run_id, agent, approve=approve)
    assert result.outcome is Outcome.COMPLETED, result.error
    return [part for message in result.new_messages for part in message.tool_results]


def test_a_tool_has_one_definition_that_providers_accept(tool: Tool[Any]) -> None:
    definition = tool.definition
    assert tool.definition is definition
    assert definition.name == tool.name
    assert tool.name.isascii()
    assert tool.name.replace("_", "").replace("-", "").isalnum()
    assert len(tool.name) <= 64
    assert definition.description.strip()
    assert definition.parameters["type"] == "object"
    assert msgspec.json.decode(msgspec.json.encode(definition.parameters)) == definition.parameters


def test_a_tool_has_an_effect_and_limits(tool: Tool[Any]) -> None:
    assert tool.effect in get_args(Effect)
    assert tool.timeout_s is None or tool.timeout_s > 0
    assert tool.max_output > 0


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_arguments_that_are_no_object_are_refused_with_words(tool: Tool[Any], text: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        tool.parse(text)
    assert str(caught.value).strip()


def test_what_a_call_touches_is_known_before_it_runs(
    tool: Tool[Any], arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    parsed = tool.parse(msgspec.json.encode(arguments).decode())
    assert isinstance(tool.touches(parsed, tmp_path), Touched | None)


async def test_a_call_in_a_run_has_one_result_without_an_error(
    tool: Tool[Any], arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    (result,) = await _called(tool, arguments, tmp_path)
    assert not result.is_error, result.text
    assert result.name == tool.name


async def test_calls_of_one_turn_have_a_result_each(
    tool: Tool[Any], arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    results = await _called(tool, arguments, tmp_path, times=3)
    assert len({result.call_id for result in results}) == 3
    assert not any(result.is_error for result in results), results


async def test_a_cancelled_call_ends_and_leaves_the_tool_usable(
    tool: Tool[Any], arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    parsed = tool.parse(msgspec.json.encode(arguments).decode())
    with anyio.fail_after(WITHIN_S):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await tool.execute(context(cwd=tmp_path), parsed)
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    (result,) = await _called(tool, arguments, tmp_path)
    assert not result.is_error, result.text


async def test_a_probe_answers_or_does_not_know(
    tool: Tool[Any], arguments: Mapping[str, Any], tmp_path: Path
) -> None:
    parsed = tool.parse(msgspec.json.encode(arguments).decode())
    with anyio.fail_after(WITHIN_S):
        answer = await tool.probe(context(cwd=tmp_path), parsed)
    assert isinstance(answer, Happened | DidNotHappen | None)
