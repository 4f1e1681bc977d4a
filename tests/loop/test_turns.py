"""Turns: what is asked, what comes of an answer, and every end that the model itself brings about."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.doubles import (
    PlainTool,
    PlayedModel,
    Seen,
    Step,
    WatchedJournal,
    agent,
    asks,
    breaks,
    call,
    end,
    fails,
    gives,
    open_runtime,
    says,
    text,
    watch,
    wishes,
)
from treadle import ToolContext
from treadle.errors import AgentError, ErrorKind
from treadle.journal.entries import Entry, RunFinished
from treadle.messages.message import Message, ReasoningPart, ToolCall
from treadle.models.model import PartEnd, ReasoningDelta, TextDelta
from treadle.testing import FakeClock, ScriptedModel
from treadle.types import Limits, Mode, StopReason


async def test_an_answer_in_words_completes_the_run() -> None:
    seen = await watch([says("Hello there.")])
    assert seen.outcome == "completed"
    assert seen.result.success
    assert seen.result.output == seen.result.text == seen.result.unwrap() == "Hello there."
    assert [m.role for m in seen.result.messages] == ["user", "assistant"]
    assert seen.result.new_messages == seen.result.messages
    assert (
        seen.result.turn_count,
        seen.result.metrics.invocations,
        seen.result.metrics.retries,
    ) == (1, 1, 0)
    assert seen.result.terminate_reason is seen.result.outcome


async def test_a_call_is_run_and_its_result_goes_back_to_the_model() -> None:
    async def add(ctx: ToolContext[None], arguments: dict[str, int]) -> str:
        return str(arguments["a"] + arguments["b"])

    model = ScriptedModel([asks(call("add", "c1", a=2, b=3)), says("It is 5.")])
    seen = await watch(model, PlainTool(name="add", does=add, effect="pure"))
    assert seen.outcome == "completed"
    assert [m.role for m in seen.result.messages] == ["user", "assistant", "tool", "assistant"]
    assert seen.results == ["5"]
    assert model.requests[1].messages == tuple(seen.result.messages[:3])
    assert seen.result.metrics.tool_calls == 1
    assert seen.result.metrics.usage.total_tokens == 30


async def test_every_request_of_a_run_offers_the_same_tools_system_and_settings() -> None:
    model = ScriptedModel([asks(call("look")), asks(call("look")), says("done")])
    rt = open_runtime()
    result = await rt.run(agent(model, gives("look"), instructions="Be brief."), "go")
    assert result.success
    first = model.requests[0]
    assert [block.text for block in first.system] == ["Be brief."]
    assert [tool.name for tool in first.tools] == ["look"]
    assert first.settings.max_tokens == 8192
    assert all(
        (r.system, r.tools, r.settings) == (first.system, first.tools, first.settings)
        for r in model.requests
    )
    assert all(r.tools is first.tools for r in model.requests), (
        "the same object, so that it is encoded once"
    )


async def test_what_the_provider_wants_back_goes_with_the_next_requests_of_the_run_only() -> None:
    first: list[Step] = [
        *wishes(("c1", "look", "{}"))[:-1],
        end(StopReason.TOOL_USE, provider_data='{"container": "k7"}'),
    ]
    model = PlayedModel(first, text("done"), text("again"))
    rt = open_runtime()
    session = rt.session(agent=agent(model, gives("look")))
    await session.send("go")
    await session.send("more")
    assert [r.settings.extra for r in model.requests] == [None, {"container": "k7"}, None]


async def test_the_reasoning_of_a_turn_stays_in_the_history_with_its_metadata() -> None:
    steps: list[Step] = [
        ReasoningDelta("Let me think."),
        PartEnd("anthropic", '{"signature": "s1"}'),
        TextDelta("Yes."),
        end(),
    ]
    seen = await watch(PlayedModel(steps))
    reasoning = seen.result.messages[-1].parts[0]
    assert reasoning == ReasoningPart(
        text="Let me think.", provider="anthropic", provider_data='{"signature": "s1"}'
    )
    assert seen.result.text == "Yes."


async def test_text_that_utf8_cannot_hold_completes_like_any_other() -> None:
    seen = await watch(PlayedModel(text("half a pair: \ud83d")))
    assert seen.outcome == "completed"
    assert seen.result.text == "half a pair: \ud83d"


async def test_the_text_of_a_run_is_that_of_the_last_assistant_message_that_has_some() -> None:
    seen = await watch(
        [asks(call("look"), text="Looking."), asks(call("look")), fails("auth", status=401)],
        gives("look"),
    )
    assert seen.outcome == "error"
    assert seen.result.text == "Looking."


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in ErrorKind
        if kind not in ("rate_limit", "network", "timeout", "context_overflow")
    ],
)
async def test_an_error_that_is_not_retried_ends_the_run_with_its_kind(kind: ErrorKind) -> None:
    seen = await watch([fails(kind, status=400)])
    assert seen.outcome == "error"
    assert seen.result.error is not None
    assert seen.result.error.kind is kind
    assert seen.kinds[-3:] == ["turn_end", "error", "run_end"]
    with pytest.raises(AgentError) as caught:
        seen.result.unwrap()
    assert caught.value is seen.result.error


async def test_a_used_up_script_ends_in_an_error_that_says_so() -> None:
    seen = await watch([])
    assert seen.outcome == "error"
    assert seen.result.error is not None
    assert seen.result.error.kind is ErrorKind.AGENT
    assert "is exhausted" in seen.result.error.message


async def test_a_model_that_breaks_ends_the_run_in_an_error_and_raises_nothing() -> None:
    seen = await watch(PlayedModel([TextDelta("Half an"), ZeroDivisionError("oh")]))
    assert seen.outcome == "error"
    assert seen.result.error is not None
    assert seen.result.error.kind is ErrorKind.AGENT
    assert "ZeroDivisionError: oh" in seen.result.error.message
    assert seen.result.text == "Half an"


async def test_a_stream_that_makes_no_sense_is_closed_before_the_run_ends() -> None:
    model = PlayedModel([TextDelta(None), end()])  # pyright: ignore[reportArgumentType]  wrong on purpose

    async def closed(entries: Sequence[Entry]) -> None:
        assert model.open == 0 or not isinstance(entries[-1], RunFinished)

    seen = await watch(model, runtime=open_runtime(journal=WatchedJournal(at=closed)))
    assert seen.outcome == "error"


async def test_a_model_that_is_no_stream_ends_the_run_in_an_error() -> None:
    class Broken:
        name = "broken:model"
        refuses: frozenset[str] = frozenset()

        def stream(self, request: object) -> list[str]:
            return ["hello"]

    seen = await watch(Broken())  # pyright: ignore[reportArgumentType]  wrong on purpose
    assert seen.outcome == "error"


async def test_provider_data_that_is_no_json_ends_the_run_in_an_error() -> None:
    seen = await watch(PlayedModel([TextDelta("So."), end(provider_data="{")]))
    assert seen.outcome == "error"
    assert seen.result.text == "So."


@pytest.mark.parametrize(
    "steps",
    [
        [TextDelta("I"), end(StopReason.CONTEXT_OVERFLOW)],
        [AgentError("context_overflow", "too long", status=400)],
    ],
)
async def test_a_history_that_is_too_long_for_the_model_ends_in_context_overflow(
    steps: list[Step],
) -> None:
    seen = await watch(PlayedModel(steps))
    assert seen.outcome == "context_overflow"
    with pytest.raises(AgentError) as caught:
        seen.result.unwrap()
    assert caught.value.kind is ErrorKind.CONTEXT_OVERFLOW


async def test_a_refusal_ends_in_refused_with_the_text_there_is() -> None:
    seen = await watch([says("I would rather not.", stop="refusal")])
    assert seen.outcome == "refused"
    assert seen.result.text == "I would rather not."
    assert seen.result.output is None


async def test_an_answer_cut_by_its_own_max_tokens_is_truncated() -> None:
    seen = await watch([says("Once upon", stop="max_tokens")])
    assert seen.outcome == "truncated"
    assert seen.result.text == "Once upon"
    assert not seen.result.validated


async def test_a_stop_sequence_completes_even_where_nothing_came_before_it() -> None:
    seen = await watch(PlayedModel([end(StopReason.STOP_SEQUENCE)]))
    assert seen.outcome == "completed"
    assert seen.result.output == ""


# ---------------------------------------------------------------- looping


def warnings_in(seen: Seen) -> list[str]:
    return [
        m.text
        for m in seen.result.messages
        if m.role == "user" and "gave the same result" in m.text
    ]


@pytest.mark.parametrize(
    ("tool", "limits", "turns"),
    [
        (gives("look", effect="pure"), None, 10),
        (gives("look"), Limits(repeats=4), 4),
        (breaks("look", ValueError("no")), None, 5),
    ],
)
async def test_a_run_that_repeats_a_call_is_warned_at_half_the_limit_and_ends_at_it(
    tool: PlainTool, limits: Limits | None, turns: int
) -> None:
    seen = await watch([asks(call("look", at="x")) for _ in range(12)], tool, limits=limits)
    assert (seen.outcome, seen.result.turn_count) == ("looping", turns)
    (warning,) = warnings_in(seen)
    assert warning.startswith(
        f"The call of look gave the same result {-(-turns // 2)} times, and nothing was changed in between."
    )


async def test_a_call_with_other_arguments_or_another_result_is_no_loop() -> None:
    count = iter(range(100))

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        return str(next(count))

    polls = [asks(call("look"), call("fail", at=i)) for i in range(12)]
    seen = await watch(
        [*polls, says("done")],
        PlainTool(name="look", does=does, effect="pure"),
        breaks("fail", ValueError("no")),
    )
    assert (seen.outcome, warnings_in(seen)) == ("completed", [])


async def test_a_test_that_fails_the_same_way_after_each_edit_is_no_loop() -> None:
    cycles = [turn for at in range(12) for turn in (asks(call("edit", at=at)), asks(call("test")))]
    seen = await watch(
        [*cycles, says("done")], gives("edit"), breaks("test", TimeoutError("killed"))
    )
    assert (seen.outcome, warnings_in(seen)) == ("completed", [])


async def test_equal_calls_of_one_response_count_once() -> None:
    seen = await watch(
        [asks(*(call("look") for _ in range(12))), says("done")], gives("look", effect="pure")
    )
    assert (seen.outcome, len(seen.results), warnings_in(seen)) == ("completed", 12, [])


async def test_a_circle_of_several_calls_is_a_loop_while_equal_calls_far_apart_are_none() -> None:
    seen = await watch(
        [asks(call("look", at=turn % 2)) for turn in range(40)], gives("look", effect="pure")
    )
    assert (seen.outcome, seen.result.turn_count, len(warnings_in(seen))) == ("looping", 19, 2)
    far = [asks(call("look", at=0 if turn % 5 == 0 else turn)) for turn in range(60)]
    seen = await watch([*far, says("done")], gives("look", effect="pure"))
    assert (seen.outcome, warnings_in(seen)) == ("completed", [])


async def test_calls_that_wait_are_no_loop() -> None:
    clock = FakeClock()

    async def waits(ctx: ToolContext[None], arguments: object) -> str:
        await clock.sleep(5)
        return "pending"

    seen = await watch(
        [*(asks(call("look")) for _ in range(12)), says("done")],
        PlainTool(name="look", does=waits, effect="pure"),
        runtime=open_runtime(clock=clock),
    )
    assert (seen.outcome, warnings_in(seen)) == ("completed", [])
    polled = await watch(
        [*(asks(call("look")) for _ in range(12)), says("done")],
        gives("look", effect="pure", polls=True),
    )
    assert (polled.outcome, warnings_in(polled)) == ("completed", [])


# ---------------------------------------------------------------- approval


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
async def test_a_call_that_needs_a_person_is_refused_and_the_run_ends_in_approval_needed(
    mode: Mode,
) -> None:
    seen = await watch(
        [asks(call("send", "c1", to="Ada")), says("I could not send it.")], gives("send"), mode=mode
    )
    assert seen.outcome == "approval_needed"
    assert seen.result.text == "I could not send it."
    assert seen.result.output is None
    assert "No one can approve it" in seen.results[0]
    assert seen.result.metrics.tool_calls == 0
    assert "tool_call_start" not in seen.kinds
    begin = seen.kinds.index("tool_call")
    assert seen.kinds[begin : begin + 4] == [
        "tool_call",
        "approval_requested",
        "approval_resolved",
        "warning",
    ]
    assert [entry for entry in seen.entries if "tool" in entry or "approval" in entry] == [
        "approval.asked",
        "approval.answered",
        "tool.finished:c1:denied",
    ]


async def test_a_tool_that_always_needs_approval_is_asked_for_in_full_mode_too() -> None:
    seen = await watch(
        [asks(call("look")), says("no")],
        gives("look", effect="pure", needs_approval=True),
        mode="full",
    )
    assert seen.outcome == "approval_needed"


async def test_pure_tools_run_unasked_in_every_mode() -> None:
    for mode in ("ask", "accept-edits", "plan", "full"):
        seen = await watch(
            [asks(call("look")), says("seen")], gives("look", effect="pure"), mode=mode
        )
        assert (seen.outcome, seen.results) == ("completed", ["ok"])


async def test_plan_mode_denies_what_changes_things_and_that_is_no_lack_of_approval() -> None:
    seen = await watch(
        [asks(call("send", "c1")), says("The plan: send it.")], gives("send"), mode="plan"
    )
    assert seen.outcome == "completed"
    assert "tool.finished:c1:denied" in seen.entries
    assert "this run only plans" in seen.results[0]


async def test_an_edit_inside_the_working_directory_runs_unasked_where_edits_are_accepted() -> None:
    inside = PlainTool(
        name="edit", does=gives("edit").does, changes=lambda arguments, cwd: [cwd / "a.txt"]
    )
    outside = PlainTool(
        name="edit", does=gives("edit").does, changes=lambda arguments, cwd: [cwd / ".." / "a.txt"]
    )
    assert (
        await watch([asks(call("edit")), says("done")], inside, mode="accept-edits")
    ).outcome == "completed"
    assert (
        await watch([asks(call("edit")), says("done")], outside, mode="accept-edits")
    ).outcome == "approval_needed"
    assert (
        await watch([asks(call("edit")), says("done")], inside, mode="ask")
    ).outcome == "approval_needed"


async def test_a_limit_that_ends_a_run_goes_before_the_approval_that_it_lacked() -> None:
    seen = await watch(
        [asks(call("send")), asks(call("send"))], gives("send"), mode="ask", limits=Limits(turns=2)
    )
    assert seen.outcome == "turn_limit"


# ---------------------------------------------------------------- history


async def test_messages_before_the_prompt_are_sent_but_are_not_new() -> None:
    model = ScriptedModel([says("4")])
    example = [Message.user("1+1?"), Message.assistant("2")]
    result = await open_runtime().run(agent(model, messages=example), "2+2?")
    assert [m.text for m in model.requests[0].messages] == ["1+1?", "2", "2+2?"]
    assert [m.text for m in result.new_messages] == ["2+2?", "4"]


async def test_the_lists_of_a_result_are_the_callers_own() -> None:
    seen = await watch([says("hi")])
    seen.result.messages.clear()
    assert len(seen.result.new_messages) == 2


async def test_the_arguments_stay_the_text_that_the_model_wrote() -> None:
    seen = await watch(
        PlayedModel(wishes(("c1", "look", '{"a": 1e400,  "a": 2}')), text("done")), gives("look")
    )
    assert seen.result.messages[1].tool_calls == (
        ToolCall(id="c1", name="look", arguments_json='{"a": 1e400,  "a": 2}'),
    )
