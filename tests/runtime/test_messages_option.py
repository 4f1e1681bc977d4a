"""What a run is told beside its prompt: what was said before, where no session keeps it, and its
own id.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles import agent, says
from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.errors import AgentError
from treadle.messages.message import Message, ToolCall
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel


async def test_a_run_is_given_what_was_said_before_and_templates_in_it_mean_nothing(
    tmp_path: Path,
) -> None:
    said = [Message.user("I am ${who}"), Message.assistant("Hello $$")]
    async with Runtime.open(f"sqlite:///{tmp_path}/j.db", config=Config()) as rt:
        result = await rt.run(agent([says("hi")]), "go", messages=said)
        stored = (await rt.journal.load(result.run_id)).started
    assert [m.text for m in result.messages] == ["I am ${who}", "Hello $$", "go", "hi"]
    assert [m.text for m in result.new_messages][-1] == "hi"
    assert stored is not None
    assert [m.text for m in stored.messages] == ["I am ${who}", "Hello $$"]


async def test_a_run_that_goes_on_has_them_still(tmp_path: Path) -> None:
    model = ScriptedModel([{"error": {"kind": "auth"}}, says("again")])
    guide = Agent(name="guide", model=model)
    async with Runtime.open(f"sqlite:///{tmp_path}/j.db", config=Config()) as rt:
        first = await rt.run(
            guide, "go", messages=[Message.user("before"), Message.assistant("yes")]
        )
        result = await rt.fork(first.run_id, turn=0, text="again", agent=guide)
    assert [m.text for m in result.messages][:2] == ["before", "yes"]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (["hello"], "a str: make them with Message.user"),
        (
            [Message.assistant([ToolCall(id="c1", name="x", arguments_json="{}")])],
            "not a valid history",
        ),
    ],
)
async def test_what_is_no_history_is_refused_before_the_run(
    messages: list[Message], words: str
) -> None:
    async with Runtime.open(config=Config()) as rt:
        with pytest.raises(AgentError, match=words):
            await rt.run(agent([says("hi")]), "go", messages=messages)


async def test_a_session_keeps_what_was_said_itself() -> None:
    async with Runtime.open(config=Config()) as rt:
        with pytest.raises(AgentError, match="without a session"):
            await rt.run(agent([says("hi")]), "go", session="s", messages=[Message.user("before")])


async def test_a_run_may_be_given_its_id_and_no_two_have_the_same() -> None:
    guide = agent([says("hi"), says("hi")])
    async with Runtime.open(config=Config()) as rt:
        assert (await rt.run(guide, "go", run_id="mine")).run_id == "mine"
        with pytest.raises(AgentError, match="run mine already exists"):
            await rt.run(guide, "go", run_id="mine")
        for strange in ("", "a/b", "\x1b[2J"):
            with pytest.raises(AgentError, match="not a valid run id"):
                await rt.run(guide, "go", run_id=strange)
