"""A conversation that was made smaller: valid, and the same whenever and wherever its receipts are
folded again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.doubles import check_history
from tests.journal.runs import answers, asks, finished, gives, started, steers
from tests.journal.test_run_state import check_state
from treadle._internal.json_text import encode_json
from treadle.cli.story import Note, Story
from treadle.context.shortening import HEAD_CHARS, last_turn, long_results, newest, old_results
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.entries import Compaction, Entry, Record, RunStarted
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.receipts import (
    AGAIN,
    LINES,
    RAN,
    TOO_LONG,
    Cleared,
    Cut,
    Receipt,
    Summary,
    SummaryCost,
    folded,
    read_receipt,
)
from treadle.journal.run_state import RunState
from treadle.journal.window import WindowReceipt, first_words, window
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from treadle.messages.size import BYTES_PER_TOKEN, MESSAGE_TOKENS, size_of
from treadle.messages.todos import Todo, in_one_line, standing
from treadle.types import Usage

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)
PNG = MediaPart(media_type="image/png", data="iVBORw0KGgo=")
SPENT = SummaryCost(model="small", usage=Usage(input_tokens=100, output_tokens=10), cost_usd=0.5)


def result(content: Any, call_id: str = "c", name: str = "read", **more: Any) -> ToolResult:
    return ToolResult(call_id=call_id, name=name, content=content, **more)


def turn(call_id: str, content: Any, name: str = "read") -> list[Message]:
    asked = Message(
        id=f"a_{call_id}", role="assistant", parts=(ToolCall(id=call_id, name=name),), created_at=AT
    )
    return [
        asked,
        Message(
            id=f"r_{call_id}", role="tool", parts=(result(content, call_id, name),), created_at=AT
        ),
    ]


def summary_message(number: object, text: str = "So far.") -> Message:
    return Message(id=f"summary_{number}", role="user", parts=(TextPart(text=text),), created_at=AT)


# ---------------------------------------------------------------- any conversation


class Talk:
    """Runs of one session as their entries, with a receipt wherever a draw wants one."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw, self._numbers = draw, count()
        self.runs: list[list[Entry]] = []
        self.view: list[Message] = []

    def run(self) -> RunState:
        name = f"run_{len(self.runs)}"
        state = RunState(self.view)
        entries: list[Entry] = []

        def add(*more: Entry) -> None:
            for entry in more:
                entries.append(entry)
                state.apply(entry)
                check_state_of(state, entries, self.view)

        add(replace(started(name, name, session="s"), past=len(self.view)))
        if (cut := window(self.view, 8)) is not None:
            add(Compaction(at=AT, receipt=cut.to_json().decode()))
        for n in range(1, self._draw(st.integers(0, 4)) + 1):
            calls = [f"{name}_{n}_{i}" for i in range(self._draw(st.integers(0, 2)))]
            add(
                *asks(
                    n,
                    *calls,
                    text=f"{name} turn {n}",
                    effect=self._draw(st.sampled_from(["once", "pure"])),
                    minute=next(self._numbers),
                )
            )
            add(*(gives(call, "x" * self._draw(st.sampled_from([3, 2000]))) for call in calls))
            if self._draw(st.booleans()):
                add(steers(f"{name} more {n} {next(self._numbers)}"))
            for _ in range(self._draw(st.integers(0, 2))):
                add(Compaction(at=AT, receipt=encode_json(self._receipt(state)).decode()))
        add(finished())
        self.runs.append(entries)
        self.view = state.context.history[:]
        return state

    def _receipt(self, state: RunState) -> Receipt:
        messages = state.context.history[:]
        if self._draw(st.booleans()):
            ids = [one.call_id for message in messages for one in message.tool_results]
            chosen: list[str] = (
                self._draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
            )
            cuts = tuple(
                Cut(
                    call_id=call,
                    line=self._draw(st.integers(-1, 4)),
                    kept=self._draw(st.integers(-1, 5)),
                )
                for call in chosen
            )
            return Cleared(cuts=cuts, tokens_before=9, tokens_after=5)
        starts = [i for i, message in enumerate(messages) if message.role != "tool"]
        start: int = self._draw(st.sampled_from(starts))
        stay = {
            one.id
            for one in (first_words(messages), messages[state.context.prompt_at])
            if one is not None and not one.tool_calls and one.role == "user"
        }
        pinned = tuple(message.id for message in messages[:start] if message.id in stay)
        return Summary(
            pinned=pinned,
            kept_from=messages[start].id,
            dropped=start - len(pinned),
            message=summary_message(next(self._numbers)),
            spent=SPENT,
            tokens_after=7,
        )


