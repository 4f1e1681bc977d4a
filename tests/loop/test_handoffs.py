"""Handoffs: another agent continues the run, with its own definition and the history it is given,
also after a restart at each boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from tests.doubles import PlayedModel, asks, call, check_events, open_runtime, says, text
from tests.loop.test_recovery import resumed, vanished
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import (
    Agent,
    AgentError,
    Hook,
    Limits,
    Message,
    RunContext,
    Settings,
    handoff,
    tool,
)
from treadle.journal.entries import AgentSwitched, ModelResponded
from treadle.messages import events
from treadle.testing import ScriptedModel
from treadle.types import Outcome

pytestmark = pytest.mark.usefixtures("store")


@dataclass
class Invoice:
    number: int


@tool(effect="pure")
def look() -> str:
    """Look around."""
    return "rain"


def transfer(name: str = "billing", call_id: str = "t", /, **arguments: str) -> dict[str, Any]:
    return call(f"transfer_to_{name}", call_id, **(arguments or {"reason": "asks for an invoice"}))


HANDS_OVER = asks(transfer())


def agent(name: str, *script: dict[str, Any], **fields: Any) -> Agent[Any, Any]:
    return Agent(name=name, model=ScriptedModel(list(script), name=f"script:{name}"), **fields)


def sent(one: Agent[Any, Any]) -> list[list[tuple[str, str]]]:
    """The messages of each request to an agent's model."""
    model = one.model
    assert isinstance(model, ScriptedModel)
    return [[(m.role, m.text or "calls") for m in request.messages] for request in model.requests]


HANDED = "[triage handed this conversation over to you. Its summary:]\n\n"
RESULT = ("tool", "calls")
ALL = [("user", "Where is it?"), ("assistant", "calls"), RESULT]


async def test_the_call_ends_the_turn_and_the_next_agent_continues_the_run() -> None:
    billing = agent("billing", says("It is paid."), instructions="You are billing.", tools=[look])
    triage = agent("triage", HANDS_OVER, instructions="You are triage.", handoffs=[billing])
    result = await open_runtime().run(triage, "Where is it?")
    assert (result.outcome, result.text, result.agent) == (
        Outcome.COMPLETED,
        "It is paid.",
        "billing",
    )
    assert result.turn_count == 2
    assert len(sent(triage)) == 1
    assert sent(billing) == [ALL]
    assert isinstance(billing.model, ScriptedModel)
    request = billing.model.requests[0]
    assert [block.text for block in request.system] == ["You are billing."]
    assert [one.name for one in request.tools] == ["look"]
    assert isinstance(triage.model, ScriptedModel)
    offered = triage.model.requests[0].tools[0]
    assert offered.name == "transfer_to_billing"
    assert offered.description == (
        "Hand the conversation to billing, who answers the user from here on."
    )


async def test_the_output_is_of_the_agent_that_answers() -> None:
    billing = agent("billing", says('{"number": 7}'), output=Invoice)
    triage = agent("triage", HANDS_OVER, says("Hello."), handoffs=[billing])
    runtime = open_runtime()
    result = await runtime.run(triage, "Where is it?", run_id="r")
    assert result.unwrap() == Invoice(7)
    assert (await runtime.resume("r", triage)).unwrap() == Invoice(7), "from the journal"
    assert (await runtime.run(triage, "Hello")).unwrap() == "Hello."


async def test_settings_and_hooks_are_the_next_agents_and_limits_are_the_runs() -> None:
    seen: list[str] = []

    class Seen(Hook):
        async def before_model(self, run: Any, request: Any) -> None:
            seen.append(run.agent)

    billing = agent(
        "billing",
        says("Paid."),
        settings=Settings(max_tokens=77),
        limits=Limits(turns=1),
        hooks=[Seen()],
    )
    triage = agent("triage", HANDS_OVER, settings=Settings(max_tokens=55), handoffs=[billing])
    result = await open_runtime().run(triage, "go", limits=Limits(turns=5))
    assert result.outcome is Outcome.COMPLETED
    assert seen == ["billing"]
    assert isinstance(billing.model, ScriptedModel)
    assert billing.model.requests[0].settings.max_tokens == 77


def shortened(ctx: RunContext[Any], messages: list[Message]) -> list[Message]:
    return [*messages[:1], Message.user(f"{ctx.agent}: {len(messages)}")]


def broken(ctx: RunContext[Any], messages: list[Message]) -> list[Message]:
    return messages[-1:]


