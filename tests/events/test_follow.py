"""A run is followed from any process: each durable event once, in order, whatever happens
meanwhile; what is in no journal only while it is true.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.database.postgres import postgres_server, postgres_url
from treadle import Agent, AgentError, Runtime, ToolContext, tool
from treadle._internal.json_text import encode_json
from treadle._internal.redaction import Redactor
from treadle._internal.secret_patterns import MASK
from treadle.config import load
from treadle.events.feed import Feed
from treadle.events.follow import Follow
from treadle.events.hub import Hub
from treadle.events.live_deltas import PAYLOAD_MOST, DeltaPlace, Heard, Relay
from treadle.journal.entries import (
    Entry,
    ModelRequested,
    Record,
    RunFinished,
    RunResumed,
    RunStarted,
)
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.notifier import delta_topic
from treadle.messages.events import (
    Event,
    MessageAdded,
    ReasoningEnd,
    ReasoningStart,
    RunEnd,
    TextDelta,
    ToolProgress,
    TurnStart,
)
from treadle.messages.events import ReasoningDelta as Thought
from treadle.messages.message import Message
from treadle.models.model import Delta, ModelRequest, ReasoningDelta, ResponseEnd, TextStart
from treadle.models.model import TextDelta as Said
from treadle.models.retry import ModelAttempt
from treadle.testing import ScriptedModel
from treadle.types import Outcome, StopReason, Usage, now

pytestmark = pytest.mark.anyio
RUN = "run_followed"
__all__ = ["postgres_server", "postgres_url"]
SECRET = "very-secret-value-1234"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.db"
    return request.getfixturevalue("postgres_url")


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


@tool(effect="pure")
def look(at: int = 0) -> str:
    """Looks."""
    return f"seen {at}"


def agent(*script: dict[str, Any], **more: Any) -> Agent[Any, Any]:
    return Agent(name="looker", model=ScriptedModel(script), tools=[look], **more)


def key(event: Event) -> tuple[Any, ...]:
    """All but its number and its time, which are of the telling."""
    return tuple(
        (name, getattr(event, name))
        for name in event.__struct_fields__
        if name not in ("seq", "at")
    )


def durable(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    return [key(event) for event in events if isinstance(event.id, str)]


async def all_of(follow: Follow) -> list[Event]:
    async with follow as events:
        return [event async for event in events]


async def in_journal(runtime: Runtime, run_id: str = RUN) -> None:
    with anyio.fail_after(10):
        while True:
            try:
                await runtime.journal.info(run_id)
                return
            except AgentError:
                await anyio.sleep(0.01)


# ---------------------------------------------------------------- what is durable


async def test_whoever_follows_gets_what_the_journal_has_and_ends_after_the_end(url: str) -> None:
    seen: list[list[Event]] = []
    async with Runtime.open(url) as runtime, anyio.create_task_group() as group:
        script = [calls("look", at=number) for number in range(5)]

        async def follow() -> None:
            await in_journal(runtime)
            seen.append(await all_of(runtime.follow(RUN)))

        for _ in range(3):
            group.start_soon(follow)
        await runtime.run(agent(*script, {"text": "Done."}), "go", run_id=RUN)
        whole = await runtime.events(RUN)
        seen.append(await all_of(runtime.follow(RUN)))
        while len(seen) < 4:
            await anyio.sleep(0.01)
        for events in seen:
            assert durable(events) == durable(whole)
            assert [event.seq for event in events] == [*range(1, len(events) + 1)]
            assert isinstance(events[-1], RunEnd)


async def test_following_goes_on_behind_any_event(url: str) -> None:
    async with Runtime.open(url) as runtime:
        await runtime.run(agent(calls("look"), {"text": "Done."}), "go", run_id=RUN)
        whole = await runtime.events(RUN)
        for at, event in enumerate(whole):
            assert isinstance(event.id, str)
            assert durable(await all_of(runtime.follow(RUN, after=event.id))) == durable(
                whole[at + 1 :]
            )
        entry = str(whole[3].id).partition(".")[0]
        behind = [event for event in whole if int(str(event.id).partition(".")[0]) > int(entry)]
        assert durable(await all_of(runtime.follow(RUN, after=entry))) == durable(behind)
        assert durable(await all_of(runtime.follow(RUN, after="0"))) == durable(whole)


async def test_what_cannot_be_followed_is_said(url: str) -> None:
    async with Runtime.open(url) as runtime:
        with pytest.raises(AgentError, match="not an event id") as raised:
            runtime.follow(RUN, after="1.x")
        assert raised.value.kind == "invalid"
        for run_id, after in (("run_nobody", None), (RUN, "99.0")):
            if run_id == RUN:
                await runtime.run(agent({"text": "Done."}), "go", run_id=RUN)
            with pytest.raises(AgentError) as raised:
                await all_of(runtime.follow(run_id, after=after))
            assert raised.value.kind == "invalid"


async def test_a_follower_waits_with_a_run_that_waits_for_a_person(url: str) -> None:
    @tool(effect="pure", needs_approval=True)
    def launch() -> str:
        """Launches it."""
        return "launched"

    rocket = Agent(
        name="rocket", model=ScriptedModel([calls("launch"), {"text": "Up."}]), tools=[launch]
    )
    seen: list[Event] = []
    async with Runtime.open(url) as runtime, anyio.create_task_group() as group:
        waiting = await runtime.run(rocket, "go", run_id=RUN, on_ask="wait")
        assert waiting.waiting
        asked = anyio.Event()

        async def follow() -> None:
            async with runtime.follow(RUN) as events:
                async for event in events:
                    seen.append(event)
                    if type(event).__name__ == "ApprovalRequested":
                        asked.set()

        group.start_soon(follow)
        await asked.wait()
        (call_id,) = (await runtime.journal.load(RUN)).approvals.asked
        await runtime.resume(RUN, rocket, approve=[call_id])
    async with Runtime.open(url) as runtime:
        if url != "memory:":
            assert durable(seen) == durable(await runtime.events(RUN))
    assert isinstance(seen[-1], RunEnd)
    assert [type(event).__name__ for event in seen].count("RunStart") == 2


async def test_no_event_holds_a_known_secret() -> None:
    journal = MemoryJournal()
    await _journaled(journal, [_finished(f"the key is {SECRET}")])
    (*_, end) = await all_of(Follow(journal, RUN, lambda: Redactor([SECRET])))
    assert isinstance(end, RunEnd)
    assert end.text == f"the key is {MASK}"


def _finished(text: str = "") -> RunFinished:
    return RunFinished(
        at=now(),
        outcome=Outcome.COMPLETED,
        turns=1,
        tool_calls=0,
        usage=Usage(),
        duration_s=0.0,
        text=text,
        output="null",
        validated=False,
    )


def _started() -> RunStarted:
    return RunStarted(
        at=now(),
        run_id=RUN,
        agent="a",
        agent_hash="",
        model="m",
        mode="full",
        cwd="/",
        input=Message.user("go"),
    )


async def _journaled(journal: Any, entries: Sequence[Entry]) -> Any:
    writer = await journal.begin(_started())
    if entries:
        await writer.append(entries)
    return writer


async def test_a_notice_that_is_lost_costs_the_poll_time_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody is ever told anything: the entries are found all the same."""

    def tell(self: object, topic: str, payload: bytes = b"") -> None: ...

    monkeypatch.setattr("treadle.journal.memory.notifier.LocalNotifier.tell", tell)
    journal = MemoryJournal()
    journal.notifier._poll_s = 0.01  # pyright: ignore[reportPrivateUsage]  a test need not wait for a second
    writer = await _journaled(journal, [])
    async with Follow(journal, RUN, Redactor) as events:
        first = await anext(events)
        await writer.append([_finished()])
        rest = [event async for event in events]
    assert [first.id, *(event.id for event in rest)] == ["1.0", "2.0"]


