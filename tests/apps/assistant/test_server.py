"""The eight tools as one handler, in the loop and beside it: what every call gives, whatever it is
given.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.pool import StaticPool
from sqlmodel import Session, create_engine

from tests.apps.assistant.people import People, Person, code, message
from tests.doubles import asks, says
from tests.doubles import call as wish
from treadle import Agent, Runtime
from treadle.apps.assistant.caller import ToolResponse, ToolUser
from treadle.apps.assistant.schemas import TOOLS
from treadle.apps.assistant.server import TROUBLE, MCPToolServer, as_text
from treadle.messages.message import ToolResult
from treadle.service.database.scope import Scope
from treadle.service.database.tables import METADATA
from treadle.testing import ScriptedModel

CONTRACT = {
    "add_task": ({"title", "description", "priority", "due"}, {"title"}),
    "list_tasks": ({"status", "priority", "search"}, set[str]()),
    "complete_task": ({"task"}, {"task"}),
    "update_task": ({"task", "title", "description", "priority", "due"}, {"task"}),
    "delete_task": ({"task", "confirm"}, {"task"}),
    "complete_all": ({"confirm"}, set[str]()),
    "delete_completed": ({"confirm"}, set[str]()),
    "undo": (set[str](), set[str]()),
}
USERS = [
    "user_id",
    "userId",
    "USER_ID",
    "UserID",
    "user-id",
    "current_user",
    "owner",
    "owner_id",
    "account",
    "uid",
    "as_user",
    "on_behalf_of",
    "tenant_id",
]


async def test_the_tools_are_those_of_the_contract_and_closed(people: People):
    schemas: dict[str, Any] = {
        tool.name: tool.definition.parameters for tool in people.server.tools
    }
    assert {
        name: (set(s["properties"]), set(s["required"])) for name, s in schemas.items()
    } == CONTRACT
    assert all(schema["additionalProperties"] is False for schema in schemas.values())
    assert "user" not in json.dumps(schemas).casefold()
    assert {tool.name for tool in people.server.tools if tool.effect == "pure"} == {"list_tasks"}
    assert not any(tool.parallel or tool.effect == "once" for tool in people.server.tools)


@pytest.mark.parametrize("name", USERS)
async def test_a_call_that_names_a_user_is_refused_and_logged_without_its_value(
    ada: Person, caplog: pytest.LogCaptureFixture, name: str
):
    given: list[dict[str, Any]] = [
        {name: "bob-the-second"},
        {"search": {"where": [{name: "bob-the-second"}]}},
    ]
    for arguments in given:
        response = await ada.call("list_tasks", **arguments)
        assert (code(response), response.data) == ("invalid", None)
        assert "takes no user" in message(response)
    assert [(record.levelno, getattr(record, "security", "")) for record in caplog.records] == [
        (logging.WARNING, "user_named")
    ] * 2
    assert "bob-the-second" not in caplog.text
    assert "ada" not in caplog.text


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("add_task", {}, "title: missing"),
        ("add_task", {"title": 3}, "title: expected string"),
        ("add_task", {"title": ""}, "title"),
        ("add_task", {"title": "x", "prio": "High"}, "no argument of this name"),
        ("add_task", {"title": "x", "priority": "hihg"}, 'did you mean "High"?'),
        ("add_task", {"title": "x", "due": 5}, "due: expected string"),
        ("add_task", {"title": "\ud83d"}, "lone surrogate"),
        ("complete_task", {"task": ["a"]}, "task: expected string"),
        ("undo", {"steps": 3}, "takes no arguments"),
        ("list_tasks", {"status": "done"}, "status"),
        ("list_tasks", {"search": "a\udfff"}, "lone surrogate"),
        ("nope", {}, "no tool named 'nope'"),
        ("delete_all_tasks", {"confirmed": True}, "no tool named"),
    ],
)
async def test_wrong_calls_are_told_what_would_be_right(
    ada: Person, tool: str, arguments: dict[str, Any], words: str
):
    response = await ada.call(tool, **arguments)
    assert (response.success, response.data, code(response)) == (False, None, "invalid")
    assert words in message(response)


async def test_harmless_slips_are_forgiven(ada: Person):
    assert (
        await ada.call("add_task", title="x", priority=" HIGH ", due=None, description=None)
    ).success
    assert (await ada.call("list_tasks", status="Open", priority=None, search=None)).success


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(TOOLS)),
    st.dictionaries(
        st.sampled_from(["task", "title", "due", "search", "confirm", "x"]),
        st.none() | st.integers() | st.text() | st.lists(st.text()),
        max_size=3,
    ),
)
def test_no_arguments_make_a_call_fail_in_any_other_way(tool: str, arguments: dict[str, Any]):
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    METADATA.create_all(engine)
    eve = People(partial(Session, engine)).person("eve")
    response = anyio.run(partial(eve.call, tool, **arguments))
    assert response.success == (response.error is None)
    assert code(response) in ("", "invalid", "not_found", "ambiguous", "confirm")
    assert set(json.loads(as_text(response))) == {"success", "data", "error"}
    engine.dispose()


# ---------------------------------------------------------------- repeated, side by side, broken


async def test_a_call_that_is_repeated_gives_what_it_gave_and_changes_nothing(ada: Person):
    first = await ada.call("add_task", key="run_1:call_1", title="Buy milk")
    assert await ada.call("add_task", key="run_1:call_1", title="Buy milk") == first
    done = await ada.call("complete_task", key="run_1:call_2", task="milk")
    await ada.work(
        lambda store: store.update(store.find("milk").task, completed=False, title="Pay rent")
    )
    assert await ada.call("complete_task", key="run_1:call_2", task="milk") == done
    assert (await ada.tasks())["Pay rent"]["completed"] is False
    undone = await ada.call("undo", key="run_1:call_3")
    assert await ada.call("undo", key="run_1:call_3") == undone
    assert await ada.titles() == ["Buy milk"]


async def test_a_key_of_one_person_is_not_anothers(people: People, ada: Person):
    await ada.call("add_task", key="k" * 300, title="Ada's")
    await people.person("bob").call("add_task", key="k" * 300, title="Bob's")
    assert await people.person("bob").titles() == ["Bob's"]


async def test_the_same_call_at_the_same_time_is_made_once(ada: Person):
    async def add() -> None:
        responses.append(as_text(await ada.call("add_task", key="run_1:call_1", title="Buy milk")))

    responses: list[str] = []
    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(add)
    assert len(await ada.titles()) == 1
    assert len(set(responses)) == 1


async def test_a_database_that_fails_is_told_in_one_sentence_and_nothing_of_it(
    caplog: pytest.LogCaptureFixture, ada: Person, without_tables: Engine
):
    broken = MCPToolServer(partial(Session, without_tables))
    response = await broken.call(ada.caller, "add_task", {"title": "my secret title"})
    assert (code(response), message(response)) == ("failed", TROUBLE)
    assert "failed with" in caplog.text
    for word in ("my secret title", "ada", "no such table"):
        assert word not in caplog.text


async def test_whose_tasks_were_changed_is_told_once_it_is_so(people: People, ada: Person):
    told: list[str] = []

    def changed(scope: Scope) -> None:
        told.append(scope.user_id)

    people.server.changed = changed
    await ada.call("add_task", title="x")
    await ada.call("list_tasks")
    await ada.call("complete_task", task="nope")
    await ada.call("delete_task", task="x")
    assert told == ["ada"]


# ---------------------------------------------------------------- in the loop


async def run(people: People, ada: Person, *script: dict[str, Any]) -> list[ToolResult]:
    """What the model read."""
    agent = Agent[ToolUser, str](
        name="tasks", model=ScriptedModel([*script, says("Done.")]), tools=people.server.tools
    )
    async with Runtime.open() as runtime:
        result = await runtime.run(agent, "go", deps=ada.caller)
    return [
        part
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


async def test_the_loop_reads_the_same_responses_and_only_invalid_and_failed_are_errors(
    people: People, ada: Person
):
    await ada.add("Call Ann", "Call Bob")
    results = await run(
        people,
        ada,
        asks(
            wish("add_task", title="Buy milk"),
            wish("add_task"),
            wish("complete_task", task="call"),
            wish("complete_task", task="zebra"),
        ),
        asks(
            wish("delete_task", task="milk", confirm="yes delete"),
            wish("list_tasks", user_id="bob"),
            wish("list_tasks"),
        ),
    )
    texts = [str(result.content) for result in results]
    assert [result.is_error for result in results] == [
        False,
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    codes: list[str] = [code(msgspec.json.decode(text, type=ToolResponse)) for text in texts]
    assert codes == ["", "invalid", "ambiguous", "not_found", "confirm", "invalid", ""]
    assert "Buy milk" in texts[-1]
    assert "ada" not in "".join(texts)
