"""Implementation of the eight tools, which run with validated arguments in a transaction and ask
for confirmation first where needed. Entry points: `act`, `ActContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

import msgspec
from sqlmodel import Session

from treadle._internal.terminal_text import cut, one_line
from treadle.apps.assistant.caller import ToolError, ToolResponse, ToolUser
from treadle.apps.assistant.confirmation_records import HeldTaskCall, Verb
from treadle.apps.assistant.confirmations import asked, redeemed
from treadle.apps.assistant.fields import TaskFields, as_data, checked
from treadle.apps.assistant.reply_lists import quoted
from treadle.apps.assistant.store import TaskMatch, TaskStore
from treadle.apps.assistant.tables import Task
from treadle.apps.assistant.unsupported import unsupported_in

RUN_MOST: Final = 5
"""Number of distinct tasks that a run may complete or update without confirmation."""
WINDOW_MOST: Final = 10
"""Number of tasks that one user may complete or update in ten minutes without confirmation, over
all runs and clients.
"""
UNDO_MOST: Final = 5
"""Number of changes that a run may undo."""
LISTED_MOST: Final = 100
LISTED_CHARS: Final = 40_000
LISTED_DESCRIPTION: Final = 120
TITLES_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class ActContext:
    """Environment of a tool call: its session, store, caller and run."""

    session: Session
    store: TaskStore
    caller: ToolUser
    run_id: str | None
    code: str | None
    """Confirmation code from a plain MCP client."""
    clock: Callable[[], datetime]


def act(desk: ActContext, name: str, arguments: Mapping[str, Any]) -> ToolResponse:
    """Execute a tool. Raises AgentError(invalid) for invalid values."""
    return _ACTS[name](desk, arguments)


def succeeded(**data: Any) -> ToolResponse:
    return ToolResponse(success=True, data=data)


def refused(failure: ToolError) -> ToolResponse:
    return ToolResponse(success=False, error=failure)


# ---------------------------------------------------------------- the tools


def _add_task(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    task = desk.store.add(**arguments)
    return succeeded(task=as_data(task), **_unsupported(task.title))


def _unsupported(title: str | None) -> dict[str, list[str]]:
    unsupported = unsupported_in(title or "")
    return {"unsupported": unsupported} if unsupported else {}


def _list_tasks(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    tasks = desk.store.list(**arguments)
    return succeeded(
        tasks=_first(tasks),
        total=len(tasks),
        filters={k: v for k, v in arguments.items() if v not in ("", "all")},
    )


def _complete_task(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    found = desk.store.find(arguments["task"], prefer_open=True)
    if (task := found.task) is None:
        return _not_one(found, arguments["task"])
    if (
        not task.completed
        and (
            asks := _asks_if_many(
                desk, HeldTaskCall("complete_task", "complete", [task], {"task": task.id})
            )
        )
        is not None
    ):
        return asks
    desk.store.complete(task)
    return succeeded(task=as_data(task))


def _update_task(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    wanted = {name: value for name, value in arguments.items() if name != "task"}
    if not wanted:
        return refused(
            ToolError(
                code="invalid",
                message="update_task needs at least one of title, description, priority, due",
            )
        )
    checked(cast("TaskFields", wanted))
    found = desk.store.find(arguments["task"])
    if (task := found.task) is None:
        return _not_one(found, arguments["task"])
    if (
        asks := _asks_if_many(
            desk, HeldTaskCall("update_task", "update", [task], {"task": task.id, **wanted})
        )
    ) is not None:
        return asks
    changes = desk.store.update(task, **cast("Any", wanted))
    return succeeded(changes=changes, task=as_data(task), **_unsupported(wanted.get("title")))


def _delete_task(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    found = desk.store.find(arguments["task"], prefer_open=True)
    if (task := found.task) is None:
        return _not_one(found, arguments["task"])
    if (
        asks := _asks(desk, HeldTaskCall("delete_task", "delete", [task], {"task": task.id}))
    ) is not None:
        return asks
    desk.store.delete([task])
    return succeeded(task=as_data(task))


def _complete_all(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    return _in_bulk(desk, "complete_all", "complete", desk.store.list(status="open"))


def _delete_completed(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    return _in_bulk(desk, "delete_completed", "delete", desk.store.list(status="completed"))


def _in_bulk(desk: ActContext, tool: str, verb: Verb, tasks: Sequence[Task]) -> ToolResponse:
    if tasks and (asks := _asks(desk, HeldTaskCall(tool, verb, tasks, {}))) is not None:
        return asks
    if verb == "delete":
        desk.store.delete(tasks, tool=tool)
    else:
        desk.store.complete_all(tasks)
    return succeeded(count=len(tasks), tasks=[task.title for task in tasks[:TITLES_MOST]])


def _undo(desk: ActContext, arguments: Mapping[str, Any]) -> ToolResponse:
    if not desk.caller.by_person and desk.store.changes.undone_in(desk.run_id) >= UNDO_MOST:
        return refused(
            ToolError(
                code="invalid",
                message=(
                    f"{UNDO_MOST} changes are already undone: ask the person whether to undo more"
                ),
            )
        )
    undone = desk.store.undo()
    if undone is None:
        return refused(ToolError(code="not_found", message="There is nothing to undo."))
    return succeeded(undone={"tool": undone.tool, "tasks": list(undone.titles[:TITLES_MOST])})


_ACTS: Final[Mapping[str, Callable[[ActContext, Mapping[str, Any]], ToolResponse]]] = {
    "add_task": _add_task,
    "list_tasks": _list_tasks,
    "complete_task": _complete_task,
    "update_task": _update_task,
    "delete_task": _delete_task,
    "complete_all": _complete_all,
    "delete_completed": _delete_completed,
    "undo": _undo,
}


# ---------------------------------------------------------------- confirmation


def _asks(desk: ActContext, held: HeldTaskCall) -> ToolResponse | None:
    """Return the question to ask; None if the person has confirmed exactly this call, or acts
    directly.
    """
    caller, ids = desk.caller, {task.id for task in held.tasks}
    if caller.by_person or (
        caller.grant is not None and caller.grant.verb == held.verb and ids <= caller.grant.items
    ):
        return None
    scope = caller.scope
    if (
        caller.conversation_id is None
        and desk.code is not None
        and redeemed(desk.session, scope, desk.code, held, clock=desk.clock)
    ):
        return None
    question = asked(
        desk.session,
        scope,
        held,
        conversation_id=caller.conversation_id,
        run_id=desk.run_id,
        clock=desk.clock,
    )
    return refused(ToolError(code="confirm", message=question.text, confirm=question.code))


def _asks_if_many(desk: ActContext, held: HeldTaskCall) -> ToolResponse | None:
    """Return the question to ask if the run has changed many tasks, because changing them one by
    one is a bulk operation too.
    """
    of_run, lately = desk.store.changes.touched(desk.run_id)
    (task,) = held.tasks
    is_few = len(of_run | {task.id}) <= RUN_MOST and len(lately | {task.id}) <= WINDOW_MOST
    return None if is_few else _asks(desk, held)


# ---------------------------------------------------------------- results


def _not_one(found: TaskMatch, words: str) -> ToolResponse:
    if not found.several:
        return refused(
            ToolError(
                code="not_found",
                message=f"I couldn't find a task about {quoted(words)} in your list.",
            )
        )
    message = (
        f"I found multiple tasks about {quoted(words)}. Which one: "
        f"{', '.join(map(one_line, found.options))}?"
    )
    return refused(ToolError(code="ambiguous", message=message, options=found.options))


def _first(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Return the first tasks that fit into a response, with shortened descriptions if they are too
    long.
    """
    shown = [as_data(task) for task in tasks[:LISTED_MOST]]
    if _size(shown) > LISTED_CHARS:
        for task in shown:
            task["description"] = cut(task["description"] or "", LISTED_DESCRIPTION) or None
        while _size(shown) > LISTED_CHARS:
            del shown[-len(shown) // 8 :]
    return shown


def _size(shown: list[dict[str, Any]]) -> int:
    return len(msgspec.json.encode(shown))