async def test_only_new_records_are_read_each_time() -> None:
    journal, read = MemoryJournal(), list[int]()
    writer = await _journaled(journal, [])
    plain_read = journal.read

    async def counted(run_id: str, *, after: int = 0) -> list[Record]:
        found = await plain_read(run_id, after=after)
        read.append(len(found))
        return found

    journal.read = counted
    async with Follow(journal, RUN, Redactor) as events:
        await anext(events)
        for number in range(1, 50):
            await writer.append([ModelRequested(at=now(), turn=number, attempt=1)])
            await anext(events)
            if number > 1:  # the end of the turn before
                await anext(events)
    assert max(read) == 1
    assert sum(read) == 50


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_interleaving_of_appends_and_reads_gives_each_event_once(data: st.DataObject) -> None:
    anyio.run(partial(_interleaved, data))


async def _interleaved(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), max_size=8))
    entries: list[list[Entry]] = []
    turn = 0
    for size in sizes:
        batch: list[Entry] = []
        for _ in range(size):
            turn += 1
            batch.append(ModelRequested(at=now(), turn=turn, attempt=1))
        entries.append(batch)
    entries.append([_finished("Done.")])
    journal = MemoryJournal()
    writer = await _journaled(journal, [])
    before = data.draw(st.integers(0, len(entries)))
    for batch in entries[:before]:
        await writer.append(batch)
    expected = [str(event.id) for event in await _whole(entries)]
    had = [
        event_id
        for event_id in expected
        if int(event_id.partition(".")[0]) <= 1 + sum(map(len, entries[:before]))
    ]
    after = data.draw(st.sampled_from([None, *had]))
    seen: list[str] = []

    async def follow() -> None:
        async with Follow(journal, RUN, Redactor, after=after) as events:
            async for event in events:
                seen.append(str(event.id))
                if data.draw(st.booleans()):
                    await anyio.lowlevel.checkpoint()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            for batch in entries[before:]:
                for _ in range(data.draw(st.integers(0, 3))):
                    await anyio.lowlevel.checkpoint()
                await writer.append(batch)
    assert seen == (expected if after is None else expected[expected.index(after) + 1 :])


