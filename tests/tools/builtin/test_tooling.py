"""Tools by name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools.conftest import MakeContext
from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.tools.builtin.coding import default_tools
from treadle.tools.function import FunctionTool, tool
from treadle.tools.registry import ToolRegistry, unknown_tool
from treadle.tools.tool import InvalidArguments, Tool, ToolFailed
from treadle.types import Limits


@tool
async def read(path: str) -> str:
    """Reads."""
    return f"read {path}"


@tool
async def write(path: str, text: str) -> str:
    """Writes."""
    raise ToolFailed("disk full")


def named(name: str) -> FunctionTool[Any]:
    return tool(name=name)(read.function)


def test_what_is_registered_is_found_by_name() -> None:
    registry = ToolRegistry([read])
    registry.register(write)
    assert registry.get("read") is read
    assert registry.get("write") is write
    assert registry.get("Read") is None
    assert len(registry) == 2


def test_tools_stand_in_the_order_of_their_registration() -> None:
    names = ["c", "a", "b"]
    registry = ToolRegistry([named(n) for n in names])
    assert (
        [t.name for t in registry.list()]
        == [t.name for t in registry]
        == [d.name for d in registry.definitions()]
        == names
    )


def test_definitions_are_the_tools_own() -> None:
    registry = ToolRegistry([read, write])
    assert registry.definitions()[1] is write.definition
    assert ToolRegistry().definitions() == ()


def test_a_name_is_taken_once() -> None:
    with pytest.raises(
        AgentError, match="two tools are named 'read': tool names must be unique; rename one"
    ) as e:
        ToolRegistry([read, named("read")])
    assert e.value.kind == "invalid"
    registry = ToolRegistry([read])
    with pytest.raises(AgentError):
        registry.register(read)
    assert registry.list() == [read]


def test_what_is_removed_is_gone_and_may_come_back() -> None:
    registry = ToolRegistry([read, write])
    assert registry.remove("read") is True
    assert registry.remove("read") is False
    assert registry.get("read") is None
    assert registry.definitions() == (write.definition,)
    registry.register(read)
    assert registry.list() == [write, read]


def test_a_list_that_was_given_out_is_nobodys_registry() -> None:
    registry = ToolRegistry([read])
    registry.list().clear()
    assert registry.list() == [read]


async def test_a_tool_is_executed_by_name(make_context: MakeContext, tmp_path: Path) -> None:
    registry = ToolRegistry([read, write])
    assert await registry.execute("read", make_context(tmp_path), '{"path": "a"}') == "read a"
    with pytest.raises(InvalidArguments, match="path: missing"):
        await registry.execute("read", make_context(tmp_path), "")
    with pytest.raises(ToolFailed, match="disk full"):
        await registry.execute("write", make_context(tmp_path), '{"path": "a", "text": ""}')


async def test_an_unknown_tool_is_told_with_the_nearest(
    make_context: MakeContext, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArguments) as e:
        await ToolRegistry([read, write]).execute("raed", make_context(tmp_path), "{}")
    assert (
        e.value.message
        == "There is no tool named 'raed'. Did you mean 'read'? Available: read, write."
    )


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("xyz", ["read"], "There is no tool named 'xyz'. Available: read."),
        ("xyz", [], "There is no tool named 'xyz'. Available: none."),
        ("READ", ["read"], "There is no tool named 'READ'. Did you mean 'read'? Available: read."),
        ("", ["read"], "There is no tool named ''. Available: read."),
    ],
)
def test_the_words_about_an_unknown_tool(name: str, known: list[str], text: str) -> None:
    assert unknown_tool(name, known) == text


def test_the_words_stay_short_whatever_the_model_wrote() -> None:
    told = unknown_tool("x" * 100_000, [f"tool_{i}" for i in range(1000)])
    assert len(told) < 3000


# ---------------------------------------------------------------- the probe


def test_every_tool_has_a_probe() -> None:
    half: Any = SimpleNamespace(
        **{
            name: getattr(read, name)
            for name in dir(read)
            if name != "probe" and not name.startswith("__")
        }
    )
    assert not isinstance(half, Tool)
    assert all(isinstance(one, Tool) for one in [read, *default_tools()])


async def test_no_coding_tool_but_edit_and_bash_kill_says_whether_it_happened(
    make_context: MakeContext, tmp_path: Path
) -> None:
    others = [one for one in default_tools() if one.name not in ("edit", "bash_kill")]
    told = [await one.probe(make_context(tmp_path), one.parse(one.example)) for one in others]
    assert told == [None] * len(others)
    assert [*tmp_path.iterdir()] == []


# ---------------------------------------------------------------- children


async def test_spawn_hands_a_child_to_the_runtime(
    make_context: MakeContext, tmp_path: Path
) -> None:
    asked: list[object] = []

    async def run_child(*args: object, **options: object) -> object:
        asked.extend((args, options))
        return "its result"

    child, limits = Agent[int](name="child"), Limits(turns=3)
    ctx = make_context(tmp_path, run_child=run_child)
    assert (
        await ctx.spawn(child, "Look.", deps=3, inputs={"who": "Ada"}, limits=limits)
        == "its result"
    )
    assert asked == [(child, "Look."), {"deps": 3, "inputs": {"who": "Ada"}, "limits": limits}]
    asked.clear()
    await ctx.spawn(child, "Look.")
    assert asked == [(child, "Look."), {"deps": None, "inputs": None, "limits": None}]


async def test_without_a_runtime_nothing_is_spawned(
    make_context: MakeContext, tmp_path: Path
) -> None:
    with pytest.raises(
        AgentError, match="call 'call_1' cannot spawn an agent: this tool is not run by a runtime"
    ) as e:
        await make_context(tmp_path).spawn(Agent(name="child"), "Look.")
    assert e.value.kind == "invalid"
