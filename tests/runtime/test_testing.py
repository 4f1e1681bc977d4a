"""`treadle.testing`: what tests of other people's agents use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treadle.testing
from tests.stores import new_journal
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, AgentError, Limits, Message, Runtime, ToolContext, tool
from treadle.models.model import ModelRequest, complete
from treadle.models.providers.anthropic.model import AnthropicModel
from treadle.models.providers.http import HttpConnection
from treadle.testing import (
    ScriptedModel,
    context,
    no_real_models,
    override,
    transcript,
)

pytestmark = pytest.mark.anyio


@tool(effect="pure")
async def stock(ctx: ToolContext[dict[str, int]], title: str) -> int:
    """Number of copies in the shop."""
    ctx.progress("looking")
    ctx.warn("the count is of yesterday")
    return ctx.deps[title]


@tool(needs_approval=True)
async def order(title: str) -> str:
    """Order a copy."""
    return f"ordered {title}"


def test_the_module_offers_its_own_names_and_no_others() -> None:
    assert set(treadle.testing.__all__) >= {"ScriptedModel", "context", "override", "transcript"}
    assert all(hasattr(treadle.testing, name) for name in treadle.testing.__all__)


# ---------------------------------------------------------------- tools


async def test_a_tool_can_be_called_with_a_context_of_the_test(tmp_path: Path) -> None:
    said: list[str] = []
    ctx = context({"Warp": 3}, cwd=tmp_path, user_id="ada", said=said.append)
    assert await stock(ctx, title="Warp") == 3
    assert said == ["looking", "the count is of yesterday"]
    assert (ctx.cwd, ctx.user_id, ctx.attempt, ctx.cancelled) == (tmp_path, "ada", 1, False)
    with pytest.raises(KeyError):
        await stock(ctx, title="Weft")


async def test_two_contexts_share_nothing_that_tools_keep() -> None:
    one, other = context(), context()
    one.keep(list).append(1)  # pyright: ignore[reportUnknownMemberType]
    one.seen_files["a"] = "b"
    assert other.keep(list) == []
    assert other.seen_files == {}


async def test_a_long_result_goes_to_a_file_and_an_agent_cannot_be_spawned() -> None:
    path = context().spill("a long text")
    assert path.read_text() == "a long text"
    path.unlink()
    with pytest.raises(AgentError, match="cannot spawn an agent"):
        await context().spawn(Agent(name="child"), "go")


# ---------------------------------------------------------------- scripts


async def test_a_function_answers_each_request() -> None:
    def answer(request: ModelRequest) -> dict[str, Any]:
        return {"text": f"{len(request.messages)}: {request.messages[-1].text}"}

    model = ScriptedModel(answer)
    agent = Agent(name="echo", model=model)
    async with Runtime.open() as rt:
        assert (await rt.run(agent, "one", session="s")).output == "1: one"
        assert (await rt.run(agent, "two", session="s")).output == "3: two"
    assert len(model.requests) == 2
    model.check_used()


async def test_a_function_that_returns_no_entry_is_told_so() -> None:
    agent = Agent(name="echo", model=ScriptedModel(lambda request: {"txt": "hi"}))
    async with Runtime.open() as rt:
        result = await rt.run(agent, "one")
    assert result.error is not None
    assert "entry 1 is not a script entry" in result.error.message


async def test_a_script_that_was_not_used_up_fails_the_block() -> None:
    script = ScriptedModel([{"text": "one"}, {"text": "two"}, {"text": "three"}])
    with pytest.raises(AssertionError) as failed, script as model:
        async with Runtime.open() as rt:
            await rt.run(Agent(name="a", model=model), "go")
    assert "2 entries were not used after 1 requests" in str(failed.value)
    assert "two" in str(failed.value)


async def test_an_error_of_the_block_is_not_replaced_by_the_unused_script() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedModel([{"text": "one"}]):
        raise ZeroDivisionError


# ---------------------------------------------------------------- models


async def test_an_agent_uses_another_model_inside_the_block() -> None:
    agent = Agent(name="shop", model="anthropic:claude-haiku-5-5")
    with override(agent, model=ScriptedModel([{"text": "from the script"}])):
        async with Runtime.open() as rt:
            assert (await rt.run(agent, "hi")).output == "from the script"
            with override("shop", model=ScriptedModel([{"text": "inner"}])):
                assert (await rt.run(agent, "hi")).output == "inner"
    async with Runtime.open() as rt:
        with pytest.raises(AgentError, match="ANTHROPIC_API_KEY"):
            await rt.run(agent, "hi")


async def test_a_child_is_found_by_its_name() -> None:
    child = Agent(name="child", description="Helps.", model="anthropic:claude-haiku-5-5")
    call = {"tool_calls": [{"name": "child", "arguments": {"prompt": "help"}}]}
    parent = Agent(name="parent", model=ScriptedModel([call, {"text": "done"}]), tools=[child])
    with override("child", model=ScriptedModel([{"text": "helped"}])):
        async with Runtime.open() as rt:
            result = await rt.run(parent, "go")
    assert result.messages[2].tool_results[0].text == "helped"


@pytest.mark.usefixtures("store")
async def test_a_resumed_run_uses_the_other_model_too() -> None:
    call = {"tool_calls": [{"name": "order", "arguments": {"title": "Warp"}}]}
    journal = new_journal()
    agent = Agent(name="shop", model=ScriptedModel([call]), tools=[order])
    async with Runtime(journal=journal) as rt:
        first = await rt.run(agent, "go", on_ask="wait")
        assert first.waiting
        asked = (await journal.load(first.run_id)).asked
        with override(agent, model=ScriptedModel(lambda _: {"text": "ordered"})):
            result = await rt.resume(first.run_id, agent=agent, approve=list(asked))
    assert result.output == "ordered"


async def test_a_provider_is_not_asked_but_this_machine_is() -> None:
    request = ModelRequest(messages=[Message.user("hi")])
    far = AnthropicModel(
        "claude-haiku-5-5", connection=HttpConnection("https://api.example.invalid", {})
    )
    near = AnthropicModel("claude-haiku-5-5", connection=HttpConnection("http://127.0.0.1:9", {}))
    with no_real_models():
        with pytest.raises(AgentError, match=r"no request is sent to api\.example\.invalid:443"):
            await complete(far, request)
        with pytest.raises(AgentError, match=r"127\.0\.0\.1:9"):
            await complete(near, request)


# ---------------------------------------------------------------- transcripts


async def _ask(*entries: dict[str, Any]) -> dict[str, Any]:
    agent = Agent(name="shop", model=ScriptedModel(list(entries)), tools=[stock])
    async with Runtime.open() as rt:
        result = await rt.run(agent, "How many?", deps={"Warp": 3}, limits=Limits(turns=3))
    return transcript(result)


async def test_equal_runs_have_equal_transcripts() -> None:
    call = {"tool_calls": [{"name": "stock", "arguments": {"title": "Warp"}}]}
    first, second = await _ask(call, {"text": "Three."}), await _ask(call, {"text": "Three."})
    assert first == second
    assert first == {
        "outcome": "completed",
        "output": "Three.",
        "messages": [
            {"user": "How many?"},
            {"assistant": "", "calls": [{"stock": {"title": "Warp"}}]},
            {"tool": [{"stock": {"result": "3"}}]},
            {"assistant": "Three."},
        ],
    }


async def test_a_transcript_shows_errors_and_arguments_that_are_no_json() -> None:
    broken = {"tool_calls": [{"name": "stock", "arguments": "{"}]}
    shown = await _ask(broken, {"error": {"kind": "auth", "status": 401}})
    assert shown["outcome"] == "error"
    assert "auth" in shown["error"]
    assert shown["messages"][1]["calls"] == [{"stock": "{"}]
    assert list(shown["messages"][2]["tool"][0]["stock"]) == ["error"]