async def _whole(entries: Sequence[Sequence[Entry]]) -> list[Event]:
    journal = MemoryJournal()
    writer = await _journaled(journal, [])
    for batch in entries:
        await writer.append(batch)
    return await all_of(Follow(journal, RUN, Redactor))


# ---------------------------------------------------------------- from another process

DRIVER = """
import sys, anyio
from treadle import Agent, Runtime, tool
from treadle.journal import open_journal
from treadle.models.model import ResponseEnd, TextDelta
from treadle.testing import ScriptedModel
from treadle.types import StopReason, Usage
url, script, run_id, how = sys.argv[1:]
import json
@tool(effect="pure")
def look(at: int = 0) -> str:
    "Looks."
    return f"seen {at}"
class Talker:
    name, refuses = "test:talker", frozenset()
    async def stream(self, request):
        for number in range(60):
            yield TextDelta(f"word {number} ")
            await anyio.sleep(0.05)
        yield ResponseEnd(StopReason.COMPLETE, Usage())
agent = Agent(name="looker", model=Talker() if how == "talk" else ScriptedModel(json.loads(script)), tools=[look])
async def main():
    async with Runtime(journal=open_journal(url, lease_s=1.5)) as runtime:
        if how != "resume":
            await runtime.run(agent, "go", run_id=run_id)
        else:
            await runtime.resume(run_id, agent)
anyio.run(main)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        f"sqlite:///{tmp_path}/journal.db"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_url")
    )


async def test_a_run_is_followed_while_its_processes_are_killed_and_it_is_taken_over(
    shared_url: str,
) -> None:
    script = json.dumps([*(calls("look", at=number) for number in range(6)), {"text": "Done."}])
    seen: list[Event] = []
    dead = 0
    async with Runtime.open(shared_url) as runtime, anyio.create_task_group() as group:

        async def follow() -> None:
            """Comes back behind the last event again and again."""
            await in_journal(runtime)
            while not (seen and isinstance(seen[-1], RunEnd)):
                after = None if not seen else str(seen[-1].id)
                async with runtime.follow(RUN, after=after, deltas=False) as events:
                    async for event in events:
                        seen.append(event)
                        if len(seen) % 4 == 0:
                            break

        group.start_soon(follow)
        with anyio.fail_after(100):
            for boundary in (7, 9, 16, 0):
                how = "run" if boundary == 7 else "resume"
                code = await _drive(shared_url, script, how, boundary)
                dead += code == -signal.SIGKILL
                if boundary:
                    await _free(runtime)
            while not (seen and isinstance(seen[-1], RunEnd)):
                await anyio.sleep(0.01)
        assert dead == 3
        assert durable(seen) == durable(await runtime.events(RUN))


async def _drive(url: str, script: str, how: str, boundary: int) -> int:
    environment = {**os.environ, **({"TREADLE_CRASH_AT": str(boundary)} if boundary else {})}
    found = await anyio.run_process(
        [sys.executable, "-c", DRIVER, url, script, RUN, how],
        check=False,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    return found.returncode


async def _free(runtime: Runtime) -> None:
    """Until its dead driver is known to be dead."""
    while (await runtime.journal.info(RUN)).status == "running":
        await anyio.sleep(0.1)


async def test_what_a_model_says_in_another_process_is_heard_here(postgres_url: str) -> None:
    heard: list[TextDelta] = []
    message = ""
    async with Runtime.open(postgres_url) as runtime, anyio.create_task_group() as group:
        group.start_soon(_drive, postgres_url, "[]", "talk", 0)
        await in_journal(runtime)
        with anyio.fail_after(60):
            async with runtime.follow(RUN) as events:
                async for event in events:
                    if isinstance(event, MessageAdded):
                        message = event.message.text
                    elif isinstance(event, TextDelta):
                        assert not message
                        heard.append(event)
    assert len(heard) > 3, "it came in pieces, while it was said"
    assert "".join(event.text for event in heard) in message
    assert not any(isinstance(event.id, str) for event in heard)


# ---------------------------------------------------------------- what is in no journal


class Talker:
    """Says one word after the other, each when it is let."""

    name = "test:talker"
    refuses: frozenset[str] = frozenset()

    def __init__(self, *words: str, thinks: bool = False) -> None:
        self.words, self.thinks = words, thinks
        self.next = anyio.Event()
        self.said = anyio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        if self.thinks:
            yield ReasoningDelta("hm")
        else:
            yield TextStart()
        for word in self.words:
            yield ReasoningDelta(word) if self.thinks else Said(word)
            self.said.set()
            await self.next.wait()
            self.next = anyio.Event()
        yield TextStart()
        yield Said("Done.")
        yield ResponseEnd(StopReason.COMPLETE, Usage(input_tokens=1, output_tokens=1))


@asynccontextmanager
async def followed(runtime: Runtime) -> AsyncGenerator[AsyncIterator[Event]]:
    await in_journal(runtime)
    async with aclosing(runtime.follow(RUN)) as events:
        yield events


async def test_what_a_model_is_saying_comes_while_it_is_said(url: str) -> None:
    model = Talker("one ", "two ", "three ")
    heard, after_message = "", False
    async with Runtime.open(url) as runtime, anyio.create_task_group() as group:
        group.start_soon(partial(runtime.run, Agent(name="t", model=model), "go", run_id=RUN))
        await model.said.wait()
        async with followed(runtime) as events:
            with anyio.fail_after(20):
                async for event in events:
                    after_message = after_message or isinstance(event, MessageAdded)
                    if isinstance(event, TurnStart):
                        while not runtime.hub.heard:
                            await anyio.sleep(0.01)
                    if isinstance(event, TextDelta):
                        assert not after_message
                        heard += event.text
                    if isinstance(event, TurnStart | TextDelta):
                        model.next.set()
        assert after_message
        assert "two three " in heard, "the first word may have been said when nobody listened"
        while runtime.hub.heard:
            await anyio.sleep(0.01)


async def test_nothing_is_made_where_nobody_listens() -> None:
    model = Talker("one ")
    async with Runtime.open() as runtime, anyio.create_task_group() as group:
        group.start_soon(partial(runtime.run, Agent(name="t", model=model), "go", run_id=RUN))
        await model.said.wait()
        async with runtime.follow(RUN, deltas=False) as events:
            assert (await anext(events)).id == "1.0"
            assert not runtime.journal.notifier.wanted(delta_topic(RUN))
            assert not runtime.hub.heard
        model.next.set()


class Told:
    """A relay of one run that stands at `place`, and what it told."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.place = DeltaPlace(1, 2)
        self.hub = Hub()
        self.relay = Relay(self.hub, self)
        self.is_wanted = True

    def listen(self, *topics: str) -> Any:
        raise NotImplementedError

    def tell(self, topic: str, payload: bytes = b"") -> None:
        assert topic == delta_topic(RUN)
        self.payloads.append(payload)

    def wanted(self, topic: str) -> bool:
        return self.is_wanted

    def begin(self) -> None:
        self.relay.begin(RUN, lambda: self.place)

    async def all(self, most: int = 1) -> list[bytes]:
        with anyio.fail_after(20):
            while len(self.payloads) < most:
                await anyio.sleep(0.01)
        return self.payloads


