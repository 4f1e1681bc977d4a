"""Hooks that check input, output and calls: they block, replace, or send back, and a resume keeps
what they decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    WatchedJournal,
    asks,
    call,
    end,
    gives,
    hook,
    open_runtime,
    says,
    watch,
    wishes,
)
from tests.loop.test_recovery import resumed, vanished
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import (
    Agent,
    AgentError,
    Deny,
    Hook,
    MediaPart,
    Message,
    TextPart,
    ToolCall,
    ToolContext,
    ToolDone,
    ToolResult,
    tool,
)
from treadle.config import Config, Price
from treadle.hooks import HookedRun, Secrets, Stop
from treadle.journal.entries import Entry, InputAdded, ModelRequested, RunStarted, ToolFinished
from treadle.loop.guarding import BLOCKED
from treadle.messages import events
from treadle.messages.events import Event
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel
from treadle.types import Limits, Outcome, Settings, StopReason, Usage

pytestmark = pytest.mark.usefixtures("store")


@dataclass
class Shop:
    """Words that the shop does not want to read."""

    banned: str = "bomb"
    seen: list[str] = field(default_factory=list[str])


class Careful(Hook[Shop]):
    async def check_input(self, run: HookedRun[Shop], message: Message) -> Stop | None:
        run.deps.seen.append(message.text)
        return Stop(f"no {run.deps.banned}s") if run.deps.banned in message.text else None


def keeper(model: Any, *hooks: Hook[Any], **fields: Any) -> Agent[Any, Any]:
    model = model if hasattr(model, "stream") else ScriptedModel(model)
    return Agent(name="keeper", model=model, hooks=hooks, **fields)


def requests(one: Agent[Any, Any]) -> list[list[str]]:
    assert isinstance(one.model, ScriptedModel)
    return [[message.text for message in each.messages] for each in one.model.requests]


# ---------------------------------------------------------------- input


async def test_a_check_of_the_input_runs_beside_the_first_request_and_blocks_it() -> None:
    asked, seen = anyio.Event(), list[Event]()

    async def reached() -> None:
        asked.set()
        await anyio.sleep_forever()

    async def blocks(run: HookedRun, message: Message) -> Stop:
        await asked.wait()  # the model is being asked meanwhile
        return Stop("not about shops")

    model = PlayedModel([TextDelta("Once"), reached])
    one, rt = keeper(model, hook("Topic", check_input=blocks)), open_runtime()
    with anyio.fail_after(30):
        async with rt.stream(one, "How do I build a bomb?") as stream:
            seen = [event async for event in stream]
    result = stream.result
    assert (result.outcome, result.text, result.output) == (Outcome.REFUSED, "", None)
    assert result.error is not None
    assert result.error.message == "the hook Topic stopped the run: not about shops"
    assert (len(model.requests), model.open) == (1, 0)
    assert [message.text for message in result.messages] == [BLOCKED]
    assert isinstance(seen[-1], events.RunEnd)


async def test_no_call_runs_before_the_check_of_the_input_has_passed() -> None:
    gate, done = Gate(), list[str]()

    async def waits(run: HookedRun, message: Message) -> Stop:
        await gate.stop()
        return Stop("too late")

    async def does(ctx: ToolContext[Any], arguments: object) -> str:
        done.append("sent")
        return "sent"

    async def asked() -> None:
        gate.opened.set()

    model = PlayedModel([*wishes(("a", "send", "{}"))[:-1], asked, end(StopReason.TOOL_USE)])
    one = keeper(model, hook(check_input=waits), tools=[PlainTool(name="send", does=does)])
    with anyio.fail_after(30):
        result = await open_runtime().run(one, "go")
    assert (result.outcome, done) == (Outcome.REFUSED, [])
    assert [message.text for message in result.messages] == [BLOCKED]


async def test_a_check_gets_deps_and_inputs_and_is_asked_once_about_each_message_of_a_user() -> (
    None
):
    shop, inputs = Shop(), list[object]()

    async def notes(run: HookedRun, message: Message) -> None:
        inputs.append(dict(run.inputs))

    one = keeper(
        [asks(call("look")), says("Done."), says("And again.")],
        Careful(),
        hook(check_input=notes),
        tools=[gives("look")],
        instructions="Serve ${who}.",
    )
    rt = open_runtime()
    result = await rt.run(one, "go", deps=shop, session="s", inputs={"who": "Ada"})
    await rt.run(one, "on", deps=shop, session="s", inputs={"who": "Ada"})
    assert result.unwrap() == "Done."
    assert shop.seen == ["go", "on"]
    assert inputs == [{"who": "Ada"}] * 2


async def test_a_message_to_a_running_run_is_checked_too_and_leaves_the_conversation() -> None:
    gate = Gate(effect="pure")
    one = keeper([asks(call("gate")), says("Boom.")], Careful(), tools=[gate.tool])
    rt, shop = open_runtime(), Shop()
    with anyio.fail_after(30):
        async with rt.stream(one, "go", deps=shop, session="s") as stream:
            async for event in stream:
                if isinstance(event, events.ToolCallStart):
                    stream.steer("Now build a bomb.")
                    gate.opened.set()
    assert (stream.result.outcome, shop.seen) == (Outcome.REFUSED, ["go", "Now build a bomb."])
    assert [m.text for m in stream.result.messages if m.role == "user"] == ["go", BLOCKED]


async def test_a_blocked_message_is_not_in_the_next_run_of_its_session() -> None:
    one, shop = keeper([says("x"), says("Hello.")], Careful()), Shop()
    rt = open_runtime()
    assert (await rt.run(one, "a bomb", deps=shop, session="s")).outcome is Outcome.REFUSED
    assert (await rt.run(one, "hi", deps=shop, session="s")).unwrap() == "Hello."
    assert requests(one)[-1] == [BLOCKED, "hi"]


async def test_a_hook_rewrites_what_users_say_before_it_is_recorded() -> None:
    gate = Gate(effect="pure")

    async def hides(run: HookedRun, message: Message) -> str:
        return message.text.replace("tulip", "[number]")

    one = keeper([asks(call("gate")), says("ok")], hook(before_input=hides), tools=[gate.tool])
    rt = open_runtime()
    with anyio.fail_after(30):
        async with rt.stream(one, "My number is tulip.") as stream:
            async for event in stream:
                if isinstance(event, events.ToolCallStart):
                    stream.steer("It is tulip!")
                    gate.opened.set()
    assert requests(one)[-1][0] == "My number is [number]."
    assert requests(one)[-1][-1] == "It is [number]!"
    entries = [record.entry for record in await rt.journal.read(stream.run_id)]
    assert not any(b"tulip" in entry.to_json() for entry in entries)


async def test_a_hook_that_fails_before_the_input_starts_nothing() -> None:
    def fails(*told: object) -> None:
        raise KeyError("no")

    one, rt = keeper([says("x")], hook(before_input=fails)), open_runtime()
    with pytest.raises(Exception, match=r"the hook Says\.before_input failed: KeyError"):
        await rt.run(one, "go")
    assert await rt.journal.runs() == []


async def test_a_queued_run_rewrites_its_prompt_when_it_is_submitted() -> None:
    one, rt = keeper([says("x")], hook(before_input="hidden")), open_runtime()
    run_id = await rt.submit(one, "secret")
    (started, *_) = [record.entry for record in await rt.journal.read(run_id)]
    assert isinstance(started, RunStarted)
    assert started.input.text == "hidden"


async def test_a_check_that_fails_ends_the_run_with_an_error() -> None:
    def fails(*told: object) -> None:
        raise KeyError("no")

    seen = await watch([says("x")], runtime=open_runtime(hooks=[hook(check_input=fails)]))
    assert seen.result.outcome is Outcome.ERROR
    assert "the hook Says.check_input failed: KeyError" in str(seen.result.error)
    assert seen.result.text == ""


@pytest.mark.parametrize("verdict", [Stop("no"), None, "broken"])
async def test_a_pending_check_decides_although_the_model_has_failed(verdict: Any) -> None:
    failed = anyio.Event()

    async def fails() -> None:
        failed.set()
        raise AgentError("invalid", "the model is down", status=400)

    async def judges(run: HookedRun, message: Message) -> Any:
        await failed.wait()
        await anyio.sleep(0)
        if verdict == "broken":
            raise KeyError("no")
        return verdict

    model = PlayedModel([fails])
    with anyio.fail_after(30):
        result = await open_runtime().run(keeper(model, hook("Topic", check_input=judges)), "go")
    outcome, text = Outcome.ERROR, "the model is down"
    if verdict == Stop("no"):
        outcome, text = Outcome.REFUSED, "the hook Topic stopped the run: no"
    assert (result.outcome, str(result.error), len(model.requests)) == (outcome, text, 1)
    kept = [BLOCKED] if outcome is Outcome.REFUSED else ["go"]
    assert [message.text for message in result.messages] == kept


@pytest.mark.parametrize("observes", [(), ("after_model",)])
async def test_text_of_an_interrupted_response_is_kept_only_if_no_hook_could_change_it(
    observes: tuple[str, ...],
) -> None:
    masks = hook(after_model=lambda run, request, response: None)
    type(masks).observes = observes
    one, rt = keeper(PlayedModel([TextDelta("tulip"), anyio.sleep_forever]), masks), open_runtime()
    with anyio.fail_after(30):
        async with rt.stream(one, "go") as stream:
            async for event in stream:
                if isinstance(event, events.TextDelta):
                    stream.cancel()
    assert stream.result.outcome is Outcome.CANCELLED
    assert [m.text for m in stream.result.new_messages] == ["go", *(["tulip"] if observes else [])]
    assert stream.result.text == ("tulip" if observes else "")


# ---------------------------------------------------------------- output


async def test_an_output_is_sent_back_with_the_reason_or_blocked() -> None:
    def judge(run: HookedRun, output: str) -> Deny | Stop | None:
        return {"bad": Deny("say it well"), "worse": Stop("no")}.get(output)

    one = keeper([says("bad"), says("good")], hook(check_output=judge))
    rt = open_runtime()
    assert (await rt.run(one, "go")).unwrap() == "good"
    assert requests(one)[-1][-1].startswith("Your answer is rejected: say it well\n")

    one = keeper([says("worse"), says("Hello.")], hook(check_output=judge))
    result = await rt.run(one, "go", session="s")
    assert (result.outcome, result.text, result.output) == (Outcome.REFUSED, "", None)
    assert [message.text for message in result.messages] == ["go", BLOCKED]
    assert (await rt.run(one, "on", session="s")).unwrap() == "Hello."
    assert requests(one)[-1] == ["go", BLOCKED, "on"]


async def test_the_value_of_a_tool_that_ends_the_run_is_checked_but_not_sent_back() -> None:
    @tool(effect="once")
    async def bill() -> ToolDone:
        """Send a bill."""
        return ToolDone("worse")

    rt = open_runtime()
    one = keeper([asks(call("bill"))], hook(check_output=Stop("no")), tools=[bill])
    assert (await rt.run(one, "go")).outcome is Outcome.REFUSED
    one = keeper([asks(call("bill"))], hook(check_output=Deny("no")), tools=[bill])
    result = await rt.run(one, "go")
    assert result.outcome is Outcome.INVALID_OUTPUT
    assert result.error is not None
    assert result.error.message == "the output is invalid: a check rejected it: no"


async def test_a_hook_replaces_the_text_of_a_response() -> None:
    one = keeper([says("It is tulip.")], hook(after_model="It is [number]."))
    result = await open_runtime().run(one, "go")
    assert (result.unwrap(), result.messages[-1].text) == ("It is [number].", "It is [number].")


def fails(*told: object) -> None:
    raise KeyError("no")


class Late(Hook):
    """Blocks the input once the response to it is complete."""

    observes = ("after_model",)

    def __init__(self) -> None:
        self.answered = anyio.Event()

    async def after_model(self, run: HookedRun, request: Any, response: Any) -> None:
        self.answered.set()

    async def check_input(self, run: HookedRun, message: Message) -> Stop:
        await self.answered.wait()
        return Stop("no")


USED = Usage(input_tokens=100, output_tokens=10)


@pytest.mark.parametrize(
    ("hooks", "outcome"),
    [
        ([hook(after_model=Stop("no"))], Outcome.REFUSED),
        ([hook(after_model=fails)], Outcome.ERROR),
        ([hook(after_model="[number]"), hook(before_tool=Stop("no"))], Outcome.REFUSED),
        ([hook(before_tool=Stop("no"))], Outcome.REFUSED),
        ([Late()], Outcome.REFUSED),
    ],
)
async def test_a_response_that_hooks_block_is_paid_for_though_nothing_of_it_is_kept(
    hooks: list[Hook[Any]], outcome: Outcome
) -> None:
    asked = [TextDelta("tulip"), *wishes(("a", "look", '{"text": "tulip"}'))[:-1]]
    model = PlayedModel([*asked, end(StopReason.TOOL_USE, usage=USED)])
    prices = {"played:*": Price(input=1_000, output=10_000)}
    rt = open_runtime(config=Config(prices=prices))
    one = keeper(model, *hooks, tools=[sends([], "look")])
    with anyio.fail_after(30):  # the last turn, whose calls hooks see before it is stored
        result = await rt.run(one, "go", limits=Limits(turns=1))
    assert (result.outcome, result.text) == (outcome, "")
    assert (result.metrics.usage, result.metrics.cost_usd) == (USED, 0.2)
    assert (result.turn_count, result.metrics.invocations) == (1, 1)
    records = await rt.journal.read(result.run_id)
    assert not any(b"tulip" in record.entry.to_json() for record in records)
    state = await rt.journal.load(result.run_id)
    assert (state.ledger.usage, state.ledger.cost_usd) == (USED, 0.2)
    assert state.ledger.unreported_tokens == 0
    assert state.finished is not None
    assert [part.cost_usd for part in state.finished.spending] == [0.2]
    again = await rt.resume(result.run_id, one)
    assert (again.outcome, again.metrics) == (outcome, result.metrics)
    assert [message.text for message in result.messages] in (["go"], [BLOCKED])
    forked = await rt.fork(result.run_id, turn=1, text="on", agent=keeper([says("Yes.")]))
    assert (forked.text, (await rt.journal.load(result.run_id)).ledger.usage) == ("Yes.", USED)


async def test_a_response_without_a_usage_that_hooks_block_costs_its_whole_reservation() -> None:
    one = keeper(
        PlayedModel([TextDelta("tulip"), end(usage=Usage())]), hook(after_model=Stop("no"))
    )
    rt = open_runtime()
    result = await rt.run(one, "go", limits=Limits(tokens=10_000))
    state = await rt.journal.load(result.run_id)
    asked = next(
        record.entry
        for record in await rt.journal.read(result.run_id)
        if isinstance(record.entry, ModelRequested)
    )
    assert asked.reserved is not None
    assert state.ledger.left(Outcome.TOKEN_LIMIT) == 10_000 - asked.reserved.tokens


async def test_blocked_responses_of_child_runs_count_against_the_limit_of_their_parent() -> None:
    used = {"input_tokens": 100, "output_tokens": 10}
    child = keeper([says("tulip", usage=used)] * 9, hook(after_model=Stop("no")))
    script = [asks(call("keeper", prompt=str(n)), usage=used) for n in range(9)]
    one = Agent(
        name="parent", model=ScriptedModel(script), tools=[child], settings=Settings(max_tokens=100)
    )
    result = await open_runtime().run(one, "go", limits=Limits(tokens=2_000))
    assert result.outcome is Outcome.TOKEN_LIMIT
    total = result.metrics.total
    assert total.runs > 3
    assert total.usage.total_tokens == 110 * total.turns <= 2_000


# ---------------------------------------------------------------- calls


def sends(done: list[str], name: str, **more: Any) -> PlainTool:
    async def does(ctx: ToolContext[Any], arguments: object) -> str:
        done.append(name)
        return f"the result of {name}"

    return PlainTool(name=name, does=does, **more)


async def test_a_call_that_a_hook_blocks_ends_the_run_before_any_call_of_its_turn() -> None:
    def judge(run: HookedRun, asked: ToolCall) -> Stop | None:
        return Stop("no wiping") if asked.name == "wipe" else None

    done = list[str]()
    tools = [sends(done, "look"), sends(done, "wipe")]
    seen = await watch(
        [asks(call("look"), call("wipe")), says("x")],
        *tools,
        runtime=open_runtime(hooks=[hook(before_tool=judge)]),
    )
    assert (seen.result.outcome, done) == (Outcome.REFUSED, [])
    assert str(seen.result.error) == "the hook Says stopped the run: no wiping"


@pytest.mark.parametrize("answer", [Deny("it gives orders"), Stop("it gives orders")])
async def test_a_result_is_withheld_from_the_model_and_a_stop_ends_the_run(answer: Any) -> None:
    def judge(run: HookedRun, asked: ToolCall, result: ToolResult) -> Any:
        return answer if asked.name == "look" else None

    done = list[str]()
    tools = [sends(done, "look", parallel=False), sends(done, "wipe", parallel=False)]
    seen = await watch(
        [asks(call("look"), call("wipe")), says("ok")],
        *tools,
        runtime=open_runtime(hooks=[hook(after_tool=judge)]),
    )
    first, second = [each for m in seen.result.messages for each in m.tool_results]
    assert (first.text, first.is_error) == ("The result is withheld: it gives orders", True)
    if isinstance(answer, Deny):
        assert (seen.result.text, done) == ("ok", ["look", "wipe"])
        return
    assert (seen.result.outcome, done) == (Outcome.REFUSED, ["look"])
    assert second.text == "Not run: The run was stopped."


async def test_secrets_are_masked_in_what_users_models_and_tools_say() -> None:
    key = "ghp_" + "a1B2" * 9
    script = [asks(call("look")), says(f"It is {key}.")]
    one = keeper(script, Secrets(), tools=[gives("look", f"token: {key}")])
    rt = open_runtime()
    result = await rt.run(one, f"My key is {key}, look.")
    assert result.unwrap() == "It is [redacted]."
    assert result.messages[0].text == "My key is [redacted], look."
    entries = [record.entry for record in await rt.journal.read(result.run_id)]
    assert not any(key.encode() in entry.to_json() for entry in entries)


async def test_media_of_a_result_stay_if_a_hook_replaces_its_text() -> None:
    image = MediaPart(media_type="image/png", data="QUJD")
    key = "ghp_" + "a1B2" * 9

    @tool(effect="pure")
    async def look() -> list[TextPart | MediaPart]:
        """Look."""
        return [TextPart(text="token:"), image, TextPart(text=key)]

    one = keeper([asks(call("look")), says("Seen.")], Secrets(), tools=[look])
    result = await open_runtime().run(one, "Look.")
    (seen,) = result.messages[2].parts
    assert isinstance(seen, ToolResult)
    assert seen.content == (TextPart(text="token:\n[redacted]"), image)


# ---------------------------------------------------------------- resume


def guarded(script: list[dict[str, Any]], shop: Shop, done: list[str]) -> Agent[Any, Any]:
    class Strict(Hook[Shop]):
        async def after_tool(
            self, run: HookedRun[Shop], call: ToolCall, result: ToolResult
        ) -> Stop | str | None:
            shop.seen.append(call.name)
            return Stop("an order") if call.name == "read" else "seen: " + result.text

        async def check_output(self, run: HookedRun[Shop], output: str) -> Deny | None:
            shop.seen.append(output)
            return Deny("be kind") if output == "bad" else None

    read = sends(done, "read", parallel=False)
    tools = [sends(done, "look", effect="pure"), read, sends(done, "wipe")]
    return keeper(script, Careful(), Strict(), tools=tools)


async def driven(one: Agent[Any, Any], shop: Shop) -> list[Entry]:
    journal = WatchedJournal()
    result = await open_runtime(journal=journal).run(one, "go", deps=shop)
    return [record.entry for record in await journal.read(result.run_id)]


SCRIPT = [asks(call("look", "a")), says("bad"), says("good")]


async def test_wherever_a_run_is_cut_its_hooks_are_not_asked_about_what_is_recorded() -> None:
    entries = await driven(guarded(SCRIPT, Shop(), []), Shop())
    assert isinstance(entries[0], RunStarted)
    for count in range(1, len(entries)):
        rt, shop, done = await vanished(entries[:count]), Shop(), list[str]()
        left = entries[:count]
        answered = sum(entry.__struct_config__.tag == "model.responded" for entry in left)
        one = guarded(SCRIPT, shop, done)
        result, _ = await resumed(rt, entries[0].run_id, one, deps=shop)
        assert result.text == "good", count
        assert ("go" in shop.seen) is (answered == 0), "the response says that it had passed"
        finished = any(isinstance(entry, ToolFinished) for entry in left)
        assert ("look" in shop.seen) is not finished, count
        sent_back = any(isinstance(entry, InputAdded) for entry in left)
        assert ("bad" in shop.seen) is not sent_back, count


async def test_a_run_that_a_result_blocked_stays_blocked_wherever_it_is_cut() -> None:
    script = [asks(call("read", "a"), call("wipe", "b"))]
    entries = await driven(guarded(script, Shop(), []), Shop())
    assert isinstance(entries[0], RunStarted)
    first = next(i for i, entry in enumerate(entries) if isinstance(entry, ToolFinished))
    for count in range(first + 1, len(entries)):
        rt, shop, done = await vanished(entries[:count]), Shop(), list[str]()
        one = guarded([], shop, done)
        result, _ = await resumed(rt, entries[0].run_id, one, deps=shop)
        assert (result.outcome, done, shop.seen) == (Outcome.REFUSED, [], []), count
        assert str(result.error) == "the hook Strict stopped the run: an order"
