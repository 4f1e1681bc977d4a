"""MCP servers on HTTP whose headers a function of the run returns: each run calls with its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import asks, call, open_runtime, says
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent, AgentError, Outcome, RunContext, tool
from treadle.config import Secret
from treadle.testing import ScriptedModel
from treadle.tools.mcp import McpServer, McpServers
from treadle.tools.mcp.joining import Joining

pytestmark = [pytest.mark.anyio]

TOKENS = {"ada": "token-of-ada", "bob": "token-of-bob"}


async def by_user(ctx: RunContext[Any]) -> Mapping[str, str | Secret]:
    return {"x-user": str(ctx.user_id), "authorization": Secret(TOKENS[ctx.deps])}


def served(url: str, headers: Any = by_user, **fields: Any) -> McpServer:
    return McpServer(name="ours", url=url, headers=headers, wait_s=60, **fields)


def asking(server: McpServer, *before: Any, tools: Any = ()) -> Agent[Any, Any]:
    """An agent that asks the server for both headers of its requests."""
    heard = [call("ours_header", name, name=name) for name in ("x-user", "authorization")]
    script = [*before, asks(*heard), says("done")]
    return Agent(name="a", model=ScriptedModel(script), mcp_servers=[server], tools=tools)


def heard(result: Any) -> list[str]:
    results = [one for message in result.messages for one in message.tool_results]
    return [one.text for one in results if one.call_id in ("x-user", "authorization")]


async def test_two_users_at_once_call_with_their_own_tokens(our_url: str) -> None:
    asked, both, said = 0, anyio.Event(), dict[str, list[str]]()

    async def together(ctx: RunContext[Any]) -> Mapping[str, str | Secret]:
        nonlocal asked
        asked += 1
        if asked == 2:
            both.set()
        await both.wait()
        return await by_user(ctx)

    server = served(our_url, together)
    async with open_runtime() as rt:

        async def ask(user: str) -> None:
            result = await rt.run(asking(server), "Go.", deps=user, user_id=user)
            said[user] = heard(result)
            stored = repr(await rt.journal.read(result.run_id))
            assert TOKENS[user] not in stored

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, "ada")
                group.start_soon(ask, "bob")
    assert said == {user: [user, "[redacted]"] for user in TOKENS}


@pytest.mark.usefixtures("store")
async def test_a_resume_asks_again_with_the_dependencies_of_the_resume(our_url: str) -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    asked = list[str]()

    async def noted(ctx: RunContext[Any]) -> Mapping[str, str]:
        asked.append(ctx.deps)
        return {"x-user": ctx.deps}

    agent = asking(served(our_url, noted), asks(call("pay", "p")), tools=[pay])
    async with open_runtime() as rt:
        waiting = await rt.run(agent, "Go.", deps="ada", user_id="u", on_ask="wait")
        result = await rt.resume(waiting.run_id, agent, deps="bob", approve=["p"])
    assert asked == ["ada", "bob"]
    assert heard(result)[0] == "bob"


async def test_an_agent_that_takes_over_asks_for_its_own_headers(our_url: str) -> None:
    clerk = asking(served(our_url))
    clerk = clerk.with_(name="clerk")
    first = Agent(
        name="f",
        model=ScriptedModel([asks(call("transfer_to_clerk", "h", reason="x"))]),
        handoffs=[clerk],
    )
    async with open_runtime() as rt:
        result = await rt.run(first, "Go.", deps="bob", user_id="bob")
    assert heard(result) == ["bob", "[redacted]"]


async def none(ctx: RunContext[Any]) -> Any:
    return None


async def raising(ctx: RunContext[Any]) -> Any:
    raise ValueError("hunter2")


async def hanging(ctx: RunContext[Any]) -> Any:
    await anyio.sleep_forever()


async def broken(ctx: RunContext[Any]) -> Any:
    return {"x-user": "hunter2\nx-evil: 1"}


async def refusing(ctx: RunContext[Any]) -> Any:
    raise AgentError("auth", "ada has not connected her calendar: open /connect")


@pytest.mark.parametrize(
    ("headers", "kind", "says"),
    [
        (none, "auth", "returned NoneType, so the run does not start: return headers by name"),
        (raising, "auth", "raised ValueError, so the run does not start: check the function"),
        (hanging, "timeout", "returned nothing within start_timeout_s"),
        (broken, "invalid", "a header cannot contain a line break"),
        (refusing, "auth", "ada has not connected her calendar"),
    ],
)
async def test_a_function_that_fails_is_an_error_before_the_run_starts(
    headers: Any, kind: str, says: str
) -> None:
    server = served("http://127.0.0.1:9/mcp", headers, start_timeout_s=0.001)
    async with open_runtime() as rt:
        with pytest.raises(AgentError) as failed:
            await rt.run(asking(server), "Go.", deps="ada")
        assert (failed.value.kind, await rt.journal.runs()) == (kind, [])
    assert says in failed.value.message
    assert "hunter2" not in failed.value.message


async def test_a_connection_is_kept_for_the_next_run_of_its_user_until_others_need_the_place(
    our_url: str, servers: McpServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.tools.mcp.servers.IDLE_MOST", 1)

    async def joined(user: str) -> tuple[McpServer, Joining]:
        ctx = RunContext(
            deps=user,
            inputs={},
            agent="a",
            run_id="r",
            session_id=None,
            user_id=user,
            cwd=Path.cwd(),
            mode="full",
        )
        mine = await served(our_url).for_run(ctx)
        return mine, await servers.join([mine], within_s=60)

    def states(*mine: McpServer) -> list[str]:
        return [one.state for one in servers.standing(mine)]

    (ada, first), (same, second), (bob, third) = [
        await joined(user) for user in ("ada", "ada", "bob")
    ]
    assert ada.process == same.process != bob.process
    servers.release(first)
    servers.release(third)
    assert states(ada, bob) == ["running", "running"]
    servers.release(second)  # bob's is the older one without a run
    assert states(ada, bob) == ["running", "idle"]
    again = (await joined("ada"))[1]
    assert [tool.name for tool in again.take()[0]][:1] == ["ours_add"]


async def test_a_server_with_a_function_is_for_runs_and_has_no_other_credentials(
    servers: McpServers,
) -> None:
    with pytest.raises(AgentError, match="is a function of a run"):
        await servers.tools([served("http://127.0.0.1:9/mcp")], warn=print)
    with pytest.raises(AgentError, match="either auth= or a function"):
        served("http://127.0.0.1:9/mcp", auth=object())
    with pytest.raises(AgentError, match="are for a server with a url"):
        McpServer(name="x", command=["x"], headers=by_user)


async def test_a_run_with_such_a_server_can_be_submitted(our_url: str) -> None:
    agent = asking(served(our_url))
    async with open_runtime() as rt:
        run_id = await rt.submit(agent, "Go.", user_id="ada")
        result = await rt.resume(run_id, agent, deps="ada")
    assert (result.outcome, heard(result)) == (Outcome.COMPLETED, ["ada", "[redacted]"])