def delta(text: str, attempt: int = 1) -> TextDelta:
    return TextDelta(
        run_id=RUN, session_id=None, seq=1, at=now(), message_id="msg_1", attempt=attempt, text=text
    )


def progress(text: str, call_id: str = "call_1") -> ToolProgress:
    return ToolProgress(run_id=RUN, session_id=None, seq=1, at=now(), call_id=call_id, text=text)


async def test_deltas_are_gathered_and_the_newest_progress_stands_for_the_older() -> None:
    told = Told()
    told.begin()
    for word in ("one ", "two ", "three"):
        told.hub.publish(delta(word))
    for percent in range(3):
        told.hub.publish(progress(str(percent)))
    (payload,) = await told.all()
    text, last = Heard().take(payload)
    assert isinstance(text, TextDelta)
    assert isinstance(last, ToolProgress)
    assert (text.text, last.text) == ("one two three", "2")
    told.relay.end(RUN)
    assert not told.hub.heard


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=()), max_size=4000)
        | st.text("\U0001f600\x00\ud800", min_size=3000, max_size=5000),
        max_size=4,
    )
)
def test_no_payload_is_too_long_and_together_they_say_everything(texts: list[str]) -> None:
    async def main() -> None:
        told = Told()
        told.begin()
        for text in texts:
            told.hub.publish(delta(text))
        told.relay._tell_all()  # pyright: ignore[reportPrivateUsage]  a test need not wait
        told.relay.close()
        heard = Heard()
        said = [event for payload in told.payloads for event in heard.take(payload)]
        assert all(len(payload) <= PAYLOAD_MOST for payload in told.payloads)
        assert "".join(event.text for event in said if isinstance(event, TextDelta)) == "".join(
            texts
        )

    anyio.run(main)


