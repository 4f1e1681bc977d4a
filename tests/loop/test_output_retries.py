"""Corrections of an invalid output: an agent sets how many, and a resumed run counts the earlier
ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import WatchedJournal, open_runtime, says
from tests.loop.test_recovery import resumed, vanished
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, AgentError
from treadle.journal.entries import InputAdded
from treadle.testing import ScriptedModel
from treadle.types import Outcome


def counter(*texts: str, retries: int) -> Agent[Any, Any]:
    model = ScriptedModel([says(text) for text in texts])
    return Agent(name="tester", model=model, output=int, retries=retries)


def requests(one: Agent[Any, Any]) -> int:
    assert isinstance(one.model, ScriptedModel)
    return len(one.model.requests)


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_the_model_may_correct_its_output_as_often_as_the_agent_says(retries: int) -> None:
    wrong = counter(*["many"] * 5, retries=retries)
    result = await open_runtime().run(wrong, "how many?")
    assert (result.outcome, requests(wrong)) == (Outcome.INVALID_OUTPUT, retries + 1)
    right = counter(*["many"] * retries, '{"result": 3}', retries=retries)
    assert (await open_runtime().run(right, "how many?")).unwrap() == 3


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2", None])
def test_a_number_of_corrections_is_a_whole_number(retries: Any) -> None:
    with pytest.raises(
        AgentError, match=r"retries=.* is not a whole number of at least 0"
    ) as caught:
        Agent(name="tester", output=int, retries=retries)
    assert caught.value.kind == "invalid"


@pytest.mark.usefixtures("store")
async def test_a_resumed_run_counts_the_corrections_before_it() -> None:
    """Cut right behind the request for the only correction."""
    journal, texts = WatchedJournal(), ("many", "more", "most")
    run = await open_runtime(journal=journal).run(counter(*texts, retries=1), "how many?")
    entries = [record.entry for record in await journal.read(run.run_id)]
    asked = [n for n, entry in enumerate(entries) if isinstance(entry, InputAdded) and entry.mends]
    assert len(asked) == 1
    again, runtime = counter(*texts, retries=1), await vanished(entries[: asked[0] + 1])
    result, _ = await resumed(runtime, run.run_id, again)
    assert (result.outcome, requests(again)) == (Outcome.INVALID_OUTPUT, 1)
