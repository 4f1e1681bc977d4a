"""Headers of one run: sent to its model's provider, and stored nowhere."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from tests.doubles import open_runtime
from tests.models.providers.loopback import Answer, document, serving
from tests.models.providers.test_openai_chat_model import answer, chunk
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent, AgentError, Outcome, Runtime, tool
from treadle.config import Config, Provider, Secret
from treadle.messages.events import Event
from treadle.testing import ScriptedModel

GOOD = answer(chunk({"content": "Hello."}))
AGENT = Agent(name="a", model="office:m")
TENANT: Any = {"X-Tenant": "acme"}


def calls(name: str, arguments: str) -> Answer:
    call = {"index": 0, "id": "c1", "function": {"name": name, "arguments": arguments}}
    return answer(chunk({"tool_calls": [call]}))


def office(url: str, **fields: Any) -> Provider:
    return Provider(type="openai-chat", base_url=f"{url}/v1", **fields)


def opened(url: str, **fields: Any) -> Runtime:
    return open_runtime(config=Config(providers={"office": office(url, **fields)}))


async def test_a_run_sends_its_headers_and_the_next_one_does_not() -> None:
    own = {"x-tenant": Secret("default"), "OpenAI-Beta": Secret("one")}
    async with serving(GOOD, GOOD) as server, opened(server.url, headers=own) as rt:
        await rt.run(AGENT, "Hello.", headers={"X-Tenant": "acme", "openai-beta": Secret("two")})
        await rt.run(AGENT, "Hello.")
    sent = [(seen.headers["x-tenant"], seen.headers["openai-beta"]) for seen in server.seen]
    assert sent == [("acme", "one,two"), ("default", "one")]
    assert len({seen.connection for seen in server.seen}) == 1


async def test_concurrent_runs_keep_their_headers_apart() -> None:
    async with serving(*[GOOD] * 6) as server, opened(server.url) as rt:

        async def ask(tenant: str) -> None:
            await rt.run(AGENT, f"I am {tenant}.", headers={"x-tenant": tenant})

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(ask, f"t{number}")
    for seen in server.seen:
        assert f"I am {seen.headers['x-tenant']}." in seen.body.decode()
    assert len({seen.headers["x-tenant"] for seen in server.seen}) == 6


async def test_the_same_provider_of_a_child_receives_the_headers_and_another_does_not() -> None:
    children = [Agent(name=name, model=f"{name}:m") for name in ("office", "other")]
    parent = Agent(name="parent", model="office:m", tools=children)
    async with serving(GOOD) as other:
        steps = [calls("office", '{"prompt": "Go."}'), GOOD, calls("other", '{"prompt": "Go."}')]
        async with serving(*steps, GOOD) as mine:
            providers = {"office": office(mine.url), "other": office(other.url)}
            async with Runtime.open(config=Config(providers=providers)) as rt:
                result = await rt.run(parent, "Hello.", headers=TENANT)
    assert result.outcome is Outcome.COMPLETED
    assert [seen.headers.get("x-tenant") for seen in mine.seen] == ["acme"] * 4
    assert [seen.headers.get("x-tenant") for seen in other.seen] == [None]


async def test_an_agent_that_takes_over_sends_the_headers() -> None:
    clerk = Agent(name="clerk", model="office:m")
    first = Agent(name="first", model="office:m", handoffs=[clerk])
    steps = [calls("transfer_to_clerk", '{"reason": "x"}'), GOOD]
    async with serving(*steps) as server, opened(server.url) as rt:
        result = await rt.run(first, "Hello.", headers=TENANT)
    assert (result.outcome, result.agent) == (Outcome.COMPLETED, "clerk")
    assert [seen.headers["x-tenant"] for seen in server.seen] == ["acme"] * 2


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("again", [TENANT, None])
async def test_a_resumed_run_sends_the_headers_that_the_resume_gives(again: Any) -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    payer = Agent(name="payer", model="office:m", tools=[pay])
    async with serving(calls("pay", "{}"), GOOD) as server, opened(server.url) as rt:
        waiting = await rt.run(payer, "Pay.", headers=TENANT, on_ask="wait")
        options: Any = {} if again is None else {"headers": again}
        result = await rt.resume(waiting.run_id, payer, approve=["c1"], **options)
    assert result.outcome is Outcome.COMPLETED
    sent = [seen.headers.get("x-tenant") for seen in server.seen]
    assert sent == ["acme", None if again is None else "acme"]


@pytest.mark.usefixtures("store")
async def test_no_value_of_a_header_is_stored_shown_or_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hidden, seen = "tenant-of-the-north", list[Event]()
    wrong = document({"error": {"message": f"no such tenant: {hidden}"}}, status=403)
    with caplog.at_level(logging.DEBUG):
        async with serving(wrong, GOOD) as server, opened(server.url) as rt:
            bad = await rt.run(AGENT, "Hi.", headers={"x-t": hidden}, on_event=seen.append)
            good = await rt.run(AGENT, "Hi.", headers={"x-t": Secret(hidden)}, on_event=seen.append)
            stored = [await rt.journal.read(result.run_id) for result in (bad, good)]
    assert bad.error is not None
    assert "no such tenant: [redacted]" in bad.error.message
    shown = repr((stored, seen, bad, good)) + "".join(event.to_json().decode() for event in seen)
    assert hidden not in shown + caplog.text


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        (["x-tenant"], "headers= is a list: pass texts by name"),
        ({"x tenant": "a"}, "not valid in HTTP: 'x tenant'"),
        ({"x-t": "hunter2\r\nx-evil: 1"}, "a line break"),
        ({"x-t": Secret("hunter2 ")}, "a space at its start or end"),
        ({"x-t": 7}, "is a int: pass a str"),
        ({"Authorization": "hunter2"}, "Provider(token=…)"),
        ({"x-api-key": "hunter2"}, "Provider(api_key=…)"),
        ({"Content-Length": "9"}, "which Treadle sets itself"),
    ],
)
async def test_headers_that_cannot_be_sent_are_refused_before_the_run(
    headers: Any, says: str
) -> None:
    async with serving() as server, opened(server.url) as rt:
        with pytest.raises(AgentError, match=r"^headers=") as refused:
            await rt.run(AGENT, "Hello.", headers=headers)
    assert says in refused.value.message
    assert "hunter2" not in refused.value.message
    assert server.seen == []


async def test_headers_that_no_provider_would_receive_are_refused() -> None:
    async with serving() as server, opened(server.url) as rt:
        with pytest.raises(AgentError, match="cannot be submitted"):
            await rt.submit(AGENT, "Hello.", headers=TENANT)
        with pytest.raises(AgentError, match="given by name"):
            await rt.run(Agent(name="b", model="record:x=office:m"), "Hi.", headers=TENANT)


async def test_a_scripted_model_ignores_headers() -> None:
    async with Runtime.open() as rt:
        result = await rt.run(
            Agent(name="s", model=ScriptedModel([{"text": "Hi."}])), "Hello.", headers=TENANT
        )
    assert result.text == "Hi."