async def test_what_a_call_says_at_length_is_told_by_its_beginning() -> None:
    told = Told()
    told.begin()
    told.hub.publish(progress("x" * 100_000))
    (payload,) = await told.all()
    (event,) = Heard().take(payload)
    assert isinstance(event, ToolProgress)
    assert set(event.text) == {"x"}
    told.relay.close()


def payload_of(event: Event, place: DeltaPlace) -> bytes:
    return json.dumps(
        {"fence": place.fence, "seq": place.seq, "events": [json.loads(_json(event))]}
    ).encode()


def _json(event: Event) -> bytes:
    return encode_json(event)


def test_what_belongs_to_something_that_is_over_is_not_let_through() -> None:
    heard = Heard()
    heard.seen(Record(seq=2, entry=ModelRequested(at=now(), turn=1, attempt=1)))
    assert heard.take(payload_of(delta("first"), DeltaPlace(1, 2)))
    heard.seen(Record(seq=3, entry=ModelRequested(at=now(), turn=1, attempt=2)))
    assert not heard.take(payload_of(delta("late"), DeltaPlace(1, 2))), "its attempt failed"
    assert heard.take(payload_of(delta("second", 2), DeltaPlace(1, 3)))
    heard.seen(
        Record(
            seq=4,
            entry=RunResumed(
                at=now(), fence=2, agent="a", agent_hash="", model="m", mode="full", cwd="/"
            ),
        )
    )
    assert not heard.take(payload_of(delta("zombie", 2), DeltaPlace(1, 9))), (
        "somebody else drives the run"
    )
    assert heard.take(payload_of(delta("new"), DeltaPlace(2, 4)))
    assert not heard.take(b"what a newer version says")
    assert not heard.take(b'{"fence": 2, "seq": 9, "events": [{"type": "hologram"}]}')