@pytest.mark.parametrize(
    ("history", "arguments", "shown"),
    [
        ("none", {"reason": "r"}, [("user", "Where is it?")]),
        (
            "summary",
            {"summary": "Ada asks for A-17."},
            [
                (
                    "user",
                    f"{HANDED}Ada asks for A-17.",
                )
            ],
        ),
        (
            shortened,
            {"reason": "r"},
            [("user", "Hello"), ("user", "billing: 5")],
        ),
    ],
)
async def test_the_next_agent_sees_the_history_it_is_given_and_the_session_keeps_all(
    history: Any, arguments: dict[str, str], shown: list[tuple[str, str]]
) -> None:
    billing = agent("billing", asks(call("look", "l")), says("Paid."), tools=[look])
    triage = agent(
        "triage",
        says("Hi."),
        asks(transfer(**arguments)),
        says("Bye."),
        handoffs=[handoff(billing, history=history, description="Knows invoices.")],
    )
    runtime = open_runtime()
    await runtime.run(triage, "Hello", session="s")
    result = await runtime.run(triage, "Where is it?", session="s")
    assert sent(billing) == [shown, [*shown, ("assistant", "calls"), RESULT]]
    assert [(m.role, m.text or "calls") for m in result.messages] == [
        *shown,
        ("assistant", "calls"),
        RESULT,
        ("assistant", "Paid."),
    ]
    await runtime.run(triage, "Thanks", session="s")
    said = [("user", "Hello"), ("assistant", "Hi."), *ALL, ("assistant", "calls"), RESULT]
    assert sent(triage)[-1] == [*said, ("assistant", "Paid."), ("user", "Thanks")]


async def test_it_can_go_back_by_name_and_is_bounded() -> None:
    back = asks(transfer("triage", "b"))
    billing = agent("billing", back, says("x"), handoffs=["triage"])
    triage = agent("triage", HANDS_OVER, says("All done."), handoffs=[billing])
    assert (await open_runtime().run(triage, "go")).text == "All done."

    many = [asks(transfer("billing", f"t{n}")) for n in range(20)]
    backs = [asks(transfer("triage", f"b{n}")) for n in range(20)]
    billing = agent("billing", *backs, handoffs=["triage"])
    triage = agent("triage", *many, handoffs=[billing])
    result = await open_runtime().run(triage, "go", session="s")
    assert result.outcome is Outcome.ERROR
    assert result.error is not None
    assert result.error.kind == "agent"
    assert result.error.message.startswith("this run was handed over 10 times (triage → billing → ")
    assert "say in the instructions" in result.error.message
    assert result.turn_count == 11


async def test_a_name_that_is_not_known_ends_the_run_with_what_to_do() -> None:
    triage = agent("triage", HANDS_OVER, handoffs=["billing"])
    result = await open_runtime().run(triage, "go")
    assert result.error is not None
    assert result.error.message == (
        "the agent 'billing' of a handoff is not known here: pass the agent itself in handoffs=, or "
        "register it with Runtime.agents"
    )


async def test_of_two_handoffs_in_one_response_the_first_counts() -> None:
    billing, orders = agent("billing", says("Paid.")), agent("orders")
    script = asks(call("look", "l"), transfer("billing", "t"), transfer("orders", "u"))
    triage = agent("triage", script, tools=[look], handoffs=[billing, orders])
    result = await open_runtime().run(triage, "go")
    assert result.text == "Paid."
    assert [part.text for part in result.messages[2].tool_results] == [
        "rain",
        "billing answers the user from here on.",
        "Not run: another call of this response hands the conversation to billing.",
    ]


async def test_a_history_that_breaks_pairing_is_an_error_and_the_session_goes_on() -> None:
    billing = agent("billing")
    triage = agent(
        "triage",
        HANDS_OVER,
        says("Hi."),
        handoffs=[handoff(billing, history=broken)],
    )
    runtime = open_runtime()
    result = await runtime.run(triage, "go", session="s")
    assert result.error is not None
    assert "Remove a tool call only together with its results" in result.error.message
    assert (await runtime.run(triage, "again", session="s")).text == "Hi."


async def test_functions_of_the_next_agent_are_evaluated_for_the_run() -> None:
    def instructions(ctx: RunContext[str]) -> str:
        return f"You work for {ctx.deps} and {ctx.inputs['who']}."

    billing = agent("billing", says("Paid."), instructions=instructions)
    triage = agent("triage", HANDS_OVER, instructions="${who}", handoffs=[billing])
    runtime = open_runtime()
    await runtime.run(triage, "go", deps="Ada", inputs={"who": "Bo"}, run_id="r")
    assert isinstance(billing.model, ScriptedModel)
    assert billing.model.requests[0].system[0].text == "You work for Ada and Bo."
    entries = [record.entry for record in await runtime.journal.read("r")]
    switched = next(one for one in entries if isinstance(one, AgentSwitched))
    assert switched.evaluated is not None
    assert switched.evaluated.instructions == "You work for Ada and Bo."


async def test_steering_and_cancelling_reach_the_agent_in_charge() -> None:
    runtime, gate = open_runtime(), anyio.Event()

    async def stand() -> None:
        runtime.steer("s", "hurry")
        await anyio.lowlevel.checkpoint()

    async def stop() -> None:
        runtime.cancel("s")
        gate.set()
        await anyio.sleep_forever()

    first = Agent(name="billing", model=PlayedModel([stand, *text("Well.")], [stop]))
    triage = agent("triage", HANDS_OVER, handoffs=[first])
    result = await runtime.run(triage, "go", session="s")
    assert gate.is_set()
    assert result.outcome is Outcome.CANCELLED
    assert "hurry" in [m.text for m in result.messages]
    assert not runtime.is_busy("s")


