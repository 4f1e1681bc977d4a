"""People who have tasks, over a database of their own: what the tests of tasks share. Entry:

`People`, `Person`, `Noon`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlmodel import Session

from treadle.apps.assistant import confirmations
from treadle.apps.assistant.caller import Grant, ToolResponse, ToolUser
from treadle.apps.assistant.confirmation_records import AnsweredConfirmations
from treadle.apps.assistant.server import MCPToolServer
from treadle.apps.assistant.store import TaskStore
from treadle.service.database.database import Database
from treadle.service.database.scope import Identity, Scope


@dataclass
class Noon:
    """A clock that stands until it is moved."""

    at: datetime = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def pass_(self, **span: float) -> None:
        self.at += timedelta(**span)


@dataclass
class People:
    """All over one server."""

    database: Callable[[], Session] | Database
    clock: Noon = field(default_factory=Noon)

    def __post_init__(self) -> None:
        self.server = MCPToolServer(self.database, clock=self.clock)

    def person(self, user_id: str, conversation_id: str | None = "chat") -> Person:
        return Person(self, ToolUser(Scope(Identity(user_id, "caller")), conversation_id))


@dataclass
class Person:
    people: People
    caller: ToolUser
    run_id: str | None = "run_1"

    def granted(self, grant: Grant | None, run_id: str | None = None) -> Person:
        return replace(self, caller=replace(self.caller, grant=grant), run_id=run_id or self.run_id)

    def in_run(self, run_id: str | None) -> Person:
        return replace(self, run_id=run_id)

    async def call(self, tool: str, /, *, key: str | None = None, **arguments: Any) -> ToolResponse:
        return await self.people.server.call(
            self.caller, tool, arguments, key=key, run_id=self.run_id
        )

    async def add(self, *titles: str) -> list[str]:
        """Their ids. As the person's own act, which counts towards nothing."""
        return [await self.work(lambda store, title=title: store.add(title).id) for title in titles]

    async def work(self, act: Callable[[Any], Any]) -> Any:
        """With a `TaskStore`, as the person's own act."""

        def with_store(session: Session) -> Any:
            return act(
                TaskStore(session, self.caller.scope, by_person=True, clock=self.people.clock)
            )

        return await self.people.server.database.run(self.caller.scope, with_store)

    async def tasks(self, **wanted: Any) -> dict[str, dict[str, Any]]:
        """By title."""
        response = await self.call("list_tasks", **wanted)
        assert response.data is not None
        return {task["title"]: task for task in response.data["tasks"]}

    async def titles(self, **wanted: Any) -> list[str]:
        return list(await self.tasks(**wanted))

    async def says(self, message: str, *, run_id: str = "run_2") -> AnsweredConfirmations | None:
        conversation_id = self.caller.conversation_id
        assert conversation_id is not None
        clock, scope = self.people.clock, self.caller.scope
        return await self.people.server.database.run(
            scope,
            lambda session: confirmations.answered(
                session, scope, conversation_id, message, run_id, clock=clock
            ),
        )

    async def does(
        self, answered: AnsweredConfirmations | None, *, run_id: str = "run_2"
    ) -> list[ToolResponse]:
        """The calls that had been held back, under what was granted."""
        assert answered is not None
        granted = self.granted(answered.grant, run_id)
        return [await granted.call(call.tool, **call.arguments) for call in answered.calls]


def code(response: ToolResponse) -> str:
    """Of what went wrong; empty where nothing did."""
    return "" if response.error is None else response.error.code


def message(response: ToolResponse) -> str:
    assert response.error is not None
    return response.error.message


def phrase(response: ToolResponse) -> str:
    """What the person has to say."""
    found = re.search(r"'(yes [^']*)'", message(response))
    assert found is not None
    return found[1]