def check_state_of(state: RunState, entries: Sequence[Entry], past: Sequence[Message]) -> None:
    """Whatever was cut, wherever a kill comes. `past`: what the run found."""
    if not any(isinstance(entry, Compaction) and '"summary"' in entry.receipt for entry in entries):
        check_state(state, entries)  # what a summary spent is no turn
    closed = state.context.history[: len(state.context.history) - bool(state.current.open_calls)]
    check_history(closed)
    again = RunState(past)
    for entry in entries:
        again.apply(entry)
    assert again.context.history[:] == state.context.history[:] == folded(past, state.context.said)
    assert (
        again.context.past,
        again.context.prompt_at,
        again.context.history.settled,
        again.context.measured,
    ) == (
        state.context.past,
        state.context.prompt_at,
        state.context.history.settled,
        state.context.measured,
    )
    found = {message.id for message in past}
    before = [
        message
        for message in state.context.history[: state.context.history.settled]
        if not message.id.startswith("summary_")
    ]
    after = [
        message
        for message in state.context.history[state.context.history.settled :]
        if not message.id.startswith("summary_")
    ]
    assert all(message.id in found for message in before), (
        "reasoning of this run goes back to its provider"
    )
    assert not any(message.id in found for message in after), "reasoning of ended runs does not"
    assert state.context.past == state.context.history.settled
    assert (
        state.context.history[state.context.prompt_at].id == f"msg_{state.started.run_id}"
        if state.started
        else True
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_conversation_is_the_same_in_every_store_whatever_was_cut_in_it(
    data: st.DataObject,
) -> None:
    talk = Talk(data.draw)
    states: list[RunState] = []
    for _ in range(data.draw(st.integers(1, 6))):
        states.append(talk.run())

    async def holds() -> None:
        with tempfile.TemporaryDirectory() as folder:
            disk = open_journal(f"sqlite:///{folder}/j.db")
            memory = MemoryJournal()
            try:
                for entries, state in zip(talk.runs, states, strict=True):
                    for journal in (disk, memory):
                        first = entries[0]
                        assert isinstance(first, RunStarted)
                        await (await journal.begin(first)).append(entries[1:])
                        journal.sessions.remember("s", state.context.said, run_id=first.run_id)
                        assert [*journal.sessions.get_messages("s")] == state.context.history[:]
                        (info,) = journal.sessions.list()
                        assert info.message_count == len(state.context.history)
                for state in states:
                    run_id = state.started.run_id if state.started else ""
                    for journal in (disk, memory):
                        assert (await journal.load(run_id)).context.history[
                            :
                        ] == state.context.history[:]
                assert {hit.excerpt for hit in disk.sessions.search("turn", limit=99)} == {
                    hit.excerpt for hit in memory.sessions.search("turn", limit=99)
                }
            finally:
                await disk.aclose()

    anyio.run(holds)


@pytest.mark.parametrize(
    ("part", "size"),
    [
        (TextPart(text="abc"), (3, 0)),
        (TextPart(text="aß€"), (6, 0)),
        (ReasoningPart(text="abcd"), (4, 0)),
        (ToolCall(id="c", name="look", arguments_json='{"a":1}'), (4 + 7, 0)),
        (result("12345"), (5, 0)),
        (result((TextPart(text="1234"), PNG, PNG)), (4, 2)),
        (ProviderPart(provider="p", data='{"x":2}'), (7, 0)),
        (PNG, (0, 1)),
    ],
)
def test_a_message_is_as_large_as_what_its_parts_hold_and_what_stands_around_it(
    part: Part, size: tuple[int, int]
) -> None:
    message = Message(id="m", role="user", parts=(part, part), created_at=AT)
    assert size_of([message, message]) == (
        2 * (MESSAGE_TOKENS * BYTES_PER_TOKEN + 2 * size[0]),
        4 * size[1],
    )


# ---------------------------------------------------------------- what is cleared


def test_of_a_cleared_result_a_line_says_what_was_there_and_how_to_have_it_again() -> None:
    messages = turn("c", "x" * 12_345)
    (cut,) = old_results(messages, {"c"}.__contains__)
    (_, shortened) = Cleared(cuts=(cut,)).of(messages)
    assert (
        shortened.tool_results[0].text
        == "[Result of read removed to save context, 12,345 characters. Repeat the call if you need it.]"
    )
    assert (shortened.id, shortened.role) == ("r_c", "tool")


def test_of_a_call_that_must_not_happen_again_the_beginning_stays() -> None:
    messages = turn("c", "charged 12 EUR, receipt 4711\n" + "x" * 9_000, name="charge")
    (cut,) = old_results(messages, set[str]().__contains__)
    text = Cleared(cuts=(cut,)).of(messages)[1].tool_results[0].text
    assert text.startswith("charged 12 EUR, receipt 4711\n")
    assert "The call has run: repeat it only if it should happen again" in text
    assert len(text) < 2 * HEAD_CHARS
    assert old_results(Cleared(cuts=(cut,)).of(messages), set[str]().__contains__) == (), (
        "a second time brings nothing"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ((PNG,), "1 image or file"),
        ((TextPart(text="a" * 900), PNG, PNG), "900 characters and 2 images or files"),
    ],
)
def test_images_are_cleared_too(content: Any, said: str) -> None:
    messages = turn("c", content)
    (cut,) = old_results(messages, {"c"}.__contains__)
    (shortened,) = Cleared(cuts=(cut,)).of(messages)[1].tool_results
    assert isinstance(shortened.content, str)
    assert f"[Result of read removed to save context, {said}." in shortened.text


