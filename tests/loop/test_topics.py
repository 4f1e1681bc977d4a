"""A hook that asks a model whether a message concerns an allowed topic."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.doubles import PlayedModel, asks, call, open_runtime, says, text
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, AgentError
from treadle.hooks import Topics
from treadle.loop.guarding import BLOCKED
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel
from treadle.types import Limits, Outcome

pytestmark = pytest.mark.usefixtures("store")

YES = '{"reason": "It is about an order.", "is_allowed": true}'
NO = '{"reason": "It is about the weather.", "is_allowed": false}'


def desk(*script: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(name="desk", model=ScriptedModel(list(script)), **more)


async def test_a_message_about_no_allowed_topic_ends_the_run_and_is_paid_for() -> None:
    judge = ScriptedModel([says(NO)])
    one = desk(says("Sunny."), hooks=[Topics("orders", "opening hours", model=judge)])
    rt = open_runtime()
    result = await rt.run(one, "Will it rain?")
    assert result.outcome is Outcome.REFUSED
    assert str(result.error) == (
        "the hook Topics stopped the run: the message concerns none of the topics: orders, "
        "opening hours"
    )
    assert [message.text for message in result.messages] == [BLOCKED]
    (child,) = await rt.journal.children(result.run_id)
    assert (child.agent, child.status) == ("topics", "finished")
    assert result.metrics.total.runs == 2
    assert result.metrics.total.usage == result.metrics.usage + child.usage
    assert judge.requests[0].messages[0].text == (
        '{"topics": ["orders", "opening hours"], "message": "Will it rain?"}'
    )


async def test_only_messages_of_users_are_checked_also_by_a_hook_of_the_runtime() -> None:
    judge = ScriptedModel([says(YES), says(NO)])
    clerk = Agent(name="clerk", model=ScriptedModel([says("Shipped.")]))
    one = desk(asks(call("clerk", "a", prompt="Where is it?")), says("Shipped."), tools=[clerk])
    result = await open_runtime(hooks=[Topics("orders", model=judge)]).run(one, "Where is it?")
    assert (result.unwrap(), len(judge.requests)) == ("Shipped.", 1)


async def test_two_checks_of_one_message_are_two_questions() -> None:
    allows, forbids = ScriptedModel([says(YES)]), ScriptedModel([says(NO)])
    one = desk(says("Sunny."), hooks=[Topics("orders", model=forbids)])
    result = await open_runtime(hooks=[Topics("weather", model=allows)]).run(one, "Will it rain?")
    assert (result.outcome, len(allows.requests), len(forbids.requests)) == (Outcome.REFUSED, 1, 1)


@pytest.mark.parametrize("answers", [[says("maybe")] * 3, [{"error": {"kind": "invalid"}}]])
async def test_a_check_whose_model_fails_blocks_the_run(answers: list[dict[str, Any]]) -> None:
    topics = Topics("orders", model=ScriptedModel(answers))
    result = await open_runtime().run(desk(says("Sunny."), hooks=[topics]), "Will it rain?")
    assert (result.outcome, result.text) == (Outcome.ERROR, "")
    assert "the hook Topics.check_input failed" in str(result.error)


async def test_a_check_counts_against_the_limits_of_its_run() -> None:
    used = {"input_tokens": 9_000, "output_tokens": 1_000}
    judge = ScriptedModel([says(YES, usage=used)])
    one = desk(asks(call("x")), says("Sunny."), hooks=[Topics("orders", model=judge)])
    result = await open_runtime().run(one, "Where is it?", limits=Limits(tokens=10_000))
    assert result.outcome is Outcome.TOKEN_LIMIT
    assert result.metrics.total.usage.input_tokens >= 9_000


async def test_a_resume_does_not_ask_again_what_the_journal_knows() -> None:
    judged = ScriptedModel([says(YES)])
    waits = PlayedModel([TextDelta("Ship"), anyio.sleep_forever], text("Shipped."))
    one = Agent(name="desk", model=waits, hooks=[Topics("orders", model=judged)])
    rt = open_runtime()
    with anyio.fail_after(30):
        async with rt.stream(one, "Where is it?") as stream:
            async for event in stream:
                if event.type == "child_end":
                    rt.let_go(stream.run_id)
        result = await rt.resume(stream.run_id, one)
    assert (result.unwrap(), len(judged.requests)) == ("Shipped.", 1)
    assert len(await rt.journal.children(stream.run_id)) == 1


async def test_topics_are_words() -> None:
    for allowed in ((), ("",)):
        with pytest.raises(AgentError, match="pass at least one topic"):
            Topics(*allowed, model="script:x")
