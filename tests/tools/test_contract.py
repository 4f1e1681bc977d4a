"""The contract of tools, over built-in tools and a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle import tool as tool_of
from treadle.apps.testing.contracts.tools import *  # noqa: F403  every test of the contract
from treadle.tools.builtin.coding import default_tools
from treadle.tools.tool import Tool


@tool_of(effect="once")
async def pay(euros: float) -> str:
    """Pay money back."""
    return f"{euros} euros paid back"


CALLS: dict[str, dict[str, Any]] = {
    "pay": {"euros": 12.5},
    "read": {"path": "notes.txt"},
    "grep": {"pattern": "tide"},
    "bash": {"command": "true"},
}


@pytest.fixture(params=CALLS)
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> Tool[Any]:
    (tmp_path / "notes.txt").write_text("high tide at noon\n")
    tools = {one.name: one for one in [pay, *default_tools()]}
    return tools[request.param]


@pytest.fixture
def arguments(tool: Tool[Any]) -> dict[str, Any]:
    return CALLS[tool.name]
