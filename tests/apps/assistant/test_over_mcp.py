"""The task tools at the SDK's own client, in both eras of the protocol, in this process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)

from tests.apps.assistant.people import People, Person
from treadle.apps.assistant.caller import ToolResponse
from treadle.apps.assistant.over_mcp import SAID_NO, tasks_over_mcp
from treadle.apps.assistant.schemas import TOOLS
from treadle.apps.mcp_server.server import Context
from treadle.errors import AgentError
from treadle.service.database.scope import Identity

ERAS = ["legacy", "2026-07-28"]
Asked = Callable[[ClientRequestContext, ElicitRequestParams], Awaitable[ElicitResult]]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


def connected(
    people: People, era: str, asked: Asked | None = None, user_id: str = "ada"
) -> AbstractAsyncContextManager[Client]:
    server = tasks_over_mcp(people.server, lambda _: Identity(user_id, "token"))
    return Client(server.sdk, mode=era, elicitation_callback=asked)  # pyright: ignore[reportArgumentType]  a narrower answer


def person_who_says(*answers: ElicitResult) -> tuple[Asked, list[str]]:
    questions: list[str] = []
    left = list(answers)

    async def asked(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        questions.append(params.message)
        return left.pop(0)

    return asked, questions


YES = ElicitResult(action="accept", content={"answer": "yes"})
NOES = [
    ElicitResult(action="decline"),
    ElicitResult(action="cancel"),
    ElicitResult(action="accept", content={"answer": "no"}),
    ElicitResult(action="accept", content={}),
    ElicitResult(action="accept", content={"answer": "yes delete"}),
]


def response_of(result: CallToolResult) -> ToolResponse:
    """The same in both places."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result.structured_content
    response = msgspec.json.decode(content.text, type=ToolResponse)
    assert result.is_error == (
        response.error is not None and response.error.code in ("invalid", "failed")
    )
    return response


async def called(client: Client, tool: str, **arguments: Any) -> ToolResponse:
    return response_of(await client.call_tool(tool, arguments))


async def test_the_tools_say_what_they_do_and_take_no_user(people: People, era: str):
    async with connected(people, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == list(TOOLS)
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools.values())
    assert "user" not in "".join(json.dumps(tool.input_schema) for tool in tools.values())
    hints = {name: tool.annotations for name, tool in tools.items()}
    assert all(hint is not None and hint.open_world_hint is False for hint in hints.values())
    assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == {"list_tasks"}
    assert {name for name, hint in hints.items() if hint and not hint.destructive_hint} == {
        "add_task",
        "list_tasks",
        "complete_task",
    }
    assert {name for name, hint in hints.items() if hint and not hint.idempotent_hint} == {
        "add_task",
        "delete_task",
        "undo",
    }


async def test_calls_are_answered_as_text_and_as_data(people: People, era: str):
    async with connected(people, era) as client:
        added = await called(
            client, "add_task", title="Buy milk", priority="High", due="2027-01-05"
        )
        assert added.data is not None
        listed = await called(client, "list_tasks", search="milk")
        assert listed.data is not None
        assert listed.data["tasks"] == [added.data["task"]]
        for tool, arguments, code in (
            ("add_task", {"title": ""}, "invalid"),
            ("add_task", {"title": "x", "user_id": 1}, "invalid"),
            ("complete_task", {"task": "zebra"}, "not_found"),
        ):
            response = await called(client, tool, **arguments)
            assert response.error is not None
            assert response.error.code == code
        with pytest.raises(MCPError, match="no tool named 'nope'"):
            await client.call_tool("nope", {})


async def test_who_it_is_comes_with_the_transport(people: People, era: str):
    async with connected(people, era) as client:
        await called(client, "add_task", title="Ada's")
    async with connected(people, era, user_id="bob") as client:
        listed = await called(client, "list_tasks")
    assert listed.data is not None
    assert listed.data["total"] == 0


async def test_without_somebody_nothing_is_done(people: People, era: str):
    def nobody(context: Context) -> Identity:
        raise AgentError("auth", "sign in first")

    async with Client(tasks_over_mcp(people.server, nobody).sdk, mode=era) as client:
        result = await client.call_tool("list_tasks", {})
    assert result.is_error


async def test_a_client_that_can_ask_asks_and_a_yes_does_it(
    people: People, client: Person, era: str
):
    await client.add("Buy milk", "Call mum")
    asked, questions = person_who_says(YES, YES)
    async with connected(people, era, asked) as connection:
        assert (await called(connection, "delete_task", task="milk", confirm="made up")).success
        assert (await called(connection, "complete_all")).success
    assert questions == [
        "Do you really want to delete 'Buy milk'?",
        "Do you really want to complete 'Call mum'?",
    ]
    assert [task["completed"] for task in (await client.tasks()).values()] == [True]


@pytest.mark.parametrize("answer", NOES, ids=range(len(NOES)))
async def test_anything_but_a_clear_yes_is_a_no(
    people: People, client: Person, era: str, answer: ElicitResult
):
    await client.add("Buy milk")
    asked, _ = person_who_says(answer)
    async with connected(people, era, asked) as connection:
        response = await called(connection, "delete_task", task="milk")
    assert response.error is not None
    assert (response.error.code, response.error.message, response.error.confirm) == (
        "confirm",
        SAID_NO,
        None,
    )
    assert await client.titles() == ["Buy milk"]


async def test_a_task_that_was_changed_while_the_person_thought_is_asked_about_anew(
    people: People, client: Person, era: str
):
    await client.add("Buy milk")
    questions: list[str] = []

    async def asked(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        questions.append(params.message)
        if len(questions) == 1:
            people.clock.pass_(seconds=1)
            await client.work(
                lambda store: store.update(store.find("milk").task, title="Buy oat milk")
            )
            return YES
        return ElicitResult(action="decline")

    async with connected(people, era, asked) as connection:
        await called(connection, "delete_task", task="milk")
    assert questions == [
        "Do you really want to delete 'Buy milk'?",
        "Do you really want to delete 'Buy oat milk'?",
    ]
    assert await client.titles() == ["Buy oat milk"]


async def test_a_client_that_cannot_ask_is_given_a_code_for_a_second_call(
    people: People, client: Person, era: str
):
    await client.add("Buy milk")
    async with connected(people, era) as connection:
        asked = await called(connection, "delete_task", task="milk")
        assert asked.error is not None
        assert asked.error.confirm is not None
        assert asked.error.message.startswith(
            "Do you really want to delete 'Buy milk'? Ask the person."
        )
        assert asked.error.confirm in asked.error.message
        assert await client.titles() == ["Buy milk"]
        assert (
            await called(connection, "delete_task", task="milk", confirm=asked.error.confirm)
        ).success
    assert await client.titles() == []


async def test_the_eleventh_change_needs_a_person_there(people: People, client: Person, era: str):
    ids = await client.add(*"abcdefghijkl")
    async with connected(people, era) as connection:
        responses = [
            await called(connection, "complete_task", task=task_id) for task_id in ids[:11]
        ]
        assert [response.success for response in responses] == [True] * 10 + [False]
        error = responses[-1].error
        assert error is not None
        assert (error.code, error.confirm) == ("confirm", None)
        assert "in ten minutes" in error.message
    asked, questions = person_who_says(YES)
    async with connected(people, era, asked) as connection:
        assert (await called(connection, "complete_task", task=ids[10])).success
    assert questions == ["Do you really want to complete 'k'?"]
