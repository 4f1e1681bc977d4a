"""What a run has come to, folded from its entries: the same while it runs, whenever it is read
again, and cut wherever one likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.doubles import (
    PlayedModel,
    agent,
    asks,
    call,
    check_history,
    fails,
    gives,
    open_runtime,
    says,
    text,
)
from tests.loop.test_properties import Bench, Case, cases, steps_of
from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.journal.entries import (
    ApprovalAsked,
    Compaction,
    Entry,
    Fork,
    InputAdded,
    ModelRequested,
    ModelResponded,
    ModelSwitched,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.entry_codec import read_entry
from treadle.journal.load import NO_RESULT
from treadle.journal.receipts import Cleared, Summary, read_receipt
from treadle.journal.run_state import RunState
from treadle.journal.window import WindowReceipt
from treadle.messages.events import ErrorInfo
from treadle.messages.message import Message, TextPart, ToolCall, ToolResult
from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.types import Limits, Outcome, Settings, StopReason, Usage

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)


def folded(entries: Sequence[Entry], past: Sequence[Message] = ()) -> RunState:
    state = RunState(past)
    for entry in entries:
        state.apply(entry)
    return state


async def entries_of(rt: Runtime, run_id: str) -> list[Entry]:
    return [record.entry for record in await rt.journal.read(run_id)]


async def ran(case: Case, rt: Runtime) -> RunResult[Any]:
    """A real run of any kind, cut and steered by the case."""
    stream = rt.stream(
        agent(case.script, *Bench().tools()),
        "go",
        mode=case.mode,
        **({"limits": case.limits} if case.limits is not None else {}),
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            steps_of(case, stream, group)
            async with stream:
                async for _ in stream:
                    pass
    return stream.result


def same(replayed: RunResult[Any], live: RunResult[Any]) -> None:
    """In everything but the attempts that were cut: nobody knows afterwards whether those had
    reached the provider.
    """
    assert (
        replayed.run_id,
        replayed.session_id,
        replayed.outcome,
        replayed.text,
        replayed.output,
    ) == (
        live.run_id,
        live.session_id,
        live.outcome,
        live.text,
        live.output,
    )
    assert (replayed.messages, replayed.new_messages) == (live.messages, live.new_messages)
    assert repr(replayed.error) == repr(live.error)
    assert replayed.metrics.invocations <= live.metrics.invocations
    assert msgspec.structs.replace(replayed.metrics, invocations=0) == msgspec.structs.replace(
        live.metrics, invocations=0
    )


def check_state(state: RunState, entries: Sequence[Entry]) -> None:
    """What must hold after any entry."""
    whole = [
        entry
        for entry in entries
        if isinstance(entry, ModelResponded) and entry.stop_reason is not None
    ]
    still_open = {call.id for call in state.current.open_calls}
    assert state.seq == len(entries)
    receipts = [read_receipt(entry.receipt) for entry in entries if isinstance(entry, Compaction)]
    summed_up = [
        receipt.spent.usage
        for receipt in receipts
        if isinstance(receipt, Cleared | Summary) and receipt.spent is not None
    ]
    assert (state.ledger.turns, state.ledger.usage) == (
        len(whole),
        sum([entry.usage for entry in whole] + summed_up, Usage()),
    )
    assert state.ledger.tool_calls == len(
        {entry.call_id for entry in entries if isinstance(entry, ToolStarted)}
    )
    closed = state.context.history[: len(state.context.history) - bool(still_open)]
    check_history(closed)
    if still_open:
        assert still_open <= {call.id for call in state.context.history[-1].tool_calls}
        assert still_open.isdisjoint(state.current.results)
    assert len(state.closed) == len(whole) - bool(still_open)
    assert state.closed == sorted(set(state.closed))
    assert (state.finished is not None) == any(isinstance(entry, RunFinished) for entry in entries)
    assert state.finished is None or (state.current.attempt == 0 and not still_open)


# ---------------------------------------------------------------- any run


@examples(max_examples=100, deadline=None)
@given(case=cases)
def test_any_prefix_of_a_runs_entries_is_a_legal_state(case: Case) -> None:
    async def holds() -> None:
        rt = open_runtime()
        entries = await entries_of(rt, (await ran(case, rt)).run_id)
        state = RunState()
        for count, entry in enumerate(entries, 1):
            state.apply(entry)
            check_state(state, entries[:count])

    anyio.run(holds)


@examples(max_examples=100, deadline=None)
@given(case=cases)
def test_a_run_that_is_read_again_is_the_one_that_ran_also_through_bytes(case: Case) -> None:
    async def holds() -> None:
        rt, other = open_runtime(), open_runtime()
        live = await ran(case, rt)
        same(await rt.replay(live.run_id), live)
        same(await rt.resume(live.run_id), live)
        data = await rt.journal.read_bytes(live.run_id)
        assert [read_entry(one) for one in data] == await entries_of(rt, live.run_id)
        assert (await other.journal.add_run(data)).outcome is live.outcome
        same(await other.replay(live.run_id), live)

    anyio.run(holds)


@examples(max_examples=60, deadline=None)
@given(case=cases, data=st.data())
def test_a_fork_begins_with_what_was_said_up_to_its_turn_and_so_does_a_fork_of_it(
    case: Case, data: st.DataObject
) -> None:
    async def holds() -> None:
        rt = open_runtime()
        origin = await ran(case, rt)
        run_id, said = origin.run_id, origin.messages
        for generation in range(3):
            state = await rt.journal.load(run_id)
            turn = data.draw(st.integers(0, state.ledger.turns), label="turn")
            kept = cut_after(await entries_of(rt, run_id), said, state, turn)
            fork = await rt.fork(
                run_id,
                turn=turn,
                text=f"and {generation}?",
                agent=agent([asks(call("quick"), text="So."), says("done")], *Bench().tools()),
            )
            assert fork.messages[: len(kept)] == kept
            assert fork.new_messages[0].text == f"and {generation}?"
            assert fork.messages[len(kept) :] == fork.new_messages
            check_history(fork.messages)
            same(await rt.replay(fork.run_id), fork)
            run_id, said = fork.run_id, fork.messages

    anyio.run(holds)


def cut_after(
    entries: Sequence[Entry], said: list[Message], state: RunState, turn: int
) -> list[Message]:
    """Of a run that said this: what stood there after so many closed turns, said without its fold."""
    if turn == 0:
        return said[: state.context.prompt_at]
    last = [
        entry
        for entry in entries
        if isinstance(entry, ModelResponded) and entry.stop_reason is not None
    ][turn - 1].message
    if last.tool_calls:
        place = next(i for i, message in enumerate(said) if message.id == f"{last.id}_results") + 1
    elif last.parts:
        place = next(i for i, message in enumerate(said) if message.id == last.id) + 1
    else:
        before = [
            entry.message.id
            for entry in entries[: entries.index(entry_of(entries, last))]
            if isinstance(entry, (InputAdded, ModelResponded))
        ]
        known = {*before, *(f"{one}_results" for one in before)}
        place = (
            max(
                (i for i, message in enumerate(said) if message.id in known),
                default=state.context.prompt_at,
            )
            + 1
        )
    return said[:place]


def entry_of(entries: Sequence[Entry], message: Message) -> Entry:
    return next(
        entry for entry in entries if isinstance(entry, ModelResponded) and entry.message is message
    )


# ---------------------------------------------------------------- one run, by hand

PROMPT = Message(id="msg_p", role="user", parts=(TextPart(text="go"),), created_at=AT)
STARTED = RunStarted(
    at=AT, run_id="run_1", agent="a", agent_hash="h", model="m", mode="full", cwd="/", input=PROMPT
)
CALLS = tuple(ToolCall(id=call_id, name="send", arguments_json="{}") for call_id in ("a", "b"))
ASKED = Message(id="msg_r", role="assistant", parts=CALLS, created_at=AT)
RESPONDED = ModelResponded(
    at=AT,
    turn=1,
    attempt=1,
    message=ASKED,
    usage=Usage(input_tokens=7),
    stop_reason=StopReason.TOOL_USE,
)
BEGUN: tuple[Entry, ...] = (STARTED, ModelRequested(at=AT, turn=1), RESPONDED)


def finished(call_id: str, text: str = "ok", **more: Any) -> ToolFinished:
    return ToolFinished(
        **{
            "at": AT,
            "status": "ok",
            "result": ToolResult(call_id=call_id, name="send", content=text),
        }
        | more
    )


def test_results_stand_in_the_order_of_the_calls_whichever_came_first() -> None:
    state = folded([*BEGUN, finished("b", "second"), finished("a", "first")])
    assert [result.text for result in state.context.history[-1].tool_results] == ["first", "second"]
    assert (state.context.history[-1].id, state.closed) == ("msg_r_results", [5])


def test_what_came_late_never_stands_between_a_call_and_its_result() -> None:
    early, late = (
        ToolLate(at=AT, call_id="x", text="sent after all"),
        ToolLate(at=AT, call_id="y", text="and this"),
    )
    state = folded([*BEGUN, early, finished("a"), late, finished("b")])
    assert [message.role for message in state.context.history[:]] == [
        "user",
        "assistant",
        "tool",
        "user",
        "user",
    ]
    assert "sent after all" in state.context.history[-2].text
    state.apply(ToolLate(at=AT, call_id="z", text="at once"))
    assert "at once" in state.context.history[-1].text
    check_history(state.context.history)


def test_a_late_result_with_a_status_closes_the_question_about_its_call() -> None:
    asked = ApprovalAsked(at=AT, call_id="a", name="send", arguments_json="{}", reason="who knows")
    state = folded([*BEGUN, asked, ToolLate(at=AT, call_id="a", text="sent", status="ok")])
    assert (state.asked, list(state.current.late), state.unknown_calls) == ({}, ["a"], set())
    for entry in (finished("a", "sent"), finished("b")):
        state.apply(entry)
    assert [message.role for message in state.context.history[:]] == ["user", "assistant", "tool"]
    assert state.current.late == {}


@pytest.mark.parametrize("again", [False, True])
def test_the_model_reads_a_late_result_that_an_older_version_did_not_use(again: bool) -> None:
    state = folded([*BEGUN, ToolLate(at=AT, call_id="a", text="sent after all", status="ok")])
    unknown = finished("a", "unknown").result
    begun = ToolStarted(
        at=AT, call_id="a", name="send", arguments_json="{}", effect="once", key="k", attempt=2
    )
    for entry in (
        *([begun] if again else []),
        finished("a") if again else finished("a", status="unknown", result=unknown),
        finished("b"),
    ):
        state.apply(entry)
    assert "sent after all" in state.context.history[-1].text
    check_history(state.context.history)


def test_time_counts_only_while_somebody_drives_and_never_backwards() -> None:
    def at(seconds: float) -> datetime:
        return AT + timedelta(seconds=seconds)

    resumed = RunResumed(
        at=AT, fence=2, agent="a", agent_hash="h2", model="m2", mode="ask", cwd="/tmp"
    )
    state = folded([STARTED])
    assert state.driven_s == 0
    for entry, driven in [
        (ModelRequested(at=at(5), turn=1), 5),
        (msgspec.structs.replace(resumed, at=at(1000)), 5),
        (ModelRequested(at=at(1002), turn=1, attempt=2), 7),
        (msgspec.structs.replace(resumed, at=at(900)), 7),
        (InputAdded(at=at(890), message=PROMPT, by="user"), 7),
        (InputAdded(at=at(901), message=PROMPT, by="user"), 8),
    ]:
        state.apply(entry)
        assert state.driven_s == driven
    assert (state.resumed, state.agent_hash, state.model, state.mode, state.cwd) == (
        2,
        "h2",
        "m2",
        "ask",
        "/tmp",
    )


def test_what_comes_late_is_no_driving() -> None:
    state = folded(
        [STARTED, ToolLate(at=AT + timedelta(hours=3), call_id="c1", text="sent after all")]
    )
    assert state.driven_s == 0


def test_an_attempt_that_was_lost_counts_as_no_retry_and_no_answer_of_the_model() -> None:
    state = folded(
        [STARTED, ModelRequested(at=AT, turn=1), ModelRequested(at=AT, turn=1, attempt=2)]
    )
    assert (
        state.current.attempt,
        state.turn,
        state.spending.retries,
        state.spending.used_up,
        state.spending.invocations,
    ) == (
        2,
        1,
        0,
        {},
        0,
    )
    state.apply(
        ModelRequested(
            at=AT,
            turn=1,
            attempt=3,
            failed=ErrorInfo(kind="rate_limit", message="later", status=429),
        )
    )
    assert (
        state.current.attempt,
        state.spending.retries,
        sum(state.spending.used_up.values()),
        state.spending.invocations,
    ) == (
        3,
        1,
        1,
        1,
    )
    state.apply(
        ModelRequested(
            at=AT, turn=1, attempt=4, failed=ErrorInfo(kind="network", message="no line")
        )
    )
    assert (
        state.current.attempt,
        state.spending.retries,
        sum(state.spending.used_up.values()),
        state.spending.invocations,
    ) == (
        4,
        2,
        2,
        1,
    )


def test_an_end_counts_as_an_answer_of_the_model_only_where_its_attempt_failed() -> None:
    asked, failed = ModelRequested(at=AT, turn=1), ErrorInfo(kind="network", message="no line")
    end = RunFinished(
        at=AT,
        outcome=Outcome.ERROR,
        turns=0,
        tool_calls=0,
        usage=Usage(),
        duration_s=0,
        error=failed,
    )
    assert folded([STARTED, asked, end]).spending.used_up == {"m": 1}
    assert folded([STARTED, end]).spending.used_up == {}
    assert (
        folded(
            [STARTED, asked, msgspec.structs.replace(end, outcome=Outcome.CANCELLED, error=None)]
        ).spending.used_up
        == {}
    )


def test_the_limit_that_refused_a_call_and_a_question_that_was_answered_are_known() -> None:
    question = ApprovalAsked(at=AT, call_id="a", name="send", arguments_json="{}", reason="because")
    state = folded([*BEGUN, question, finished("b", status="error", cut_by=Outcome.CALL_LIMIT)])
    assert (state.cut_by, [*state.approvals.asked]) == (Outcome.CALL_LIMIT, ["a"])
    state.apply(finished("a"))
    assert (state.cut_by, state.approvals.asked) == (Outcome.CALL_LIMIT, {})


def test_before_its_first_entry_a_run_is_nothing_yet() -> None:
    state = RunState()
    assert (
        state.started,
        state.finished,
        state.seq,
        state.context.past,
        state.context.prompt_at,
        state.ready_at,
    ) == (None, None, 0, 0, 0, 0)
    assert (state.agent_hash, state.model, state.models.asked, state.cwd, state.mode) == (
        "",
        "",
        "",
        "",
        "full",
    )
    assert (
        state.spending.retries,
        state.spending.invocations,
        state.resumed,
        state.current.attempt,
        state.turn,
        state.driven_s,
    ) == (0, 0, 0, 0, 0, 0)
    assert (
        state.current.last,
        state.current.clamped,
        state.cut_by,
        state.current.response,
        state.current.calls,
        state.current.open_calls,
    ) == (None, None, None, None, (), [])
    assert (
        state.models.empty_responses,
        state.approvals.unapproved,
        state.current.repeated,
        state.text,
    ) == (
        0,
        False,
        None,
        "",
    )
    assert not any(
        [
            state.current.results,
            state.current.starts,
            state.approvals.asked,
            state.approvals.allowed,
            state.closed,
            state.models.carried,
        ]
    )
    assert not any(
        [state.unknown_calls, state.spending.used_up, state.spending.by_day, state.context.call_ids]
    )


def test_a_question_about_a_call_that_had_started_leaves_it_unknown() -> None:
    begun = ToolStarted(
        at=AT, call_id="a", name="send", arguments_json="{}", effect="once", key="k", attempt=1
    )
    questions = [
        ApprovalAsked(at=AT, call_id=call_id, name="send", arguments_json="{}", reason="because")
        for call_id in ("a", "b")
    ]
    assert folded([*BEGUN, begun, *questions]).unknown_calls == {"a"}


def test_the_limit_that_leaves_a_turn_fewer_tokens_is_known() -> None:
    state = folded([STARTED])
    for tokens, clamped_by, clamped in [
        (9, Outcome.COST_LIMIT, Outcome.COST_LIMIT),
        (9, None, Outcome.TOKEN_LIMIT),
        (None, None, None),
    ]:
        state.apply(ModelRequested(at=AT, turn=1, max_tokens=tokens, clamped_by=clamped_by))
        assert state.current.clamped is clamped


def test_the_limit_that_makes_a_turn_the_last_one_is_what_the_journal_says_or_else_what_the_counts_say() -> (
    None
):
    two_turns = msgspec.structs.replace(STARTED, limits=Limits(turns=2))
    for said, last in [(None, Outcome.TURN_LIMIT), (Outcome.TOKEN_LIMIT, Outcome.TOKEN_LIMIT)]:
        message = Message(id="msg_1", role="assistant", parts=(TextPart(text="so"),), created_at=AT)
        state = folded(
            [
                two_turns,
                ModelRequested(at=AT, turn=1),
                ModelResponded(
                    at=AT,
                    turn=1,
                    attempt=1,
                    message=message,
                    usage=Usage(),
                    stop_reason=StopReason.PAUSE,
                ),
            ]
        )
        assert state.current.last is None
        state.apply(ModelRequested(at=AT, turn=2, last=said))
        assert state.current.last is last
    state = folded([STARTED, ModelRequested(at=AT, turn=1, last=Outcome.COST_LIMIT)])
    assert state.current.last is Outcome.COST_LIMIT


def test_responses_that_say_nothing_are_counted_in_a_row_where_they_were_meant_to_be_the_answer() -> (
    None
):
    state, counts = folded([STARTED]), list[int]()
    for turn, (words, stop) in enumerate(
        [
            ("", "complete"),
            (" ", "complete"),
            ("", "pause"),
            ("", "tool_use"),
            ("so", "complete"),
            ("", "max_tokens"),
            ("", "complete"),
        ],
        1,
    ):
        message = Message(
            id=f"msg_{turn}",
            role="assistant",
            parts=(TextPart(text=words),) if words else (),
            created_at=AT,
        )
        state.apply(ModelRequested(at=AT, turn=turn))
        state.apply(
            ModelResponded(
                at=AT,
                turn=turn,
                attempt=1,
                message=message,
                usage=Usage(output_tokens=1),
                stop_reason=StopReason(stop),
            )
        )
        counts.append(state.models.empty_responses)
    assert counts == [1, 2, 0, 1, 0, 0, 1]
    assert [(one.responses, one.unpriced, one.usage) for one in state.spending.by_day.values()] == [
        (7, 7, Usage(output_tokens=7))
    ]
    assert (state.spending.invocations, state.spending.used_up) == (7, {"m": 7})


def test_whoever_takes_a_run_up_asks_the_model_that_it_had_come_to_or_its_own() -> None:
    def asked(model: str, asked: str | None = None) -> str:
        again = RunResumed(
            at=AT,
            fence=2,
            agent="a",
            agent_hash="h",
            model=model,
            asked=asked,
            mode="full",
            cwd="/",
        )
        return folded([STARTED, ModelSwitched(at=AT, model="second"), again]).models.asked

    assert (asked("m"), asked("other"), asked("m", "third"), asked("other", "third")) == (
        "second",
        "other",
        "third",
        "third",
    )


def test_a_response_that_was_cut_is_said_and_is_no_turn() -> None:
    words = Message(id="msg_c", role="assistant", parts=(TextPart(text="Half an"),), created_at=AT)
    cut = ModelResponded(at=AT, turn=1, attempt=1, message=words, usage=Usage(), stop_reason=None)
    state = folded([STARTED, ModelRequested(at=AT, turn=1), cut])
    assert (state.ledger.turns, state.turn, state.current.response, state.text, state.closed) == (
        0,
        1,
        None,
        "Half an",
        [],
    )


def test_what_the_provider_wants_back_is_carried_on() -> None:
    first = msgspec.structs.replace(RESPONDED, provider_data='{"container":"c1","x":1}')
    state = folded([STARTED, ModelRequested(at=AT, turn=1), first, finished("a"), finished("b")])
    state.apply(
        msgspec.structs.replace(
            RESPONDED, message=Message.assistant("done"), provider_data='{"x":2}'
        )
    )
    assert state.models.carried == {"container": "c1", "x": 2}


def test_what_one_provider_wants_back_is_not_sent_to_another() -> None:
    started, answered = (
        msgspec.structs.replace(STARTED, model="a:1"),
        msgspec.structs.replace(RESPONDED, provider_data='{"container":"c1"}'),
    )
    state = folded([started, ModelRequested(at=AT, turn=1), answered])
    state.apply(ModelSwitched(at=AT, model="a:2"))
    assert state.models.carried == {"container": "c1"}
    state.apply(ModelSwitched(at=AT, model="b:1"))
    assert state.models.carried == {}


def test_a_compaction_leaves_what_it_kept_and_all_that_is_the_runs_own() -> None:
    past = [
        Message(
            id=f"m{i}",
            role="user" if i % 2 == 0 else "assistant",
            parts=(TextPart(text=str(i)),),
            created_at=AT,
        )
        for i in range(6)
    ]
    receipt = WindowReceipt(pinned="m0", kept_from="m4", dropped=3).to_json().decode()
    state = folded([STARTED, Compaction(at=AT, receipt=receipt)], past)
    assert [message.id for message in state.context.history[:]] == ["m0", "m4", "m5", "msg_p"]
    assert (state.context.past, state.context.prompt_at, state.context.history.settled) == (3, 3, 3)
    assert state.text == ""
    check_state(state, [STARTED, Compaction(at=AT, receipt=receipt)])


def test_only_the_words_of_the_run_itself_are_its_text() -> None:
    past = [Message.user("before"), Message.assistant("said before")]
    first = msgspec.structs.replace(
        STARTED, messages=(Message.user("1+1?"), Message.assistant("2"))
    )
    state = folded([first], past)
    assert (state.context.prompt_at, state.text) == (4, "")


def test_input_is_counted_where_tokens_are_limited() -> None:
    limited = msgspec.structs.replace(STARTED, limits=Limits(tokens=1000))
    state = folded([limited])
    assert state.ledger.output_left(10_000, state.context.new_bytes()).tokens == 1000 - -(
        -len(encode_json(PROMPT)) // 3
    )
    assert folded([STARTED]).ledger.output_left(10_000).tokens == 10_000


# ---------------------------------------------------------------- forks


def two_turns() -> ScriptedModel:
    return ScriptedModel(
        [asks(call("look", "c1"), call("send", "c2"), text="Looking."), says("It is warm.")]
    )


TOOLS = gives("look", "sun"), gives("send", "sent")


async def test_a_fork_at_turn_zero_asks_anew_with_the_same_or_with_other_words() -> None:
    rt = open_runtime()
    origin = await rt.run(
        agent(two_turns(), *TOOLS, messages=[Message.user("1+1?"), Message.assistant("2")]),
        "Where is it warm?",
    )
    again = await rt.fork(origin.run_id, turn=0, agent=agent(two_turns(), *TOOLS))
    assert [message.text for message in again.messages] == [
        message.text for message in origin.messages
    ]
    other = await rt.fork(
        origin.run_id,
        turn=0,
        text="Where is it cold?",
        agent=agent(ScriptedModel([says("There.")])),
    )
    assert [message.text for message in other.messages] == [
        "1+1?",
        "2",
        "Where is it cold?",
        "There.",
    ]
    info = await rt.journal.info(other.run_id)
    assert (info.forked_from, info.prompt) == (origin.run_id, "Where is it cold?")


async def test_a_fork_in_the_middle_goes_on_where_the_other_stood_without_words_of_its_own() -> (
    None
):
    rt = open_runtime()
    origin = await rt.run(agent(two_turns(), *TOOLS), "Where is it warm?")
    model = PlayedModel(text("Nowhere."))
    fork = await rt.fork(origin.run_id, turn=1, agent=agent(model, *TOOLS))
    assert fork.messages[:3] == origin.messages[:3]
    assert [message.text for message in fork.new_messages] == ["Nowhere."]
    assert model.histories == [origin.messages[:3]]
    assert fork.outcome == "completed"


async def test_a_fork_with_another_result_changes_that_one_and_leaves_the_other_run_as_it_was() -> (
    None
):
    rt = open_runtime()
    origin = await rt.run(agent(two_turns(), *TOOLS), "Where is it warm?")
    fork = await rt.fork(
        origin.run_id,
        turn=1,
        agent=agent(ScriptedModel([says("Take a coat.")])),
        results={"c1": "snow"},
    )
    assert [result.text for result in fork.messages[2].tool_results] == ["snow", "sent"]
    assert [result.text for result in origin.messages[2].tool_results] == ["sun", "sent"]
    assert (await rt.replay(origin.run_id)).messages == origin.messages
    grandchild = await rt.fork(
        fork.run_id, turn=0, text="And now?", agent=agent(ScriptedModel([says("Still snow.")]))
    )
    assert [result.text for result in grandchild.messages[2].tool_results] == ["snow", "sent"]


async def test_a_fork_with_another_model_and_agent_keeps_what_was_said() -> None:
    rt = open_runtime()
    origin = await rt.run(agent(two_turns(), *TOOLS), "Where is it warm?")
    fork = await rt.fork(
        origin.run_id,
        turn=2,
        text="Sure?",
        model=ScriptedModel([says("Yes.")], name="script:other"),
    )
    assert [message.text for message in fork.messages if message.text] == [
        "Where is it warm?",
        "Looking.",
        "It is warm.",
        "Sure?",
        "Yes.",
    ]
    assert (await rt.journal.info(fork.run_id)).model == "script:other"


@pytest.mark.parametrize(
    ("turn", "options", "words"),
    [
        (3, {}, "has 2 turns: fork it after one of 0 to 2, not after 3"),
        (-1, {}, "fork it after one of 0 to 2, not after -1"),
        (2, {}, "was its final answer: pass a prompt to continue from it"),
        (1, {"text": ""}, "the prompt is empty"),
        (1, {"limit": 3}, "has no option 'limit'"),
        (1, {"results": {"c9": "x"}}, "turn 1 of run .* has no call 'c9'; its calls are: c1, c2"),
        (
            2,
            {"text": "?", "results": {"c1": "x"}},
            "turn 2 of run .* has no call 'c1'; it has none",
        ),
        (0, {"results": {"c1": "x"}}, "turn 0 of run .* has no call 'c1'; it has none"),
    ],
)
async def test_a_fork_that_cannot_be_is_said_before_it_begins(
    turn: int, options: dict[str, Any], words: str
) -> None:
    rt = open_runtime()
    origin = await rt.run(agent(two_turns(), *TOOLS), "Where is it warm?", session="s")
    with pytest.raises(AgentError, match=words) as caught:
        await rt.fork(origin.run_id, turn=turn, **options)
    assert caught.value.kind == "invalid"
    assert len(await rt.journal.runs()) == 1
    assert [session.id for session in rt.sessions.list()] == ["s"], (
        "what could not begin leaves no session behind"
    )


async def test_a_fork_of_a_run_in_a_session_is_a_conversation_of_its_own() -> None:
    rt = open_runtime()
    session = rt.session("s", agent=agent(ScriptedModel([says("one"), says("two"), says("three")])))
    await session.send("first")
    origin = await session.send("second")
    fork = await rt.fork(
        origin.run_id, turn=0, text="other", agent=agent(ScriptedModel([says("another")]))
    )
    assert [message.text for message in fork.messages] == ["first", "one", "other", "another"]
    assert fork.session_id not in (None, "s")
    assert await rt.messages(str(fork.session_id)) == fork.messages
    assert [message.text for message in await session.history()] == [
        "first",
        "one",
        "second",
        "two",
    ]
    await session.send("third")
    same(await rt.replay(fork.run_id), fork)
    titles = {one.id: one.title for one in rt.sessions.list()}
    assert titles == {"s": "first", str(fork.session_id): "first (fork)"}


async def test_a_fork_inside_a_turn_that_was_never_closed_says_what_is_not_known() -> None:
    rt, other = open_runtime(), open_runtime()
    origin = await rt.run(agent(two_turns(), *TOOLS), "Where is it warm?")
    data = await rt.journal.read_bytes(origin.run_id)
    closes = next(i for i, one in enumerate(data) if b'"tool.finished"' in one) + 1
    await other.journal.add_run(data[:closes])
    fork = await other.fork(
        origin.run_id, turn=1, text="What now?", agent=agent(ScriptedModel([says("Let me see.")]))
    )
    first, second = fork.messages[2].tool_results
    assert (first.text, first.unknown) == ("sun", False)
    assert (second.text, second.unknown) == (NO_RESULT, True)
    check_history(fork.messages)
    same(await other.replay(fork.run_id), fork)


async def test_a_fork_inside_such_a_turn_may_be_told_what_the_call_gave() -> None:
    rt, other = open_runtime(), open_runtime()
    origin = await rt.run(agent(two_turns(), *TOOLS), "Where is it warm?")
    data = await rt.journal.read_bytes(origin.run_id)
    await other.journal.add_run(
        data[: next(i for i, one in enumerate(data) if b'"tool.finished"' in one)]
    )
    fork = await other.fork(
        origin.run_id,
        turn=1,
        agent=agent(ScriptedModel([says("So it is.")]), *TOOLS),
        results={"c2": "it was sent"},
    )
    first, second = fork.messages[2].tool_results
    assert (first.unknown, second.text, second.unknown, second.is_error) == (
        True,
        "it was sent",
        False,
        False,
    )
    same(await other.replay(fork.run_id), fork)


async def test_what_a_fork_is_not_told_is_as_the_other_run_had_it(tmp_path: Path) -> None:
    rt = open_runtime()
    limits, options = Limits(turns=7, tool_calls=3), Settings(temperature=0.5, max_tokens=900)
    one = agent(
        ScriptedModel([says("one"), says("two"), says("three")]), instructions="Ask ${who}."
    )
    asked: dict[str, Any] = {
        "inputs": {"who": "Ada"},
        "settings": options,
        "limits": limits,
        "mode": "plan",
        "cwd": tmp_path,
        "user_id": "ada",
    }
    origin = await rt.run(one, "go", on_ask="wait", on_unknown="fail", **asked)

    async def started(run_id: str) -> RunStarted:
        (first, *_) = await entries_of(rt, run_id)
        assert isinstance(first, RunStarted)
        return first

    before, after = (
        await started(origin.run_id),
        await started((await rt.fork(origin.run_id, turn=1, text="And?")).run_id),
    )
    for name in (
        "agent",
        "agent_hash",
        "model",
        "mode",
        "cwd",
        "settings",
        "limits",
        "inputs",
        "user_id",
        "on_ask",
        "on_unknown",
    ):
        assert getattr(after, name) == getattr(before, name), name
    changed = await rt.fork(
        origin.run_id,
        turn=1,
        text="And?",
        limits=Limits(turns=2),
        settings=Settings(temperature=0.1),
        inputs={"who": "Eve"},
    )
    last = await started(changed.run_id)
    assert (last.limits, last.settings) == (
        Limits(turns=2, tool_calls=3),
        Settings(temperature=0.1, max_tokens=900),
    )
    assert last.inputs == '{"who":"Eve"}'


async def test_a_fork_reads_what_it_goes_on_from_and_copies_nothing() -> None:
    rt = open_runtime()
    origin = await rt.run(agent(two_turns(), *TOOLS), "Where is it warm?")
    fork = await rt.fork(
        origin.run_id, turn=2, text="Sure?", agent=agent(ScriptedModel([says("Yes.")]))
    )
    (started, *others) = await entries_of(rt, fork.run_id)
    assert isinstance(started, RunStarted)
    assert started.fork == Fork(
        run_id=origin.run_id, turn=2, seq=(await rt.journal.load(origin.run_id)).closed[1]
    )
    assert b"It is warm." not in b"".join(entry.to_json() for entry in others)


async def test_what_failed_can_be_forked_before_it_failed() -> None:
    rt = open_runtime()
    origin = await rt.run(
        agent(ScriptedModel([asks(call("look", "c1")), fails("auth", status=401)]), *TOOLS), "go"
    )
    assert origin.outcome is Outcome.ERROR
    fork = await rt.fork(origin.run_id, turn=1, agent=agent(ScriptedModel([says("done")]), *TOOLS))
    assert (fork.outcome, fork.text) == ("completed", "done")
    check_history(fork.messages)
