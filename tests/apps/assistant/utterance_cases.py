"""Utterances with what is to come of them, and the conversation that shows it: one line of a .jsonl
file each. Entry: `cases`, `shortcomings`.
"""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

from tests.apps.assistant.people import People
from tests.apps.assistant.talking import Talking
from treadle.apps.assistant.context import AgentResult
from treadle.apps.assistant.embedded import EmbeddedModel
from treadle.apps.assistant.store import TaskStore
from treadle.runtime.runtime import Runtime

TODAY = date(2026, 11, 20)
_SOUND = {
    "created": r"^Got it! Added '",
    "listed": r"^1\. [☐✓] ",
    "completed": r"^Great! I've marked '",
    "deleted": r"^I've removed '",
    "updated": r"^Updated! '",
    "not_found": r"^I couldn't find a task about '",
    "ambiguous": r"^I found multiple tasks about '",
    "unclear": r"^Could you provide more details about ",
    "confirm_delete": r"Do you really want to delete '",
    "confirm_bulk": r"That's a big action\. Confirm with '",
    "bulk_done": r"^Great! I've marked \d+ tasks|^I've removed \d+ ",
    "undone": r"^I've undone that",
    "help": r"add .*\bundo\b",
    "talk": r"^(?!Could you provide|I'm having|I couldn't)",
    "any": r"",
}


def cases(path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


async def shortcomings(people: People, case: dict[str, Any], runtime: Runtime) -> list[str]:
    """What of a case does not hold; nothing where all of it does."""
    person = f"person-{case['id']}"
    talk = Talking(people, person, case["id"], runtime)

    def give(store: TaskStore) -> None:
        for task in case["tasks"]:
            _give(store, task)
            people.clock.pass_(seconds=1)

    await people.person(person).work(give)
    reply = ""
    for message in case["says"]:
        result: AgentResult = await talk.say(message, model=EmbeddedModel(today=lambda: TODAY))
        reply = result.response
    rows = await people.person(person).work(lambda store: list(store.list()))
    return [*_unlike(case["after"], rows), *_unsaid(case, reply)]


def _give(store: TaskStore, task: dict[str, Any]) -> None:
    told = {name: task.get(name) for name in ("description", "priority", "due")}
    store.add(task["title"], **told, completed=task.get("completed", False))


def _unlike(wanted: list[dict[str, Any]], rows: Any) -> list[str]:
    described = any("description" in task for task in wanted)
    should = sorted(
        _key(
            t["title"],
            t.get("priority", "Medium"),
            t.get("due"),
            t.get("completed", False),
            t.get("description", "") if described else "",
        )
        for t in wanted
    )
    found = sorted(
        _key(r.title, r.priority, r.due, r.completed, (r.description or "") if described else "")
        for r in rows
    )
    return [] if should == found else [f"tasks are {found}, not {should}"]


def _key(title: str, priority: Any, due: Any, completed: bool, description: str) -> tuple[str, ...]:
    return (
        title.strip().rstrip(".!?").casefold(),
        str(priority),
        str(due or ""),
        str(completed),
        description,
    )


def _unsaid(case: dict[str, Any], reply: str) -> list[str]:
    heard = reply.casefold()
    problems = (
        []
        if re.search(_SOUND[case["reply"]], reply, re.DOTALL)
        else [f"no {case['reply']}: {reply!r}"]
    )
    problems += [
        f"not said: {text!r} in {reply!r}"
        for text in case.get("mentions", ())
        if text.casefold() not in heard
    ]
    return problems + [
        f"said: {text!r} in {reply!r}" for text in case.get("omits", ()) if text.casefold() in heard
    ]