async def test_what_arrives_during_the_handoff_reaches_the_next_agent() -> None:
    runtime = open_runtime()

    def steered(ctx: RunContext[object], messages: list[Message]) -> list[Message]:
        runtime.steer("s", "hurry")
        return messages

    billing = agent("billing", says("Paid."))
    triage = agent("triage", HANDS_OVER, handoffs=[handoff(billing, history=steered)])
    result = await runtime.run(triage, "go", session="s")
    assert (result.text, sent(billing)[0][-1]) == ("Paid.", ("user", "hurry"))


async def test_a_run_that_is_cancelled_during_the_handoff_ends_and_the_next_agent_is_not_asked() -> (
    None
):
    runtime = open_runtime()

    def cancelled(ctx: RunContext[object], messages: list[Message]) -> list[Message]:
        runtime.cancel("s")
        return messages

    billing = agent("billing", says("Paid."))
    triage = agent(
        "triage", HANDS_OVER, says("Hi."), handoffs=[handoff(billing, history=cancelled)]
    )
    result = await runtime.run(triage, "go", session="s")
    assert result.outcome is Outcome.CANCELLED
    assert sent(billing) == []
    assert (await runtime.run(triage, "again", session="s")).text == "Hi."


async def test_a_fork_continues_with_the_agent_in_charge() -> None:
    billing = agent("billing", says("Paid."), says("Yes."))
    triage = agent("triage", HANDS_OVER, handoffs=[billing])
    runtime = open_runtime()
    await runtime.run(triage, "go", run_id="r")
    result = await runtime.fork("r", turn=2, text="Sure?", agent=triage)
    assert (result.agent, result.text) == ("billing", "Yes.")


async def test_agents_whose_inputs_a_run_may_lack_are_refused() -> None:
    billing = agent("billing", instructions="${customer}")
    with pytest.raises(AgentError, match=r"'billing' among its handoffs needs .* customer"):
        agent("triage", handoffs=[billing])
    with pytest.raises(AgentError, match="two handoffs are to 'billing'"):
        agent("triage", instructions="${customer}", handoffs=[billing, "billing"])


async def test_subscribers_learn_of_it_and_the_run_has_one_end() -> None:
    billing = agent("billing", says("Paid."))
    triage = agent("triage", HANDS_OVER, handoffs=[billing])
    seen: list[events.Event] = []
    await open_runtime().run(triage, "go", on_event=seen.append)
    check_events(seen)
    kinds = [type(event) for event in seen]
    assert kinds.count(events.RunStart) == kinds.count(events.RunEnd) == 1
    handed = next(event for event in seen if isinstance(event, events.HandedOver))
    assert (handed.agent, handed.before, handed.model) == ("billing", "triage", "script:billing")


async def test_a_child_that_hands_over_answers_its_parent() -> None:
    billing = agent("billing", says("Paid."))
    triage = agent("triage", HANDS_OVER, handoffs=[billing])
    boss = agent("boss", asks(call("triage", "c", prompt="Where?")), says("Done."), tools=[triage])
    result = await open_runtime().run(boss, "go", limits=Limits(turns=9))
    assert result.text == "Done."
    assert [part.text for part in result.messages[2].tool_results] == ["Paid."]
    assert result.metrics.total.turns == 4


def _agents(*rest: dict[str, Any], history: Any = "summary") -> Agent[Any, Any]:
    def instructions(ctx: RunContext[int]) -> str:
        return f"deps {ctx.deps}"

    billing = agent("billing", *rest, instructions=instructions, tools=[look], output=Invoice)
    return agent(
        "triage",
        asks(call("look", "l"), transfer(summary="S")),
        tools=[look],
        handoffs=[handoff(billing, history=history)],
    )


@pytest.mark.parametrize("cut", range(1, 15))
async def test_a_resume_after_each_entry_ends_with_the_next_agent(cut: int) -> None:
    script = [asks(call("look", "m")), says('{"number": 7}')]
    whole = await _entries(_agents(*script))
    assert len(whole) == 15
    switched = any(isinstance(entry, AgentSwitched) for entry in whole[:cut])
    responses = sum(isinstance(entry, ModelResponded) for entry in whole[:cut])
    one = _agents(*script)
    result, _ = await resumed(await vanished(whole[:cut]), "r", one, deps=2)
    assert (result.unwrap(), result.agent, result.turn_count) == (Invoice(7), "billing", 3)
    target = one.handoffs[0].agent
    assert isinstance(target, Agent)
    assert isinstance(target.model, ScriptedModel)
    assert len(target.model.requests) == 3 - max(responses, 1), "no turn is paid for twice"
    for request in target.model.requests:
        assert request.messages[0].text == f"{HANDED}S"
        assert [block.text for block in request.system] == [f"deps {1 if switched else 2}"], (
            "as the journal has it, if it has it"
        )


async def _entries(one: Agent[Any, Any]) -> Sequence[Any]:
    runtime = open_runtime()
    await runtime.run(one, "go", deps=1, run_id="r")
    return [record.entry for record in await runtime.journal.read("r")]
