"""Instructions and tools from functions: called once for a run, and the same for whoever resumes
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import pytest

from tests.doubles import PlainTool, WatchedJournal, agent, asks, call, open_runtime, says
from tests.loop.test_recovery import resumed, told, vanished
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import (
    Agent,
    AgentError,
    Input,
    RunContext,
    Tool,
    ToolContext,
    ToolDefinition,
    Toolset,
    tool,
)
from treadle.journal.entries import Entry, Evaluated, RunResumed, RunStarted
from treadle.messages.events import Warned
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.types import SystemBlock

pytestmark = pytest.mark.usefixtures("store")


@dataclass
class Shop:
    """What the functions answer, which changes."""

    greeting: str = "You serve Ada."
    tools: tuple[str, ...] = ("look", "send")
    asked: list[str] = field(default_factory=list[str])


EFFECTS: dict[str, Any] = {"look": "pure", "send": "once", "new": "pure"}


def named(name: str) -> PlainTool:
    async def does(ctx: ToolContext[Any], arguments: object) -> str:
        return f"done by {name}"

    return PlainTool(name=name, does=does, effect=EFFECTS[name])


def instructions(ctx: RunContext[Shop]) -> str:
    ctx.deps.asked.append("instructions")
    return f"{ctx.deps.greeting} It costs $5, or ${{price}}. {ctx.inputs.get('mood', '')}"


async def tools(ctx: RunContext[Shop]) -> Sequence[Tool[Any]]:
    ctx.deps.asked.append("tools")
    return [named(name) for name in ctx.deps.tools]


def dynamic(script: list[dict[str, Any]], **more: Any) -> Agent[Shop, str]:
    return Agent(name="tester", model=ScriptedModel(script), instructions=instructions, **more)


def requests(one: Agent[Any, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """The system prompt and the names of the tools of each request."""
    assert isinstance(one.model, ScriptedModel)
    return [
        ("|".join(block.text for block in request.system), tuple(t.name for t in request.tools))
        for request in one.model.requests
    ]


SCRIPT = [asks(call("look", "a"), call("send", "b")), says("Done.")]
SEEN = ("You serve Ada. It costs $5, or ${price}. ", ("look", "send"))


async def test_functions_are_called_once_for_a_run_and_nothing_is_replaced_in_their_text(
    rt: Runtime,
) -> None:
    shop, one = Shop(), dynamic(SCRIPT, tools=tools)
    result = await rt.run(one, "go", deps=shop)
    assert result.text == "Done."
    assert requests(one) == [SEEN, SEEN]
    assert shop.asked == ["instructions", "tools"]


@pytest.fixture
def rt() -> Runtime:

    return open_runtime()


async def test_functions_read_the_inputs_and_texts_beside_them_stay_templates(rt: Runtime) -> None:
    declared = {"mood": Input(default="kind")}
    one = dynamic([says("Hi.")], inputs=declared, context=[SystemBlock(text="Be ${mood}.")])
    await rt.run(one, "go", deps=Shop())
    assert requests(one)[0][0] == f"{SEEN[0]}kind|Be kind."
    free = dynamic([says("Hi.")])
    await rt.run(free, "go", deps=Shop(), inputs={"mood": "brief"})
    assert requests(free)[0][0] == f"{SEEN[0]}brief", "no text names the input; the function does"


async def test_a_definition_is_the_same_before_and_after_its_runs(rt: Runtime) -> None:
    one = dynamic([says("Hi."), says("Hi again.")], tools=tools)
    before = one.fingerprint
    await rt.run(one, "go", deps=Shop())
    await rt.run(one, "go", deps=Shop(greeting="You serve Bob."))
    assert one.evaluated is None
    assert one.instructions is instructions
    assert one.fingerprint == before
    assert requests(one)[1][0].startswith("You serve Bob.")


async def driven(one: Agent[Shop, Any], deps: Shop) -> list[Entry]:
    journal = WatchedJournal()

    result = await open_runtime(journal=journal).run(one, "go", deps=deps)
    return [record.entry for record in await journal.read(result.run_id)]


async def test_wherever_a_run_is_cut_its_next_driver_sees_the_same_instructions_and_tools() -> None:
    entries = await driven(dynamic(SCRIPT, tools=tools), Shop())
    assert isinstance(entries[0], RunStarted)
    for count in range(1, len(entries)):
        rt = await vanished(entries[:count])
        other = Shop(greeting="You serve Bob.", tools=("new", "send", "look"))
        again = dynamic(SCRIPT, tools=tools)
        result, _ = await resumed(rt, entries[0].run_id, again, deps=other)
        assert result.text == "Done."
        assert set(requests(again)) <= {SEEN}, count
        assert other.asked == ["tools"], "for the tools themselves; the text is in the journal"
        start = (await rt.journal.read(entries[0].run_id))[count].entry
        assert isinstance(start, RunResumed)
        assert start.evaluated is None


async def test_a_tool_that_is_gone_is_still_offered_and_its_calls_say_so() -> None:
    entries = await driven(dynamic(SCRIPT, tools=tools), Shop())
    assert isinstance(entries[0], RunStarted)
    rt = await vanished(entries[:1])
    again = dynamic(SCRIPT, tools=tools)
    result, events = await resumed(rt, entries[0].run_id, again, deps=Shop(tools=("look",)))
    assert requests(again) == [SEEN, SEEN]
    assert told(result)["b"].text == (
        "send is no longer available. Continue without it, or inform the user."
    )
    assert told(result)["a"].text == "done by look"
    warned = [event.text for event in events if isinstance(event, Warned)]
    assert warned[0] == (
        "agent 'tester' no longer has the tool 'send', which this run offers: calls to it are refused"
    )


async def test_a_tool_keeps_the_definition_that_its_run_offered() -> None:
    @tool(name="look", effect="pure")
    def old(place: Literal["quay", "market"]) -> str:
        """Look around."""
        return f"{place}: rain"

    @tool(name="look", effect="pure")
    def new(place: str) -> str:
        """Look around anywhere."""
        return f"{place}: sun"

    script = [asks(call("look", "a", place="moon"), call("look", "b", place="quay")), says("Done.")]
    first: Agent[Shop, str] = Agent(
        name="tester", model=ScriptedModel(script), tools=lambda ctx: [old]
    )
    entries = await driven(first, Shop())
    assert isinstance(entries[0], RunStarted)
    rt = await vanished(entries[:1])
    model = ScriptedModel(script)
    again: Agent[Shop, str] = Agent(name="tester", model=model, tools=lambda ctx: [new])
    result, _ = await resumed(rt, entries[0].run_id, again, deps=Shop())
    assert model.requests[0].tools == (old.definition,)
    assert "moon" in told(result)["a"].text
    assert told(result)["a"].is_error
    assert told(result)["b"].text == "quay: sun"


async def test_a_run_whose_open_call_has_no_tool_any_more_is_not_taken_over() -> None:
    entries = await driven(dynamic(SCRIPT, tools=tools), Shop())
    assert isinstance(entries[0], RunStarted)
    started = next(
        i for i, entry in enumerate(entries) if entry.__class__.__name__ == "ToolStarted"
    )
    rt = await vanished(entries[: started + 2])
    with pytest.raises(AgentError, match="an open call of the tool 'look'"):
        await rt.resume(entries[0].run_id, dynamic(SCRIPT, tools=tools), deps=Shop(tools=()))
    assert len(await rt.journal.read(entries[0].run_id)) == started + 2, "nothing was taken over"


async def test_a_queued_run_is_evaluated_by_its_first_driver_and_by_no_other(rt: Runtime) -> None:
    shop = Shop()
    run_id = await rt.submit(dynamic(SCRIPT, tools=tools), "go")
    assert shop.asked == []
    one = dynamic([says("Done.")], tools=tools)
    await rt.resume(run_id, one, deps=shop)
    assert requests(one) == [SEEN]
    first = (await rt.journal.read(run_id))[1].entry
    assert isinstance(first, RunResumed)
    assert isinstance(first.evaluated, Evaluated)
    assert first.evaluated.instructions == SEEN[0]
    assert [one.name for one in first.evaluated.tools or ()] == ["look", "send"]


async def test_a_fork_is_another_run_and_asks_again(rt: Runtime) -> None:
    one = dynamic([*SCRIPT, says("Forked.")], tools=tools)
    result = await rt.run(one, "go", deps=Shop())
    other = Shop(greeting="You serve Bob.")
    await rt.fork(result.run_id, turn=1, text="and now?", agent=one, deps=other)
    assert other.asked == ["instructions", "tools"]
    assert requests(one)[-1][0].startswith("You serve Bob.")


async def test_an_agent_with_plain_fields_writes_nothing_more(rt: Runtime) -> None:
    result = await rt.run(agent([says("Hi.")], named("look")), "go")
    started = (await rt.journal.read_bytes(result.run_id))[0]
    assert b"evaluated" not in started


def failing(ctx: RunContext[Any]) -> str:
    raise KeyError("no such user")


@pytest.mark.parametrize(
    ("fields", "says_what"),
    [
        (
            {"instructions": failing},
            "agent 'a': the function of instructions= failed: KeyError: 'no such user'. Nothing "
            "was started",
        ),
        (
            {"instructions": lambda ctx: None},
            "agent 'a': the function of instructions= returned None: return the text of the "
            "instructions",
        ),
        (
            {"tools": lambda ctx: "look"},
            "agent 'a': the function of tools= returned 'look': return a list of tools",
        ),
        (
            {"tools": lambda ctx: [named("look"), named("look")]},
            "two tools are named 'look': tool names must be unique; rename one",
        ),
        ({"tools": lambda ctx: [len]}, "agent 'a': len is not a tool: put @tool above"),
    ],
)
async def test_a_function_that_fails_is_named_before_anything_starts(
    rt: Runtime, fields: dict[str, Any], says_what: str
) -> None:
    with pytest.raises(AgentError) as caught:
        await rt.run(Agent(name="a", model=ScriptedModel([says("Hi.")]), **fields), "go")
    assert says_what in caught.value.message
    assert await rt.journal.runs() == []


async def test_a_child_evaluates_its_own_functions_with_the_deps_of_its_parent(rt: Runtime) -> None:
    child = Agent(name="child", model=ScriptedModel([says("Here.")]), instructions=instructions)
    script = [asks(call("child", "a", prompt="Help.")), says("Done.")]
    shop = Shop()
    parent: Agent[Shop, str] = Agent(name="parent", model=ScriptedModel(script), tools=[child])
    await rt.run(parent, "go", deps=shop)
    assert requests(child) == [(SEEN[0], ())]


def for_staff(ctx: RunContext[Shop]) -> bool:
    ctx.deps.asked.append("is_enabled")
    return "Ada" in ctx.deps.greeting


async def described(ctx: RunContext[Shop], tool: ToolDefinition) -> ToolDefinition | None:
    ctx.deps.asked.append("prepare")
    if "send" not in ctx.deps.tools:
        return None
    return msgspec.structs.replace(tool, description=f"Send mail. {ctx.deps.greeting}")


@tool(effect="pure")
def look() -> str:
    """Look around."""
    return "rain"


@tool(effect="once", is_enabled=for_staff)
def refund() -> str:
    """Pay money back."""
    return "paid"


@tool(effect="once", prepare=described)
def send() -> str:
    """Send mail."""
    return "sent"


CONDITIONAL = [asks(call("refund", "a"), call("send", "b")), says("Done.")]


def conditional(script: list[dict[str, Any]], **more: Any) -> Agent[Shop, str]:
    return Agent(
        name="tester", model=ScriptedModel(script), **{"tools": [look, refund, send], **more}
    )


def offered(one: Agent[Any, Any]) -> list[list[tuple[str, str]]]:
    """The names and descriptions of the tools of each request."""
    assert isinstance(one.model, ScriptedModel)
    return [[(t.name, t.description) for t in request.tools] for request in one.model.requests]


FOR_ADA = [
    ("look", "Look around."),
    ("refund", "Pay money back."),
    ("send", "Send mail. You serve Ada."),
]


@pytest.mark.parametrize(
    ("shop", "names"),
    [
        (Shop(), ["look", "refund", "send"]),
        (Shop(greeting="You serve Bob."), ["look", "send"]),
        (Shop(tools=()), ["look", "refund"]),
    ],
)
async def test_a_run_offers_a_tool_only_under_its_conditions(
    rt: Runtime, shop: Shop, names: list[str]
) -> None:
    one = conditional([says("Done."), says("Again.")])
    await rt.run(one, "go", deps=shop)
    assert [name for name, _ in offered(one)[0]] == names


async def test_a_tool_that_is_switched_off_is_not_there(rt: Runtime) -> None:
    @tool(effect="once", is_enabled=False)
    def off() -> str:
        """Never."""
        raise AssertionError

    one = conditional([asks(call("off", "a")), says("Done.")], tools=[look, off])
    result = await rt.run(one, "go")
    assert "There is no tool named 'off'" in told(result)["a"].text


async def test_wherever_a_run_is_cut_its_next_driver_offers_the_same_tools() -> None:
    shop = Shop()
    entries = await driven(conditional(CONDITIONAL), shop)
    assert shop.asked == ["is_enabled", "prepare"]
    assert isinstance(entries[0], RunStarted)
    for count in range(1, len(entries)):
        rt = await vanished(entries[:count])
        other, again = Shop(greeting="You serve Bob.", tools=()), conditional(CONDITIONAL)
        result, _ = await resumed(rt, entries[0].run_id, again, deps=other)
        assert result.text == "Done."
        assert all(tools == FOR_ADA for tools in offered(again)), count
        assert other.asked == [], "the journal has the answers"


async def test_a_session_asks_the_conditions_for_each_run(rt: Runtime) -> None:
    one, shop = conditional([says("One."), says("Two.")]), Shop()
    session = rt.session("s", agent=one)
    await session.send("go", deps=shop)
    shop.greeting = "You serve Bob."
    await session.send("go on", deps=shop)
    assert [[name for name, _ in tools] for tools in offered(one)] == [
        ["look", "refund", "send"],
        ["look", "send"],
    ]


async def test_a_set_is_filtered_prepared_renamed_prefixed_and_combined(rt: Runtime) -> None:
    async def kept(ctx: RunContext[Shop], tool: ToolDefinition) -> bool:
        return tool.name in ctx.deps.tools

    def louder(ctx: RunContext[Shop], tool: ToolDefinition) -> ToolDefinition:
        return msgspec.structs.replace(tool, description=tool.description.upper())

    mail = Toolset([look, refund, send]).filtered(kept).renamed({"send": "mail"}).prepared(louder)
    tools = [*mail.prefixed("crm_"), named("new")]
    script = [asks(call("crm_mail", "a"), call("new", "b")), says("Done.")]
    one = conditional(script, tools=tools)
    result = await rt.run(one, "go", deps=Shop())
    assert offered(one)[0] == [
        ("crm_look", "LOOK AROUND."),
        ("crm_mail", "SEND MAIL. YOU SERVE ADA."),
        ("new", "Does new."),
    ]
    assert {id: one.text for id, one in told(result).items()} == {"a": "sent", "b": "done by new"}
    assert [tool.name for tool in tools] == ["crm_look", "crm_refund", "crm_mail", "new"]


async def test_a_renamed_tool_refuses_arguments_under_its_new_name(rt: Runtime) -> None:
    script = [asks(call("crm_look", "a", far=True)), says("Done.")]
    one = conditional(script, tools=Toolset([look]).prefixed("crm_"))
    refused = told(await rt.run(one, "go"))["a"]
    assert refused.is_error
    assert "crm_look" in refused.text


@pytest.mark.parametrize(
    ("fields", "says_what"),
    [
        ({"is_enabled": failing}, "is_enabled= of tool 't' failed: KeyError: 'no such user'"),
        (
            {"is_enabled": lambda ctx: "yes"},
            "is_enabled= of tool 't' returned 'yes': return True or False",
        ),
        (
            {"prepare": lambda ctx, tool: "t"},
            "prepare= of tool 't' returned 't': return a ToolDefinition",
        ),
        (
            {"prepare": lambda ctx, tool: msgspec.structs.replace(tool, name="u")},
            "prepare= of tool 't' renamed it to 'u': keep the name here, and rename tools with "
            "Toolset(…).renamed(…)",
        ),
    ],
)
async def test_a_condition_that_fails_is_named_before_anything_starts(
    rt: Runtime, fields: dict[str, Any], says_what: str
) -> None:
    one = conditional([says("Hi.")], tools=[tool(name="t", **fields)(lambda: "x")])
    with pytest.raises(AgentError) as caught:
        await rt.run(one, "go", deps=Shop())
    assert says_what in caught.value.message
    assert await rt.journal.runs() == []
