"""What the model of rules says where no tool can do at once what is wished."""

from __future__ import annotations

import pytest

from tests.tasks.people import People
from tests.tasks.talking import Talking
from treadle.tasks.embedded import EmbeddedModel


@pytest.mark.parametrize(("tasks", "told"), [(12, "12 tasks"), (100, "100 or more tasks")])
async def test_a_list_that_is_too_long_to_delete_at_once_is_emptied_another_way(people: People, tasks: int, told: str):
    ada = Talking(people)
    await people.person("ada").work(lambda store: [store.add(f"task {i}") for i in range(tasks)])
    reply = (await ada.say("delete everything", model=EmbeddedModel())).response
    assert reply.startswith(f"That would change {told} at once")
    assert 'say "complete all", and then "clear completed"' in reply
    asked = (await ada.say("complete all", model=EmbeddedModel())).response
    assert asked == f"That's a big action. Confirm with 'yes complete all {tasks}'."
