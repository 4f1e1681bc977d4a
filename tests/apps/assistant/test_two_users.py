"""Berta against every tool with all that is Anna's: she reaches nothing, and cannot tell what is
there from what is not.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.apps.assistant.people import People, Person, code
from treadle.apps.assistant.caller import ToolResponse
from treadle.apps.assistant.schemas import TOOLS
from treadle.apps.assistant.server import as_text

SECRET = "Canary of Anna"

TRIES: dict[str, list[dict[str, Any]]] = {
    "add_task": [{"title": "ID"}, {"title": "TITLE", "description": "ID"}],
    "list_tasks": [
        {},
        {"search": "TITLE"},
        {"search": "ID"},
        {"search": "due:2026-12-01"},
        {"search": "overdue"},
        {"priority": "High"},
        {"status": "open"},
    ],
    "complete_task": [{"task": "ID"}, {"task": "TITLE"}],
    "update_task": [{"task": "ID", "title": "Mine now"}, {"task": "TITLE", "due": None}],
    "delete_task": [
        {"task": "ID"},
        {"task": "TITLE", "confirm": "CODE"},
        {"task": "ID", "confirm": "CODE"},
    ],
    "complete_all": [{}, {"confirm": "CODE"}],
    "delete_completed": [{}, {"confirm": "CODE"}],
    "undo": [{}],
}
"""By tool: what she tries, with Anna's id, title and code put in."""


def test_every_tool_has_its_row():
    assert set(TRIES) == set(TOOLS)


def filled(arguments: dict[str, Any], words: dict[str, str]) -> dict[str, Any]:
    return {name: words.get(value, value) for name, value in arguments.items()}


@pytest.mark.parametrize("conversation_id", ["chat", None])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [(tool, arguments) for tool, tries in TRIES.items() for arguments in tries],
)
async def test_what_is_anothers_is_as_if_it_were_not_there(
    people: People, tool: str, arguments: dict[str, Any], conversation_id: str | None
):
    anna, berta = people.person("anna", conversation_id), people.person("berta", conversation_id)
    added = await anna.call(
        "add_task", title=SECRET, priority="High", due="2026-12-01", description=SECRET
    )
    await anna.call("add_task", title="Old canary")
    await anna.call("complete_task", task="Old")
    asked = await anna.call("delete_task", task=SECRET)
    assert added.data is not None
    assert asked.error is not None
    words = {
        "ID": added.data["task"]["id"],
        "TITLE": SECRET,
        "CODE": asked.error.confirm or "yes delete",
    }
    before = await anna.tasks()
    response = await berta.call(tool, **filled(arguments, words))
    nobodys = await people.person("carla", conversation_id).call(
        tool, **filled(arguments, {**words, "ID": "00000000-0000-4000-8000-000000000000"})
    )
    assert await anna.tasks() == before
    assert code(response) == code(nobodys)
    own_words = SECRET if "TITLE" in arguments.values() else "-"
    assert "anary" not in as_text(response).replace(own_words, "")
    assert len(await berta.tasks()) == (1 if tool == "add_task" else 0)
    assert (await anna.in_run("run_5").call("undo")).success, "her changes are hers to take back"


async def test_twenty_people_side_by_side_meet_only_their_own_words(people: People):
    seen: dict[str, list[ToolResponse]] = {}

    async def live(person: Person, word: str) -> None:
        for number in range(3):
            seen[word].append(await person.call("add_task", title=f"{word} {number}"))
        seen[word] += [
            await person.call("list_tasks"),
            await person.call("complete_task", task=word),
            await person.call("undo"),
            await person.call("complete_all"),
        ]

    async with anyio.create_task_group() as group:
        for number in range(20):
            word = f"canary{number:02}x"
            seen[word] = []
            group.start_soon(live, people.person(f"user-{number}", f"chat-{number}"), word)
    for word, responses in seen.items():
        text = "".join(map(as_text, responses))
        assert word in text
        assert not any(other in text for other in seen if other != word)
        assert not any(code(response) == "failed" for response in responses)