def test_a_failure_stays_one_when_its_words_are_cleared() -> None:
    messages = turn("c", "x" * 5000)
    messages[1] = messages[1].with_parts([result("x" * 5000, "c", is_error=True)])
    (cut,) = old_results(messages, {"c"}.__contains__)
    assert Cleared(cuts=(cut,)).of(messages)[1].tool_results[0].is_error


def test_what_is_short_stays_and_so_does_what_nobody_knows() -> None:
    short, unknown = turn("c", "ok"), turn("d", "x" * 5000)
    unknown[1] = unknown[1].with_parts([result("x" * 5000, "d", unknown=True, is_error=True)])
    assert old_results([*short, *unknown], {"c", "d"}.__contains__) == ()


@pytest.mark.parametrize("results", [1, 2, 5])
def test_results_that_are_too_long_have_the_room_together(results: int) -> None:
    messages = [message for i in range(results) for message in turn(f"c{i}", "x" * 90_000)]
    cuts = long_results(messages, 10_000)
    assert [(cut.line, cut.kept) for cut in cuts] == [
        (TOO_LONG, 30_000 // results - len(LINES[TOO_LONG]))
    ] * results
    assert 9_500 < size_of(Cleared(cuts=cuts).of(messages)).tokens < 10_500


def test_the_lines_are_in_the_receipt_as_they_were_written() -> None:
    old = Cleared(cuts=(Cut(call_id="c", line=0),), lines=("[{name}: {size} gone {call_id}]",))
    assert read_receipt(encode_json(old).decode()) == old
    assert (
        old.of(turn("c", "four"))[1].tool_results[0].text == "[read: 4 characters gone {call_id}]"
    )
    assert LINES[AGAIN] in encode_json(Cleared()).decode()
    assert len(LINES) == TOO_LONG + 1 == RAN + 2


@pytest.mark.parametrize("line", ["x" * 10_000, "{name}" * 10_000, "{size}{name}{kind}" * 10_000])
def test_a_line_of_a_receipt_is_short_whatever_a_file_says(line: str) -> None:
    """A line of 16 MiB in an export, for each of 100,000 results, takes all memory."""
    messages = [
        *turn("c", "y" * 100, name="n" * 10_000),
        *turn("d", (replace(PNG, name="n" * 10_000),)),
    ]
    receipt = Cleared(
        cuts=(Cut(call_id="c", line=0, kept=10),),
        lines=(line,),
        unseen=("r_d",),
        unseen_line=line,
    )
    assert max(len(one.text) for each in receipt.of(messages) for one in each.tool_results) < 520


def test_a_receipt_of_another_kind_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        AgentError, match="kind 'pruned' is unknown: if a newer Treadle wrote it, upgrade"
    ):
        read_receipt('{"kind":"pruned"}')
    with pytest.raises(AgentError, match="cannot be read"):
        read_receipt('{"kind":"summary"}')
    assert read_receipt('{"pinned":"a","kept_from":"b","dropped":3}') == WindowReceipt(
        pinned="a", kept_from="b", dropped=3
    ), "as it was written at first"


# ---------------------------------------------------------------- what stays