def test_reasoning_has_a_start_and_an_end_also_where_they_were_lost() -> None:
    heard = Heard()
    thought = Thought(
        run_id=RUN, session_id=None, seq=1, at=now(), message_id="msg_1", attempt=1, text="hm"
    )
    start, told = heard.take(payload_of(thought, DeltaPlace(1, 2)))
    assert isinstance(start, ReasoningStart)
    assert told == thought
    (end,) = heard.seen(Record(seq=3, entry=ModelRequested(at=now(), turn=1, attempt=2)))
    assert isinstance(end, ReasoningEnd)
    assert (end.message_id, end.attempt) == ("msg_1", 1)


def test_who_comes_in_the_middle_of_a_part_hears_no_half_of_a_secret() -> None:
    hub = Hub()
    hub.awaited = True
    feed = Feed(RUN, None, hub, redactor=lambda: Redactor([SECRET]))
    attempt = ModelAttempt(frozenset())
    feed.begin_message("msg_1", attempt)
    listener = feed.listener
    assert listener is not None
    listener(TextStart())
    listener(Said(SECRET[:12]))
    with hub.agents.subscribe() as heard:
        listener(Said(SECRET[12:] + " and more"))
        listener(TextStart())
        listener(Said("then this."))
        feed.cut()
        told = [event.text for event in heard._queue if isinstance(event, TextDelta)]  # pyright: ignore[reportPrivateUsage]  all at once
    assert "".join(told) == "then this."


async def test_progress_of_a_call_is_heard_elsewhere_and_not_after_its_end(url: str) -> None:
    at_work, go = anyio.Event(), anyio.Event()

    @tool(effect="pure")
    async def dig(ctx: ToolContext[Any]) -> str:
        """Digs."""
        at_work.set()
        ctx.progress("half", done=1, total=2)
        while not go.is_set():
            await anyio.sleep(0.02)
            ctx.progress("half", done=1, total=2)
        return "dug"

    digger = Agent(
        name="digger", model=ScriptedModel([calls("dig"), {"text": "Done."}]), tools=[dig]
    )
    async with Runtime.open(url) as runtime, anyio.create_task_group() as group:
        group.start_soon(partial(runtime.run, digger, "go", run_id=RUN))
        await at_work.wait()
        names: list[str] = []
        with anyio.fail_after(20):
            async with runtime.follow(RUN) as events:
                async for event in events:
                    names.append(type(event).__name__)
                    if isinstance(event, ToolProgress):
                        assert event.text == "half"
                        go.set()
        assert names.index("ToolProgress") > names.index("ToolCallStart")
        assert "ToolProgress" not in names[names.index("ToolCallEnd") :]


async def test_a_response_is_heard_by_whoever_comes_while_it_is_thought_over() -> None:
    """It began when nobody listened, and says its first word when somebody does: nothing of a
    secret in it leaves.
    """
    model = Talker("hm ", SECRET[:10], SECRET[10:], thinks=True)
    config = load(files=False).with_credentials("anthropic", api_key=SECRET)
    said = ""
    async with Runtime.open(config=config) as runtime, anyio.create_task_group() as group:
        group.start_soon(partial(runtime.run, Agent(name="t", model=model), "go", run_id=RUN))
        await model.said.wait()
        async with runtime.follow(RUN) as events:
            while not runtime.hub.heard:
                await anyio.sleep(0.01)
                if not runtime.journal.notifier.wanted(delta_topic(RUN)):
                    await anext(events)
            for _ in range(3):
                model.said = anyio.Event()
                model.next.set()
                await anyio.sleep(0.01)
            async for event in events:
                said += getattr(event, "text", "") if not isinstance(event.id, str) else ""
    assert SECRET[10:] not in said
    assert SECRET[:10] not in said
