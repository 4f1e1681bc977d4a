"""A yes for a session, and another mode while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle import Agent, AgentError, Approve, Runtime, ToolContext, tool
from treadle.config import load
from treadle.testing import ScriptedModel
from treadle.tools.approval import ApprovalRequest, Deny
from treadle.tools.builtin.coding import default_tools
from treadle.types import Mode

pytestmark = pytest.mark.anyio


@tool
async def pay(who: str) -> str:
    """Pays somebody."""
    return f"paid {who}"


def calls(*turns: list[str]) -> list[dict[str, Any]]:
    return [
        *(
            {"tool_calls": [{"name": "pay", "arguments": {"who": who}} for who in turn]}
            for turn in turns
        ),
        {"text": "done"},
    ]


async def test_a_request_says_which_rules_would_allow_its_like() -> None:
    async def asked(request: ApprovalRequest) -> Approve:
        seen.append(request.pattern)
        return Approve()

    seen: list[object] = []
    async with Runtime.open() as runtime:
        await runtime.run(
            Agent(name="a", model=ScriptedModel(calls(["Ada"])), tools=[pay]),
            "go",
            mode="ask",
            on_approval=asked,
        )
    assert seen == [("tool(pay)",)]


async def test_a_tool_that_asks_in_every_mode_is_allowed_call_by_call_only() -> None:
    @tool(needs_approval=True)
    async def sign() -> str:
        """Signs."""
        return "signed"

    async def asked(request: ApprovalRequest) -> Approve:
        seen.append(request.pattern)
        return Approve()

    seen: list[object] = []
    async with Runtime.open() as runtime:
        model = ScriptedModel(
            [{"tool_calls": [{"name": "sign", "arguments": {}}]}, {"text": "done"}]
        )
        await runtime.run(
            Agent(name="a", model=model, tools=[sign]), "go", mode="ask", on_approval=asked
        )
    assert seen == [None]


async def test_a_yes_for_the_session_holds_in_the_run_that_asked_and_in_the_next_one() -> None:
    async def asked(request: ApprovalRequest) -> Approve:
        seen.append(str(request.arguments))
        assert request.session_id is not None
        assert request.pattern is not None
        runtime.allow(request.session_id, request.pattern)
        return Approve()

    seen: list[str] = []
    async with Runtime.open() as runtime:
        agent = Agent(
            name="a", model=ScriptedModel([*calls(["Ada"], ["Bob"]), *calls(["Cleo"])]), tools=[pay]
        )
        session = runtime.session(agent=agent)
        for text in ("go", "again"):
            result = await session.send(text, mode="ask", on_approval=asked)
            assert result.success
        other = runtime.session(
            agent=Agent(name="b", model=ScriptedModel(calls(["Dan"])), tools=[pay])
        )
        await other.send("go", mode="ask", on_approval=asked)
    assert seen == ["{'who': 'Ada'}", "{'who': 'Dan'}"]


async def test_what_is_never_offered_cannot_be_allowed() -> None:
    async with Runtime.open() as runtime:
        with pytest.raises(AgentError, match="single calls only"):
            runtime.allow("s", ("python *",))


@pytest.mark.parametrize(("mode", "paid"), [("full", True), ("plan", False)])
async def test_another_mode_holds_from_the_next_call_on(mode: Mode, *, paid: bool) -> None:
    async def asked(request: ApprovalRequest) -> Approve:
        assert request.session_id is not None
        seen.append(request.call_id)
        runtime.use_mode(request.session_id, mode)
        return Approve()

    seen: list[str] = []
    async with Runtime.open() as runtime:
        session = runtime.session(
            agent=Agent(name="a", model=ScriptedModel(calls(["Ada"], ["Bob"])), tools=[pay])
        )
        await session.send("go", mode="ask", on_approval=asked)
        last = [result for message in await session.history() for result in message.tool_results][
            -1
        ]
    assert len(seen) == 1
    assert ("paid Bob" in last.text) is paid
    assert ("mode plan" in last.text) is not paid


async def test_a_run_that_begins_later_has_the_mode_that_it_names() -> None:
    async def asked(request: ApprovalRequest) -> Deny:
        seen.append(request.call_id)
        return Deny()

    seen: list[str] = []
    async with Runtime.open() as runtime:
        session = runtime.session(
            agent=Agent(name="a", model=ScriptedModel(calls(["Ada"])), tools=[pay])
        )
        runtime.use_mode(session.id, "full")
        await session.send("go", mode="ask", on_approval=asked)
    assert len(seen) == 1


async def test_what_a_run_starts_later_has_the_mode_that_holds_then() -> None:
    child = Agent(
        name="child", description="Pays.", model=ScriptedModel(calls(["Ada"])), tools=[pay]
    )

    @tool
    async def tighten(ctx: ToolContext[None]) -> str:
        """Changes the mode."""
        assert ctx.session_id is not None
        runtime.use_mode(ctx.session_id, "plan")
        return "plan"

    async with Runtime.open() as runtime:
        model = ScriptedModel(
            [
                {"tool_calls": [{"name": "tighten", "arguments": {}}]},
                {"tool_calls": [{"name": "child", "arguments": {"prompt": "pay"}}]},
                {"text": "done"},
            ]
        )
        session = runtime.session(agent=Agent(name="a", model=model, tools=[tighten, child]))
        await session.send("go", mode="full")
        runs = [
            info.run_id for info in await runtime.journal.runs() if info.parent_run_id is not None
        ]
        state = await runtime.journal.load(runs[0])
    assert (
        "mode plan"
        in [result for message in state.context.history for result in message.tool_results][-1].text
    )


async def test_a_mode_that_is_none_is_refused(tmp_path: Path) -> None:
    async with Runtime.open(f"sqlite:///{tmp_path / 'journal.db'}") as runtime:
        with pytest.raises(AgentError, match="is not one of"):
            runtime.use_mode("s", "yolo")  # type: ignore[arg-type]


async def test_no_rule_is_offered_that_would_change_nothing(tmp_path: Path) -> None:
    """Without a sandbox a rule of a command still asks."""

    async def asked(request: ApprovalRequest) -> Deny:
        seen.append(request.pattern)
        return Deny()

    seen: list[object] = []
    model = ScriptedModel(
        [{"tool_calls": [{"name": "bash", "arguments": {"command": "npm test"}}]}, {"text": "done"}]
    )
    config = load({"TREADLE_HOME": str(tmp_path)}, files=False, flags={"--no-sandbox": "off"})
    async with Runtime.open(config=config) as runtime:
        await runtime.run(
            Agent(name="a", model=model, tools=default_tools()),
            "go",
            mode="ask",
            cwd=tmp_path,
            on_approval=asked,
        )
    assert seen == [None]