SHAPES = [
    [Message.user("a")],
    [Message.user("a"), *turn("c", "x" * 3000)],
    [Message.user("a"), *turn("c", "x" * 3000), *turn("d", "y"), Message.user("b")],
]


@pytest.mark.parametrize("messages", SHAPES)
def test_the_newest_turns_are_whole_and_the_last_one_is_among_them(messages: list[Message]) -> None:
    for tokens in (*range(1_100), 100_000):
        start = newest(messages, tokens)
        assert start < len(messages)
        assert messages[start].role != "tool"
        check_history(messages[start:])
        assert start <= last_turn(messages)
        assert size_of(messages[start:]).tokens <= tokens or start == last_turn(messages)
        # each rounded up
        more = sum(size_of([message]).tokens for message in messages[start - 1 :])
        assert start == 0 or more > tokens or messages[start - 1].role == "tool"


def test_results_that_the_model_has_not_read_belong_to_the_last_turn() -> None:
    asked, said = Message.user("a"), Message.assistant("done")
    calls = turn("c", "x")
    assert [
        last_turn(one)
        for one in (
            [],
            [asked],
            [asked, *calls],
            [asked, *calls, asked],
            [asked, *calls, said],
            [asked, *calls, said, asked],
        )
    ] == [
        0,
        0,
        1,
        1,
        3,
        4,
    ]


def test_the_to_do_list_stands_on_in_a_summary() -> None:
    todos = (
        Todo(content='Say {"todos":[]}\nin two lines', status="in_progress"),
        Todo(content="Rest", status="pending"),
    )
    told = summary_message(1, f"So far.\n\n{in_one_line(todos)}")
    assert standing([Message.user("go"), told]) == todos
    assert standing([told, summary_message(2, "without")]) == todos, (
        "one that says nothing of it leaves it"
    )
    assert standing([Message.user(in_one_line(todos))]) == (), "only a summary speaks for it"


def test_a_window_keeps_the_summary_of_what_had_left_before() -> None:
    talk = [m for i in range(60) for m in (Message.user(f"q{i}"), Message.assistant(f"a{i}"))]
    messages = [talk[0], summary_message(1), *talk[1:]]
    cut = window(messages)
    assert cut is not None
    kept = cut.of(messages)
    assert kept[:2] == messages[:2]
    assert kept[2].role == "user"
    assert kept[2:] == messages[-len(kept[2:]) :]
    assert cut.dropped == len(messages) - len(kept)


async def test_what_a_summary_took_is_in_the_runs_sums_also_where_it_was_of_no_use() -> None:
    entries: list[Entry] = [started(), *answers("run_1", "hi")]
    entries.append(
        Compaction(at=AT, receipt=encode_json(Cleared(spent=SPENT, failed="it gave none")).decode())
    )
    state = RunState()
    for entry in entries:
        state.apply(entry)
    assert (state.ledger.usage.input_tokens, state.ledger.cost_usd, state.ledger.turns) == (
        110,
        0.5,
        1,
    )
    assert {(day, model): one.cost_usd for (day, model), one in state.spending.by_day.items()} == {
        ("2026-11-20", "m"): None,
        ("2026-11-20", "small"): 0.5,
    }
    assert state.spending.used_up["small"] == 1


def test_a_person_reads_what_became_of_the_conversation() -> None:
    receipts = [
        Cleared(cuts=(Cut(call_id="c"),), tokens_before=9000, tokens_after=4000),
        Cleared(cuts=(), failed="small: no key", tokens_before=9, tokens_after=9),
        Summary(
            pinned=("a",),
            kept_from="b",
            dropped=12,
            message=summary_message(1),
            spent=SPENT,
            tokens_before=9000,
            tokens_after=4000,
        ),
    ]
    texts = [encode_json(receipt).decode() for receipt in receipts] + ['{"kind":"pruned"}']
    entries = [started(), *(Compaction(at=AT, receipt=text) for text in texts)]
    story = Story.of([Record(seq=seq, entry=entry) for seq, entry in enumerate(entries, 1)])
    assert [item.text for item in story.items if isinstance(item, Note)] == [
        "1 old result cleared to make room (about 9,000 tokens before, 4,000 after)",
        "0 old results cleared to make room (about 9 tokens before, 9 after); no summary could be made: small: no key",
        "12 older messages of the conversation summarised by small (about 9,000 tokens before, 4,000 after)",
        "older messages left the model's view",
    ]
