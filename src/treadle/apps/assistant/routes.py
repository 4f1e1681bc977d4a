"""`/tasks`: direct access to the user's tasks, for the page.

Uses the same store as the assistant's tools. Entry point: `router`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints
from starlette.responses import Response

from treadle.apps.assistant.fields import (
    DESCRIPTION_CHARS,
    TITLE_CHARS,
    Priority,
    TaskFields,
    as_data,
    due_of,
)
from treadle.apps.assistant.store import TaskStore
from treadle.apps.assistant.tables import Task
from treadle.errors import AgentError, ErrorKind
from treadle.service.bodies import RequestModel
from treadle.service.database.scope import Scope
from treadle.service.following import notices
from treadle.service.forms import INVISIBLE, NO_LINE, NO_TEXT, InPath, Line, problems
from treadle.service.problems import HttpProblem, not_found
from treadle.service.signed_in import SignedIn, TheService
from treadle.service.sse import MEDIA_TYPE
from treadle.service.state import Service

Title = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=TITLE_CHARS,
        pattern=rf"^[^{NO_LINE}]*[^{INVISIBLE}][^{NO_LINE}]*$",
    ),
]
Description = Annotated[
    str, StringConstraints(max_length=DESCRIPTION_CHARS, pattern=rf"^[^{NO_TEXT}]*$")
]


def _date(value: Any) -> Any:
    if value is not None and not isinstance(value, str):
        raise ValueError("give a date as YYYY-MM-DD, like 2026-12-01")
    try:
        due = due_of(value)
    except AgentError as e:
        raise ValueError(e.message) from e
    return None if due is None else due.isoformat()


Day = Annotated[str, BeforeValidator(_date), Field(json_schema_extra={"format": "date"})]


T = TypeVar("T")

NOTICE: Final = "tasks"
"""Name of the event that notifies a person's open pages that their tasks have changed."""

router = APIRouter(prefix="/tasks", tags=["tasks"])


class NewTask(RequestModel):
    title: Title
    description: Description | None = None
    priority: Priority = "Medium"
    due: Day | None = None
    completed: bool = False


class ChangedTask(RequestModel):
    """Partial update of a task. Omitted fields stay; null clears a description or a due date."""

    title: Title = Field(default="", validate_default=False)
    description: Description | None = None
    priority: Priority = "Medium"
    due: Day | None = None
    completed: bool = False


class TaskOut(BaseModel):
    id: str
    title: str
    description: str | None
    completed: bool
    priority: Priority
    due: str | None
    created_at: datetime
    updated_at: datetime


class UndoneOut(BaseModel):
    tool: str
    titles: list[str]


@router.get("")
async def tasks(
    scope: SignedIn,
    service: TheService,
    status: Literal["all", "open", "completed"] = "all",
    priority: Priority | None = None,
    search: Annotated[
        Line | None,
        Query(
            description=(
                "Words of title or description; or due:YYYY-MM-DD, due:FROM..TO, due:none, overdue."
            )
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> list[TaskOut]:
    """List the tasks, oldest first."""

    def work(store: TaskStore) -> list[TaskOut]:
        return [
            _out(task)
            for task in store.list(status=status, priority=priority, search=search)[
                offset : offset + limit
            ]
        ]

    return await _read(service, scope, work)


@router.post("", status_code=201)
async def add_task(body: NewTask, scope: SignedIn, service: TheService) -> TaskOut:
    def work(store: TaskStore) -> TaskOut:
        return _out(
            store.add(
                body.title,
                description=body.description,
                priority=body.priority,
                due=body.due,
                completed=body.completed,
            )
        )

    return await _changed(service, scope, work)


@router.get(
    "/events",
    responses={
        200: {
            "description": "`event: tasks` whenever the tasks have changed.",
            "content": {MEDIA_TYPE: {}},
        },
        **problems(),
    },
)
async def task_events(scope: SignedIn, service: TheService) -> Response:
    """Stream server-sent events, each of which asks the client to reload the tasks. The first is
    sent immediately.
    """
    return await notices(service, scope, NOTICE)


@router.post("/undo", responses=problems(404))
async def undo(scope: SignedIn, service: TheService) -> UndoneOut:
    """Undo the user's last change, made by any client. Responds with 404 if there is none in the
    last 30 days.
    """

    def work(store: TaskStore) -> UndoneOut:
        if (undone := store.undo()) is None:
            raise not_found()
        return UndoneOut(tool=undone.tool, titles=[*undone.titles])

    return await _changed(service, scope, work)


@router.get("/{task_id}", responses=problems(404))
async def task(task_id: InPath, scope: SignedIn, service: TheService) -> TaskOut:
    return await _read(service, scope, lambda store: _out(_there(store, task_id)))


@router.patch("/{task_id}", responses=problems(404))
async def change_task(
    task_id: InPath, body: ChangedTask, scope: SignedIn, service: TheService
) -> TaskOut:
    def work(store: TaskStore) -> TaskOut:
        found = _there(store, task_id)
        wanted: TaskFields = body.model_dump(exclude_unset=True)  # pyright: ignore[reportAssignmentType]  the fields are its own
        store.update(found, **wanted)
        return _out(found)

    return await _changed(service, scope, work)


@router.delete("/{task_id}", status_code=204, responses=problems(404))
async def delete_task(task_id: InPath, scope: SignedIn, service: TheService) -> Response:
    """Delete the task without confirmation. `POST /tasks/undo` restores it."""
    await _changed(service, scope, lambda store: store.delete([_there(store, task_id)]))
    return Response(status_code=204)


async def _read(service: Service, scope: Scope, work: Callable[[TaskStore], T]) -> T:
    return await _fitting(
        service.database.read(
            scope, lambda session: work(TaskStore(session, scope, by_person=True))
        )
    )


async def _changed(service: Service, scope: Scope, work: Callable[[TaskStore], T]) -> T:
    done = await _fitting(
        service.database.run(scope, lambda session: work(TaskStore(session, scope, by_person=True)))
    )
    service.live.notify(scope, NOTICE)
    return done


async def _fitting(transaction: Awaitable[T]) -> T:
    """Run a transaction and return its result. Raises Problem(422) for invalid values."""
    try:
        return await transaction
    except AgentError as e:
        if e.kind is not ErrorKind.INVALID:
            raise
        raise HttpProblem(422, f"{e.message[:1].upper()}{e.message[1:]}.") from e


def _there(store: TaskStore, task_id: str) -> Task:
    if (found := store.get(task_id)) is None:
        raise not_found()
    return found


def _out(found: Task) -> TaskOut:
    data: dict[str, Any] = as_data(found)
    return TaskOut.model_validate(data)
