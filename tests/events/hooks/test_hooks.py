"""Every point at which a hook is asked, and every answer that it may give there."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.doubles import (
    USED,
    Gate,
    PlainTool,
    PlayedModel,
    Seen,
    agent,
    asks,
    breaks,
    call,
    end,
    gives,
    hook,
    open_runtime,
    says,
    text,
    watch,
)
from tests.stores import new_journal
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import (
    Agent,
    Approve,
    Deny,
    Happened,
    Hook,
    Limits,
    MediaPart,
    ModelRequest,
    ModelResponse,
    RunResult,
    Runtime,
    TextPart,
    ToolCall,
    ToolContext,
    ToolResult,
    Usage,
    tool,
)
from treadle.events.feed import Feed
from treadle.events.hooks import Add, Answer, Ask, HookedRun, Hooks, Stop
from treadle.events.hub import Hub
from treadle.journal.entries import ModelResponded
from treadle.messages import events
from treadle.messages.message import ProviderPart, ReasoningPart
from treadle.models.model import TextDelta
from treadle.testing import MemoryJournal, ScriptedModel
from treadle.tools.approval import ApprovalRequest
from treadle.types import StopReason


async def run(hooks: Hook | list[Hook], model: Any, *tools: Any, **options: Any) -> Seen:
    return await watch(
        model,
        *tools,
        runtime=open_runtime(hooks=hooks if isinstance(hooks, list) else [hooks]),
        **options,
    )


def response(*parts: Any, stop: StopReason = StopReason.COMPLETE, **more: Any) -> ModelResponse:
    return ModelResponse(
        parts=parts, usage=Usage(input_tokens=1000, output_tokens=1000), stop_reason=stop, **more
    )


def in_words(words: str) -> ModelResponse:
    return response(TextPart(text=words))


# ---------------------------------------------------------------- around a run


async def test_a_hook_is_told_which_run_it_is() -> None:
    told: list[HookedRun] = []
    rt = open_runtime(hooks=[hook(before_run=lambda run: told.append(run))])
    session = rt.session("ada", agent=agent([says("ok")]))
    result = await session.send("go", user_id="u1")
    (run_,) = told
    assert (
        run_.run_id,
        run_.session_id,
        run_.parent_run_id,
        run_.user_id,
        run_.agent,
        run_.model,
    ) == (
        result.run_id,
        "ada",
        None,
        "u1",
        "tester",
        "script:inline",
    )


async def test_a_run_that_is_stopped_before_it_begins_is_refused_and_asks_no_model() -> None:
    model, ended = ScriptedModel([says("never")]), list[str]()
    seen = await run(
        hook(
            before_run=Stop("not on Sundays"),
            after_run=lambda run, result: ended.append(result.outcome.value),
        ),
        model,
    )
    assert seen.outcome == "refused"
    assert seen.result.error is not None
    assert (seen.result.error.kind.value, seen.result.error.message) == (
        "agent",
        "the hook Says stopped the run: not on Sundays",
    )
    assert (model.requests, ended) == ([], ["refused"])


@pytest.mark.parametrize(
    ("script", "tools", "options", "outcome"),
    [
        ([says("ok")], [], {}, "completed"),
        ([{"error": {"kind": "auth", "status": 401}}], [], {}, "error"),
        ([asks(call("ok")), says("x")], [gives("ok")], {"limits": Limits(turns=1)}, "turn_limit"),
        (
            [asks(call("ok"))],
            [gives("ok", needs_approval=True)],
            {"on_ask": "wait"},
            "approval_needed",
        ),
    ],
)
async def test_after_run_comes_whatever_the_end_and_when_it_is_in_the_journal(
    script: Any, tools: Any, options: Any, outcome: str
) -> None:
    told: list[tuple[str, bool]] = []
    journal = MemoryJournal()

    async def after(run_: HookedRun, result: RunResult[Any]) -> None:
        told.append((result.outcome.value, (await journal.load(run_.run_id)).finished is not None))

    async with Runtime(journal=journal, hooks=[hook(after_run=after)]) as rt:
        result = await rt.run(agent(script, *tools), "go", **options)
    assert told == [(outcome, outcome != "approval_needed")]
    assert result.outcome.value == outcome


@pytest.mark.usefixtures("store")
async def test_after_run_comes_when_the_awaiting_task_is_cancelled() -> None:
    gate, told = Gate(), list[str]()

    async def after(run_: HookedRun, result: RunResult[Any]) -> None:
        await anyio.lowlevel.checkpoint()
        told.append(result.outcome.value)

    rt = open_runtime(hooks=[hook(after_run=after)])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(rt.run, agent([asks(call("gate"))], gate.tool), "go")
            await gate.reached.wait()
            group.cancel_scope.cancel()
    assert told == ["cancelled"]


async def test_after_run_is_the_last_of_all_and_sees_the_output_as_it_is() -> None:
    order: list[str] = []
    every = hook(
        after_run=lambda run, result: order.append(f"after_run {result.output!r}"),
        on_event=lambda event: order.append(type(event).__name__),
    )
    rt = open_runtime(hooks=[every])
    await rt.run(Agent(name="count", model=ScriptedModel([says("42")]), output=int), "go")
    assert order[-2:] == ["RunEnd", "after_run 42"]


# ---------------------------------------------------------------- around a model


async def test_text_that_a_hook_adds_is_read_by_the_model_and_stays_in_the_history() -> None:
    model, turns = ScriptedModel([asks(call("ok")), says("done")]), iter(["It is noon.", None])
    seen = await run(
        hook(before_model=lambda run, request: (said := next(turns)) and Add(said)),
        model,
        gives("ok"),
    )
    assert [m.text for m in model.requests[0].messages] == ["go", "It is noon."]
    assert [m.text for m in seen.result.messages if m.role == "user"] == ["go", "It is noon."]
    assert [event.text for event in seen.of(events.InputAdded)] == ["It is noon."]


async def test_what_a_hook_adds_leaves_what_was_sent_before_as_it_is() -> None:
    model = ScriptedModel([asks(call("ok")), asks(call("ok", "b")), says("done")])
    await run(
        hook(before_model=lambda run, request: Add(f"turn of {len(request.messages)} messages")),
        model,
        gives("ok"),
    )
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


async def test_a_hook_may_end_the_run_before_a_request() -> None:
    model = ScriptedModel([asks(call("ok")), says("never")])
    seen = await run(
        hook(
            before_model=lambda run, request: Stop("enough") if len(request.messages) > 1 else None
        ),
        model,
        gives("ok"),
    )
    assert (seen.outcome, len(model.requests)) == ("refused", 1)
    assert seen.result.error is not None
    assert "the hook Says stopped the run: enough" in seen.result.error.message


async def test_an_answer_in_the_models_place_counts_as_a_turn_and_costs_nothing() -> None:
    model = ScriptedModel([])
    seen = await run(
        hook("Known", before_model=in_words("from memory")), model, limits=Limits(tokens=10)
    )
    assert (seen.result.text, seen.result.turn_count, model.requests) == ("from memory", 1, [])
    assert seen.result.metrics.usage == Usage()
    assert [
        event.input_tokens + event.output_tokens for event in seen.of(events.UsageReported)
    ] == [0]
    assert [
        record.entry.hook
        for record in seen.records
        if seen.entries[record.seq - 1] == "model.responded"
    ] == ["Known"]
    assert "".join(event.text for event in seen.of(events.TextDelta)) == "from memory"


async def test_calls_that_come_in_the_models_place_are_run_each_under_an_id_of_its_own() -> None:
    calls = response(ToolCall(id="c1", name="ok", arguments_json="{}"), stop=StopReason.TOOL_USE)
    turns = iter([calls, calls, in_words("done")])
    seen = await run(
        hook(before_model=lambda run, request: next(turns)), ScriptedModel([]), gives("ok")
    )
    assert [c.id for m in seen.result.messages for c in m.tool_calls] == ["c1", "c1_2"]
    assert (seen.results, seen.result.text, seen.result.turn_count) == (["ok", "ok"], "done", 3)


@pytest.mark.usefixtures("store")
async def test_an_answer_in_the_models_place_stands_in_the_journal_and_a_resume_asks_only_for_what_came_after_it() -> (
    None
):
    asked, gate = list[int](), Gate(effect="idempotent")

    def before(run_: HookedRun, request: ModelRequest) -> ModelResponse | None:
        asked.append(len(request.messages))
        return (
            response(ToolCall(id="c1", name="gate", arguments_json="{}"), stop=StopReason.TOOL_USE)
            if len(asked) == 1
            else None
        )

    journal = new_journal()
    first = open_runtime(journal=journal, hooks=[hook(before_model=before)])
    one = agent([says("done")], gate.tool)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(first.run, one, "go")
            await gate.reached.wait()
            (info,) = await journal.runs()
            second = open_runtime(journal=journal, hooks=[hook(before_model=before)])
            writer = await journal.take_over(info.run_id, force=True)
            await writer.release()
            gate.opened.set()
            result = await second.resume(info.run_id, one)
            group.cancel_scope.cancel()
    assert (result.text, result.turn_count) == ("done", 2)
    assert asked[0] == 1
    assert {*asked[1:]} == {3}


async def test_a_response_that_a_hook_changes_is_what_is_stored_and_what_listeners_end_with() -> (
    None
):
    def after(run_: HookedRun, request: ModelRequest, said: ModelResponse) -> ModelResponse:
        return response(TextPart(text=said.text.replace("dull", "nice")), model="another")

    seen = await run(
        hook(after_model=after), PlayedModel([TextDelta("a dull day"), end(model="said-1")])
    )
    assert seen.result.text == "a nice day"
    assert seen.result.metrics.usage == Usage(**USED)
    (stored,) = [
        record.entry for record in seen.records if isinstance(record.entry, ModelResponded)
    ]
    assert stored.model == "said-1", "whose price counts"
    assert [(event.kind, event.attempt) for event in seen.of(events.Retry)] == [("hook", 1)]
    heard = [event.text for event in seen.of(events.TextDelta) if event.attempt == 2]
    assert "".join(heard) == "a nice day"


async def test_every_part_of_an_answer_in_the_models_place_is_kept() -> None:
    parts = (
        ReasoningPart(text="so"),
        ProviderPart(provider="p", data='{"x":1}'),
        TextPart(text="it is"),
    )
    seen = await run(hook(before_model=response(*parts)), ScriptedModel([]))
    assert [type(part) for part in seen.result.messages[-1].parts] == [
        ReasoningPart,
        ProviderPart,
        TextPart,
    ]
    assert seen.result.text == "it is"


async def test_a_call_that_a_hook_takes_out_of_a_response_is_not_made() -> None:
    def after(run_: HookedRun, request: ModelRequest, said: ModelResponse) -> ModelResponse | None:
        kept = tuple(
            part for part in said.parts if not isinstance(part, ToolCall) or part.name != "bad"
        )
        return response(*kept, stop=said.stop_reason)

    seen = await run(
        hook(after_model=after),
        [asks(call("bad", "b"), call("ok", "o")), says("done")],
        gives("ok"),
        gives("bad"),
    )
    assert [r.call_id for m in seen.result.messages for r in m.tool_results] == ["o"]


async def test_a_response_with_calls_that_the_model_did_not_make_is_not_taken() -> None:
    invented = response(ToolCall(id="x", name="ok", arguments_json="{}"), stop=StopReason.TOOL_USE)
    seen = await run(hook(after_model=invented), [says("done")], gives("ok"))
    assert (seen.result.outcome, seen.result.text, seen.results) == ("error", "", [])
    assert "tool calls that the model did not request" in str(seen.result.error)


async def test_a_hook_may_end_the_run_after_a_response_and_nothing_of_it_is_done() -> None:
    ran = list[str]()

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        ran.append("ran")
        return ""

    seen = await run(
        hook(after_model=Stop("that is too much")),
        [asks(call("act"))],
        PlainTool(name="act", does=does),
    )
    assert (seen.outcome, ran) == ("refused", [])


# ---------------------------------------------------------------- around a call


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


SUM = [asks(call("add", "c", a=1, b=2)), says("done")]


async def test_a_call_gets_the_arguments_that_a_hook_gives_it_and_the_model_is_told() -> None:
    seen = await run(hook(before_tool=Approve({"a": 10, "b": 20})), SUM, add)
    assert seen.results == ['[a hook changed the arguments to {"a":10,"b":20}]\n30']
    (start,) = [
        record.entry for record in seen.records if seen.entries[record.seq - 1] == "tool.started:c"
    ]
    assert start.arguments_json == '{"a":10,"b":20}'


async def test_arguments_from_a_hook_are_validated_and_judged_like_any() -> None:
    seen = await run(hook(before_tool=Approve({"a": "x"})), SUM, add)
    assert seen.results[0].startswith('[a hook changed the arguments to {"a":"x"}]\n')
    assert seen.entries.count("tool.started:c") == 0
    denied = await run(
        hook(before_tool=Approve()),
        [asks(call("pay")), says("done")],
        gives("pay", effect="once"),
        mode="ask",
    )
    assert "Not run" in denied.results[0]


async def test_arguments_that_are_no_json_deny_the_call() -> None:
    seen = await run(hook(before_tool=Approve({"a": object()})), SUM, add)
    assert seen.results[0].startswith("Not run: the hook Says.before_tool failed: ")


async def test_a_call_that_a_hook_denies_is_not_run_and_the_model_reads_why() -> None:
    seen = await run(hook(before_tool=Deny("no sums today")), SUM, add)
    assert (seen.outcome, seen.results) == ("completed", ["Not run: no sums today"])
    assert seen.entries.count("tool.started:c") == 0


async def test_a_call_that_a_hook_answers_is_not_run() -> None:
    seen = await run(hook(before_tool=Answer("three")), SUM, add)
    (result,) = [r for m in seen.result.messages for r in m.tool_results]
    assert (result.text, result.is_error) == ("three", False)
    assert seen.entries.count("tool.started:c") == 0


async def test_a_call_that_a_hook_asks_about_runs_when_somebody_says_yes() -> None:
    reasons: list[str] = []

    async def approver(request: ApprovalRequest) -> Approve | Deny:
        reasons.append(request.reason)
        return Approve()

    seen = await run(hook(before_tool=Ask("sums are dear")), SUM, add, on_approval=approver)
    assert (seen.results, reasons) == (["3"], ["sums are dear"])
    nobody = await run(hook(before_tool=Ask("sums are dear")), SUM, add)
    assert nobody.outcome == "approval_needed"
    assert nobody.results[0].startswith("Not run: sums are dear.")


async def test_what_a_person_changes_is_shown_to_hooks_again() -> None:
    told: list[dict[str, object]] = []

    def before(run_: HookedRun, asked: ToolCall) -> Ask | Deny:
        told.append(asked.arguments)
        return Deny("too much") if asked.arguments["a"] == 99 else Ask("look at it")

    async def approver(request: ApprovalRequest) -> Approve | Deny:
        return Approve({"a": 99, "b": 1})

    seen = await run(hook(before_tool=before), SUM, add, on_approval=approver)
    assert told == [{"a": 1, "b": 2}, {"a": 99, "b": 1}]
    assert seen.results == ['[a person changed the arguments to {"a":99,"b":1}]\nNot run: too much']


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("restart", [False, True])
async def test_a_call_that_a_person_said_yes_to_runs_with_the_arguments_that_they_were_shown(
    restart: bool,
) -> None:
    given, verdicts, shown = (
        list[Any](),
        iter([Approve({"n": 5}), None, Approve({"n": 7})]),
        list[Any](),
    )

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        given.append(arguments)
        return "paid"

    async def approver(request: ApprovalRequest) -> Approve | Deny:
        shown.append(request.arguments)
        return Approve()

    one = agent(
        [asks(call("pay", "p", n=1)), says("ok")],
        PlainTool(name="pay", does=does, needs_approval=True),
    )
    rt = open_runtime(hooks=[hook(before_tool=lambda run, asked: next(verdicts))])
    if restart:
        waits = await rt.run(one, "go", on_ask="wait")
        shown = [
            event.arguments
            for event in await rt.events(waits.run_id)
            if isinstance(event, events.ApprovalRequested)
        ]
        result = await rt.resume(waits.run_id, one, approve=["p"])
    else:
        result = await rt.run(one, "go", on_approval=approver)
    assert (shown, given) == ([{"n": 5}], [{"n": 5}])
    assert [r.text for m in result.messages for r in m.tool_results] == [
        '[a hook changed the arguments to {"n":5}]\npaid'
    ]


async def test_what_a_call_gave_may_be_put_in_other_words_and_stays_an_error_where_it_was_one() -> (
    None
):
    seen = await run(
        hook(after_tool=lambda run, asked, result: result.text.upper()),
        [asks(call("ok", "a"), call("bad", "b")), says("done")],
        gives("ok"),
        breaks("bad", ValueError("oh"), effect="pure"),
    )
    results = [r for m in seen.result.messages for r in m.tool_results]
    assert [(r.text, r.is_error) for r in results] == [("OK", False), ("VALUEERROR: OH", True)]


async def test_a_result_that_no_hook_puts_in_other_words_keeps_its_pictures() -> None:
    picture = MediaPart(media_type="image/png", data="aGk=")
    told: list[ToolResult] = []
    seen = await run(
        hook(after_tool=lambda run, asked, result: told.append(result)),
        [asks(call("look")), says("ok")],
        gives("look", [picture]),
    )
    (result,) = [r for m in seen.result.messages for r in m.tool_results]
    assert result.content == (picture,) == told[0].content


async def test_the_response_is_in_the_journal_before_hooks_judge_its_calls() -> None:
    journal, found = MemoryJournal(), list[list[str]]()

    async def before(run_: HookedRun, asked: ToolCall) -> None:
        found.append([type(record.entry).__name__ for record in await journal.read(run_.run_id)])

    rt = open_runtime(journal=journal, hooks=[hook(before_tool=before)])
    assert (await rt.run(agent(SUM, add), "go")).success
    assert found[0][-1] == "ModelResponded"


@pytest.mark.usefixtures("store")
async def test_a_run_that_is_cancelled_while_a_hook_judges_a_call_keeps_what_was_paid_for() -> None:
    reached = anyio.Event()

    async def before(run_: HookedRun, asked: ToolCall) -> None:
        reached.set()
        await anyio.sleep_forever()

    rt = open_runtime(hooks=[hook(before_tool=before)])
    with anyio.fail_after(20):
        async with rt.stream(agent(SUM, add), "go") as stream:
            async for _ in stream:
                if reached.is_set():
                    stream.cancel()
    assert stream.result.outcome.value == "cancelled"
    assert stream.result.metrics.usage == Usage(**USED)
    assert [r.text for m in stream.result.messages for r in m.tool_results] == [
        "Not run: The run was stopped."
    ]


# ---------------------------------------------------------------- events


async def test_a_hook_on_events_sees_each_as_it_leaves_and_in_order() -> None:
    told: list[events.Event] = []
    seen = await run(hook(on_event=told.append), SUM, add)
    assert told == seen.events


def test_no_events_are_made_where_no_hook_overrides_on_event() -> None:
    assert (
        Feed("run_1", None, Hub(), hooks=Hooks([Hook(), hook(before_tool=None)])).listener is None
    )
    assert Feed("run_1", None, Hub(), hooks=Hooks([hook(on_event=print)])).listener is not None


# ---------------------------------------------------------------- after a crash


async def resumed(
    hooks: list[Hook], script: list[dict[str, Any]], effect: Any, **more: Any
) -> tuple[RunResult[Any], list[Any]]:
    """A run with a call of `step`, whose driver vanishes in the middle of it, and is taken up; and
    what `step` was called with.
    """
    given, gate, journal = list[Any](), Gate(), new_journal()

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        given.append(arguments)
        if len(given) == 1:
            await gate.stop()
        return "done"

    one = agent(script, PlainTool(name="step", does=does, effect=effect, **more))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(open_runtime(journal=journal, hooks=hooks).run, one, "go")
            await gate.reached.wait()
            (info,) = await journal.runs()
            await (await journal.take_over(info.run_id, force=True)).release()
            result = await open_runtime(journal=journal, hooks=hooks).resume(info.run_id, one)
            group.cancel_scope.cancel()
    return result, given


STEP = [asks(call("step", "s", n=1)), says("ok")]


@pytest.mark.usefixtures("store")
async def test_a_call_that_is_run_again_has_the_arguments_that_it_had_started_with() -> None:
    def more(run_: HookedRun, asked: ToolCall) -> Approve:
        return Approve({"n": asked.arguments["n"] + 1})  # pyright: ignore[reportOperatorIssue]  a number

    result, given = await resumed([hook(before_tool=more)], STEP, "idempotent")
    assert given == [{"n": 2}, {"n": 2}]
    assert result.text == "ok"


@pytest.mark.usefixtures("store")
async def test_a_call_that_is_denied_now_is_not_run_again() -> None:
    verdicts = iter([None, Deny("not any more")])
    result, given = await resumed(
        [hook(before_tool=lambda run, asked: next(verdicts))], STEP, "idempotent"
    )
    assert len(given) == 1
    (told,) = [r.text for m in result.messages for r in m.tool_results]
    assert "was not run again. Not run: not any more" in told


@pytest.mark.usefixtures("store")
async def test_what_a_probe_says_that_a_call_gave_is_told_like_any_result() -> None:
    async def looks(ctx: ToolContext[Any], arguments: Any) -> Happened:
        return Happened("it is done")

    result, given = await resumed(
        [hook(after_tool=lambda run, asked, result: result.text.upper())], STEP, "once", looks=looks
    )
    assert len(given) == 1
    assert [r.text for m in result.messages for r in m.tool_results] == ["IT IS DONE"]


@pytest.mark.usefixtures("store")
async def test_what_a_hook_had_added_is_not_added_twice() -> None:
    reached, asked, journal = anyio.Event(), list[int](), new_journal()

    async def hangs() -> None:
        asked.append(1)
        reached.set()
        if len(asked) == 1:
            await anyio.sleep_forever()

    model = PlayedModel([hangs], [*text("ok")])
    hooks = [hook(before_model=Add("It is noon."))]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(open_runtime(journal=journal, hooks=hooks).run, agent(model), "go")
            await reached.wait()
            (info,) = await journal.runs()
            await (await journal.take_over(info.run_id, force=True)).release()
            result = await open_runtime(journal=journal, hooks=hooks).resume(
                info.run_id, agent(model)
            )
            group.cancel_scope.cancel()
    assert [m.text for m in result.messages] == ["go", "It is noon.", "ok"]
