"""A processor of the history: what the model sees changes, what is stored does not, and a resume
sends what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from tests.doubles import asks, call, fails, open_runtime, says
from tests.loop.test_recovery import resumed, vanished
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent, AgentError, Message, RunContext, TextPart, handoff, tool
from treadle.journal.entries import ModelRequested
from treadle.testing import ScriptedModel
from treadle.types import Outcome

pytestmark = pytest.mark.usefixtures("store")


@tool(effect="pure")
def look() -> str:
    """Look around."""
    return "rain"


def agent(*script: dict[str, Any], **fields: Any) -> Agent[Any, Any]:
    return Agent(name="tester", model=ScriptedModel(list(script)), tools=[look], **fields)


def sent(one: Agent[Any, Any]) -> list[list[str]]:
    assert isinstance(one.model, ScriptedModel)
    return [[m.text or m.role for m in request.messages] for request in one.model.requests]


def masked(ctx: RunContext[Any], messages: list[Message]) -> list[Message]:
    return [
        structs.replace(m, parts=(TextPart(text=m.text.replace("4111", "****")),))
        if m.role == "user"
        else m
        for m in messages
    ]


def last_exchange(ctx: RunContext[Any], messages: list[Message]) -> list[Message]:
    prompts = [i for i, message in enumerate(messages) if message.role == "user"]
    return messages[prompts[-1] :]


async def test_the_model_sees_what_the_processor_returns_and_the_session_keeps_all() -> None:
    one = agent(asks(call("look", "a")), says("Rain."), says("Bye."), history=masked)
    runtime = open_runtime()
    result = await runtime.run(one, "card 4111", session="s")
    await runtime.run(one, "thanks", session="s")
    assert sent(one) == [
        ["card ****"],
        ["card ****", "assistant", "tool"],
        ["card ****", "assistant", "tool", "Rain.", "thanks"],
    ]
    assert result.messages[0].text == "card 4111"
    assert (await runtime.messages("s"))[0].text == "card 4111"


async def test_receipts_hold_only_what_changes() -> None:
    one = agent(asks(call("look", "a")), asks(call("look", "b")), says("Rain."), history=masked)
    runtime = open_runtime()
    await runtime.run(one, "card 4111", run_id="r")
    entries = [record.entry for record in await runtime.journal.read("r")]
    views = [entry.view for entry in entries if isinstance(entry, ModelRequested)]
    assert [view is not None for view in views] == [True, False, False]
    plain = agent(says("Hi."), history=masked)
    await runtime.run(plain, "hello", run_id="p")
    entries = [record.entry for record in await runtime.journal.read("p")]
    assert all(entry.view is None for entry in entries if isinstance(entry, ModelRequested))


async def test_old_exchanges_can_leave_and_the_next_processor_sees_them() -> None:
    lengths: list[int] = []

    async def trimmed(ctx: RunContext[Any], messages: list[Message]) -> Sequence[Message]:
        lengths.append(len(messages))
        return last_exchange(ctx, messages)

    one = agent(says("A."), asks(call("look", "a")), says("B."), says("C."), history=trimmed)
    runtime = open_runtime()
    for prompt in ("one", "two", "three"):
        await runtime.run(one, prompt, session="s")
    assert sent(one) == [["one"], ["two"], ["two", "assistant", "tool"], ["three"]]
    assert lengths == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "returned no messages: keep at least the newest message"),
        ("text", "returned 'text': return a list of treadle.Message"),
        (slice(-1, None), "Remove a tool call only together with its results"),
    ],
)
async def test_a_wrong_result_ends_the_run_with_what_to_do_and_nothing_is_sent(
    given: Any, why: str
) -> None:
    def wrong(ctx: RunContext[Any], messages: list[Message]) -> Any:
        if len(messages) == 1:
            return messages
        return messages[given] if isinstance(given, slice) else given

    one = agent(asks(call("look", "a")), says("Rain."), says("Well."), history=wrong)
    runtime = open_runtime()
    result = await runtime.run(one, "go", session="s")
    assert result.outcome is Outcome.ERROR
    assert result.error is not None
    assert result.error.message.startswith("agent 'tester': history= returned")
    assert why in result.error.message
    assert len(sent(one)) == 1
    other = one.with_(history=None)
    assert (await runtime.run(other, "again", session="s")).outcome is Outcome.COMPLETED


async def test_a_processor_that_fails_ends_the_run() -> None:
    def broken(ctx: RunContext[Any], messages: list[Message]) -> list[Message]:
        raise KeyError("x")

    result = await open_runtime().run(agent(history=broken), "go")
    assert result.error is not None
    assert result.error.message == "agent 'tester': history= failed: KeyError: 'x'"


@pytest.mark.parametrize("cut", range(1, 11))
async def test_a_resume_sends_what_the_journal_has(cut: int) -> None:
    """The processor of the other process would show other words."""

    def counted(name: str) -> Any:
        def process(ctx: RunContext[Any], messages: list[Message]) -> list[Message]:
            changed = structs.replace(messages[0], parts=(TextPart(text=name),))
            return [changed, *messages[1:]]

        return process

    script = [asks(call("look", "a")), asks(call("look", "b")), says("Rain.")]
    runtime = open_runtime()
    await runtime.run(agent(*script, history=counted("one")), "go", run_id="r")
    whole = [record.entry for record in await runtime.journal.read("r")]
    last = whole[cut - 1]
    two = agent(*script, history=counted("two"))
    await resumed(await vanished(whole[:cut]), "r", two)
    begun = isinstance(last, ModelRequested)
    assert [request[0] for request in sent(two)][:1] == (["one"] if begun else ["two"])


async def test_a_conversation_that_overflows_is_processed_again() -> None:
    long = "word " * 300
    one = agent(
        *(says(long) for _ in range(4)),
        fails("context_overflow"),
        says("Summary."),
        says("Short."),
        history=masked,
    )
    runtime = open_runtime()
    for n in range(4):
        await runtime.run(one, f"card 4111 {n}", session="s")
    result = await runtime.run(one, "card 4111 again", session="s")
    assert result.text == "Short."
    assert not any("4111" in text for text in sent(one)[-1])
    assert any("****" in text for text in sent(one)[-1])


async def test_the_next_agent_of_a_handoff_sees_the_history_without_the_processor() -> None:
    billing = Agent[Any, Any](name="billing", model=ScriptedModel([says("Paid.")]))
    one = agent(
        asks(call("transfer_to_billing", "t", reason="r")), history=masked, handoffs=[billing]
    )
    await open_runtime().run(one, "card 4111")
    assert (sent(one)[0], sent(billing)[0][0]) == (["card ****"], "card 4111")
    kept = handoff(billing, history=masked)
    billing = billing.with_(model=ScriptedModel([says("Paid.")]))
    one = one.with_(
        model=ScriptedModel([asks(call("transfer_to_billing", "t", reason="r"))]),
        handoffs=[handoff(billing, history=kept.history)],
    )
    await open_runtime().run(one, "card 4111")
    assert sent(billing)[0][0] == "card ****"


async def test_a_session_can_have_a_limit_of_its_own() -> None:
    one = agent(*(says(f"A{n}") for n in range(9)))
    runtime = open_runtime()
    session = runtime.session("s", agent=one, limit=4)
    for n in range(5):
        await session.send(f"Q{n}")
    assert sent(one)[-1][-2:] == ["A3", "Q4"]
    assert all(len(request) <= 5 for request in sent(one))
    with pytest.raises(AgentError, match="limit=1 of a session is not a whole number"):
        runtime.session("s", agent=one, limit=1)


async def test_a_processor_is_a_function_of_two_arguments() -> None:
    def one(messages: list[Message]) -> list[Message]:
        return messages

    with pytest.raises(AgentError, match="history= is a function that cannot be called with two"):
        agent(history=one)
