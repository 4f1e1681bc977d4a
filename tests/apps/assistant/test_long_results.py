"""What a tool gives stays JSON for the loop, which cuts long lines: nothing that was done is told
as a failure.
"""

from __future__ import annotations

import pytest

from tests.apps.assistant.people import People
from tests.apps.assistant.talking import Talking
from treadle.apps.assistant.embedded import EmbeddedModel

LONGEST = '\\"é漢' * 500


@pytest.mark.parametrize("tasks", [1, 150])
async def test_tasks_with_long_descriptions_are_listed_and_changed(
    people: People, tasks: int
) -> None:
    ada = people.person("ada")
    for number in range(tasks):
        people.clock.pass_(seconds=1)
        await ada.work(
            lambda store, number=number: store.add(f"task number {number}", description=LONGEST).id
        )
    talking, model = Talking(people), EmbeddedModel()
    listed = await talking.say("list my tasks", model=model)
    assert listed.response.startswith("1. ☐ task number 0")
    assert listed.response.endswith("…and 126 more." if tasks > 1 else "task number 0")
    assert listed.tool_calls[0].result["success"] is True
    done = await talking.say("complete 'task number 0'", model=model)
    assert done.response == "Great! I've marked 'task number 0' as complete."
    renamed = await talking.say("rename 'task number 0' to first", model=model)
    assert renamed.response == "Updated! 'task number 0' now has the title 'first'."
