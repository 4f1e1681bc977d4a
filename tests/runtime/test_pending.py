"""Calls for which a run waits, on its result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import asks, call, open_runtime, says
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent, PendingCall, tool
from treadle.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("store")


@tool(needs_approval=True)
def drop(branch: str) -> str:
    """Delete a branch."""
    return f"{branch} is gone"


REASON = "drop asks for a person's approval in every mode"


def gardener(*script: dict[str, Any], name: str = "gardener", **fields: Any) -> Agent[Any, Any]:
    return Agent(name=name, model=ScriptedModel(list(script)), tools=[drop], **fields)


async def test_a_run_that_waits_has_its_pending_calls_and_an_ended_one_none() -> None:
    script = asks(call("drop", "a", branch="old"), call("drop", "b", branch="main"))
    one, runtime = gardener(script, says("Done.")), open_runtime()
    result = await runtime.run(one, "go", on_ask="wait")
    assert result.pending == (
        PendingCall(call_id="a", name="drop", arguments={"branch": "old"}, reason=REASON),
        PendingCall(call_id="b", name="drop", arguments={"branch": "main"}, reason=REASON),
    )
    partly = await runtime.resume(result.run_id, one, approve=["a"])
    assert [each.call_id for each in partly.pending] == ["b"]
    ended = await runtime.resume(result.run_id, one, deny={"b": "never"})
    assert (ended.text, ended.pending) == ("Done.", ())


async def test_a_call_whose_child_waits_is_pending_and_deferred() -> None:
    below = gardener(asks(call("drop", "a", branch="old")), says("Done."), name="below")
    boss = Agent[Any, Any](
        name="boss", model=ScriptedModel([asks(call("below", "c", prompt="go"))]), tools=[below]
    )
    result = await open_runtime().run(boss, "go", on_ask="wait")
    [waiting] = result.pending
    assert (waiting.call_id, waiting.name, waiting.deferred) == ("c", "below", True)
    assert "waits for a person" in waiting.reason
