"""Runs that outgrow their model: over a real wire, for hundreds of turns, against a server that
counts and a judge that forgets nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio
import pytest

import treadle
from tests.doubles import (
    PlayedModel,
    agent,
    asks,
    call,
    check_events,
    check_history,
    fails,
    gives,
    hook,
    label,
    open_runtime,
    says,
    text,
)
from tests.fork_server import command
from tests.models.providers.loopback import Answer, Seen, Server, document, listening, sse
from tests.models.providers.speeches.openai_chat import chunk
from treadle import Agent, Runtime, tool
from treadle.config import Config
from treadle.config.endpoint import Provider
from treadle.config.model_profile import Abilities
from treadle.config.sections import Models
from treadle.events.hooks import Hook, HookedRun, Stop
from treadle.journal.entries import Compaction, ModelRequested, Record
from treadle.journal.receipts import Cleared, Summary, read_receipt
from treadle.messages import events
from treadle.messages.message import Message
from treadle.testing import ScriptedModel
from treadle.tools.builtin.coding import default_tools
from treadle.types import Limits, Outcome, Settings

WINDOW = 12_000
PIN = "the PIN is 4711"
RULES = "You tend the vault; your code name is Heron."
TODOS = [
    {
        "content": "Count the ümlauts, all of them",
        "active_form": "Counting",
        "status": "in_progress",
    }
]


# ---------------------------------------------------------------- a server with a small window


def said(text: str = "", *calls: tuple[str, str, str], tokens: int, finish: str = "") -> Answer:
    """One answer of Chat Completions. A call: its id, name and arguments."""
    steps = [chunk({"role": "assistant", "content": text})]
    for i, (call_id, name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": arguments}
        steps.append(
            chunk(
                {
                    "tool_calls": [
                        {"index": i, "id": call_id, "type": "function", "function": function}
                    ]
                }
            )
        )
    steps.append(chunk({}, finish=finish or ("tool_calls" if calls else "stop")))
    usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
    steps.append({**chunk({}), "choices": [], "usage": usage})
    return Answer(steps=(*[sse(step, named=False) for step in steps], b"data: [DONE]\n\n"))


Brain: TypeAlias = Callable[[Mapping[str, Any], int], Answer]
"""From the body of a request, and how many tokens it has, to the answer."""

TOO_LONG = {
    "error": {
        "message": "This model's maximum context length is exceeded",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    }
}


class Vault(Server):
    """Takes so many tokens, four bytes each, and refuses more.

    What it is asked goes to `big` or to `small`.
    """

    def __init__(self, big: Brain, small: Brain, window: int) -> None:
        super().__init__("http")
        self._of = {"big": big, "small": small}
        self.window = window
        self.counts: dict[str, int] = {"big": 0, "small": 0}
        self.refused = 0
        self.sizes: list[int] = []
        """Of what `big` was asked."""
        self.reused: list[bool] = []
        """Whether each request of `big` begins with all of the one before: then a cache hits."""
        self._before: Sequence[Any] = ()
        self.answers = _Answers(self)

    def next(self, seen: Seen) -> Answer:
        body = cast("Mapping[str, Any]", seen.json)
        model, tokens = str(body["model"]), len(seen.body) // 4
        if tokens + body["max_tokens"] > self.window:
            self.refused += 1
            return document(TOO_LONG, status=400)
        self.counts[model] += 1
        if model == "big":
            self.sizes.append(tokens)
            self.reused.append(body["messages"][: len(self._before)] == self._before)
            self._before = body["messages"]
        return self._of[model](body, tokens)


class _Answers(list[Answer]):
    def __init__(self, vault: Vault) -> None:
        super().__init__()
        self._vault = vault

    def pop(self, index: Any = -1) -> Answer:
        return self._vault.next(self._vault.seen.pop())


@asynccontextmanager
async def vault(
    big: Brain, small: Brain | None = None, *, window: int = WINDOW
) -> AsyncGenerator[Vault]:
    server = Vault(big, small or record, window)
    async with listening(server.handle) as port:
        server.port = port
        yield server


def config_of(server: Vault, *, told: bool = True) -> Config:
    abilities = {"*": Abilities(context_tokens=server.window)} if told else {}
    providers = {
        "vault": Provider(
            type="openai-chat", base_url=f"{server.url}/v1", server="vllm", abilities=abilities
        )
    }
    return Config(models=Models(large="vault:big", small="vault:small"), providers=providers)


@tool(effect="pure")
def look(n: int) -> str:
    """Looks."""
    return f"shelf {n}: " + "dust " * (300 if n % 7 else 900)


@tool(effect="once")
def pay(n: int) -> str:
    """Pays."""
    return f"paid {n}, receipt R{n}\n" + "thanks " * 400


def record(body: Mapping[str, Any], tokens: int) -> Answer:
    """What the small model says where a test does not care; and that it was asked as it should be."""
    assert "tools" not in body
    return said("The shelves were looked at one after the other.", tokens=tokens)


def judge(turns: int) -> Brain:
    """Calls a tool at each of so many turns, and gives up at once where something is missing that
    must never be.
    """
    asked = iter(range(1, 10_000))

    def answer(body: Mapping[str, Any], tokens: int) -> Answer:
        messages, n = body["messages"], next(asked)
        whole = json.dumps(messages, ensure_ascii=False)
        wanted = [RULES, PIN] + ([TODOS[0]["content"]] if n > 1 else [])
        if lost := [text for text in wanted if text not in whole]:
            return said(f"LOST at {n}: {lost}", tokens=tokens)
        if wrong := unpaired(messages):
            return said(f"WRONG at {n}: {wrong}", tokens=tokens)
        if n > 1 and messages[-1].get("tool_call_id") != f"call_{n - 1}":
            return said(f"LOST the newest at {n}", tokens=tokens)
        if n == 1:
            return said(
                "I plan.",
                ("call_1", "todo_write", json.dumps({"todos": TODOS}, ensure_ascii=False)),
                tokens=tokens,
            )
        if n > turns:
            return said(f"Done: {PIN}.", tokens=tokens)
        name = "pay" if n % 5 == 0 else "look"
        return said(
            "thinking aloud " * 12, (f"call_{n}", name, json.dumps({"n": n})), tokens=tokens
        )

    return answer


def unpaired(messages: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with its calls and results."""
    waiting: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            if not waiting or waiting.pop(0) != message["tool_call_id"]:
                return f"message {i} answers no call"
        elif waiting:
            return f"message {i} comes before {waiting[0]} has a result"
        waiting += [one["id"] for one in message.get("tool_calls") or ()]
    return "no result" if waiting else ""


def keeper() -> Agent[Any, str]:
    todo = [one for one in default_tools() if one.name == "todo_write"]
    return Agent[Any, str](
        name="keeper",
        model="vault:big",
        instructions=RULES,
        tools=[look, pay, *todo],
        limits=Limits(turns=1000),
    )


def receipts_of(records: Sequence[Record]) -> list[Any]:
    return [
        read_receipt(record.entry.receipt)
        for record in records
        if isinstance(record.entry, Compaction)
    ]


# ---------------------------------------------------------------- five hundred turns


async def test_a_run_of_five_hundred_turns_forgets_nothing_that_must_stay() -> None:
    async with vault(judge(500)) as server, Runtime.open("memory:", config=config_of(server)) as rt:
        with anyio.fail_after(120):
            result = await rt.run(keeper(), f"Mind that {PIN}.", settings=Settings(max_tokens=1000))
        records = await rt.journal.read(result.run_id)
        replayed = await rt.replay(result.run_id)
    assert (result.outcome, result.text) == (Outcome.COMPLETED, f"Done: {PIN}.")
    assert result.metrics.turns == 501
    receipts = receipts_of(records)
    assert {type(receipt) for receipt in receipts} == {Cleared, Summary}
    assert server.refused == 0, "room is made before it is needed"
    assert max(server.sizes) <= WINDOW - 1000
    assert len(receipts) < 50, "rarely, and then enough of it"
    assert all(receipt.tokens_after <= WINDOW // 2 for receipt in receipts)
    assert sum(server.reused) >= 501 - len(receipts) - 1, (
        "between compactions each request goes on from the one before"
    )
    assert replayed.messages == result.messages
    check_history(result.messages)
    small = next(one for one in _spent(records) if one.model == "vault:small")
    assert small.usage.total_tokens > 0
    assert result.metrics.usage.total_tokens == sum(
        (one.usage.total_tokens for one in _spent(records)), 0
    )


def _spent(records: Sequence[Record]) -> Sequence[Any]:
    return records[-1].entry.spending  # type: ignore[union-attr]  the last one is run.finished


async def test_where_nobody_knows_the_window_the_provider_says_when_it_is_full() -> None:
    async with (
        vault(judge(60)) as server,
        Runtime.open("memory:", config=config_of(server, told=False)) as rt,
    ):
        with anyio.fail_after(60):
            result = await rt.run(keeper(), f"Mind that {PIN}.", settings=Settings(max_tokens=1000))
        records = await rt.journal.read(result.run_id)
    assert result.text == f"Done: {PIN}."
    failed = [
        r.entry.failed.kind
        for r in records
        if isinstance(r.entry, ModelRequested) and r.entry.failed is not None
    ]
    assert failed == ["context_overflow"] * server.refused
    assert server.refused == len(receipts_of(records)) > 0


async def test_a_session_of_many_runs_goes_on_from_what_was_made_of_it(tmp_path: Path) -> None:
    """Each run in a process of its own, as far as the store can tell."""
    answers = iter(range(10_000))

    def brain(body: Mapping[str, Any], tokens: int) -> Answer:
        n = next(answers)
        if wrong := unpaired(body["messages"]):
            return said(f"WRONG: {wrong}", tokens=tokens)
        if PIN not in str(body["messages"]):
            return said("LOST", tokens=tokens)
        return (
            said("well " * 50, tokens=tokens)
            if n % 8 == 7
            else said("hm", (f"call_{n}", "look", json.dumps({"n": n})), tokens=tokens)
        )

    views: list[Sequence[Message]] = []
    async with vault(brain) as server:
        for i in range(12):
            async with Runtime.open(f"sqlite:///{tmp_path}/j.db", config=config_of(server)) as rt:
                prompt = f"Mind that {PIN}." if i == 0 else f"And now {i}?"
                result = await rt.run(
                    keeper(), prompt, session="s", settings=Settings(max_tokens=1000)
                )
                assert result.text == "well " * 50
                assert await rt.messages("s") == result.messages
                assert (await rt.replay(result.run_id)).messages == result.messages
                assert rt.sessions.list()[0].message_count == len(result.messages)
                check_history(result.messages)
                views.append(result.messages)
        async with Runtime.open(f"sqlite:///{tmp_path}/j.db", config=config_of(server)) as rt:
            assert len(rt.sessions.search("well", limit=99)) == 12, "what left the view is found"
    assert any(message.is_summary for message in views[-1])
    assert server.refused == 0


# ---------------------------------------------------------------- what can go wrong


async def test_where_no_summary_can_be_had_more_is_cleared_and_then_the_run_ends_as_too_long() -> (
    None
):
    def brain(body: Mapping[str, Any], tokens: int) -> Answer:
        n = len(body["messages"])
        return said(
            "thinking aloud " * 200, (f"call_{n}", "look", json.dumps({"n": n})), tokens=tokens
        )

    def broken(body: Mapping[str, Any], tokens: int) -> Answer:
        return said("", tokens=tokens)

    async with (
        vault(brain, broken) as server,
        Runtime.open("memory:", config=config_of(server)) as rt,
    ):
        with anyio.fail_after(60):
            result = await rt.run(keeper(), f"Mind that {PIN}.", settings=Settings(max_tokens=1000))
        records = await rt.journal.read(result.run_id)
        costs = await rt.journal.costs("model")
    assert result.outcome is Outcome.CONTEXT_OVERFLOW
    receipts = receipts_of(records)
    assert {type(receipt) for receipt in receipts} == {Cleared}
    assert any("returned no summary" in receipt.failed for receipt in receipts)
    tried = [receipt.spent for receipt in receipts if receipt.spent is not None]
    (small,) = [one for one in _spent(records) if one.model == "vault:small"]
    assert small.usage.total_tokens == sum(one.usage.total_tokens for one in tried) > 0
    assert "vault:small" in [row.key for row in costs.rows], "what was paid in vain was paid"
    check_history(result.messages)


async def test_where_the_small_model_fails_the_runs_own_is_asked() -> None:
    def refuses(body: Mapping[str, Any], tokens: int) -> Answer:
        return document({"error": {"message": "no such model"}}, status=404)

    judging = judge(60)

    def brain(body: Mapping[str, Any], tokens: int) -> Answer:
        return judging(body, tokens) if "tools" in body else record(body, tokens)

    async with (
        vault(brain, refuses) as server,
        Runtime.open("memory:", config=config_of(server)) as rt,
    ):
        result = await rt.run(keeper(), f"Mind that {PIN}.", settings=Settings(max_tokens=1000))
        records = await rt.journal.read(result.run_id)
    assert result.text == f"Done: {PIN}."
    assert {
        receipt.spent.model for receipt in receipts_of(records) if isinstance(receipt, Summary)
    } == {"vault:big"}


LONG = "word " * 3000
OVERFLOW = fails("context_overflow", status=400)


def rambling(*rest: dict[str, Any], turns: int = 4) -> list[dict[str, Any]]:
    return [*(asks(call("look", f"c{i}", at=i), text=LONG) for i in range(turns)), *rest]


def small(*answers: dict[str, Any], path: Path) -> Config:
    """A configuration whose small model is a script."""
    path.write_text(json.dumps(answers))
    return Config(models=Models(small=f"script:{path}"))


async def test_a_providers_refusal_leads_to_one_compaction_and_one_retry(tmp_path: Path) -> None:
    model = ScriptedModel(rambling(OVERFLOW, says("done")))
    async with Runtime(config=small(says("They rambled."), path=tmp_path / "small.json")) as rt:
        async with rt.stream(agent(model, gives("look")), "go") as stream:
            seen = [event async for event in stream]
        records = await rt.journal.read(stream.run_id)
        replayed = await rt.replay(stream.run_id)
        fork = await rt.fork(
            stream.run_id, turn=5, text="more", agent=agent(PlayedModel(text("fine")))
        )
        early = await rt.fork(
            stream.run_id, turn=4, text="other", agent=agent(PlayedModel(text("fine")))
        )
    assert stream.result.text == "done"
    assert "They rambled." in model.requests[-1].messages[1].text
    kinds = [label(record.entry).partition(" ")[0] for record in records]
    assert kinds[-5:] == [
        "model.requested",
        "compaction",
        "model.requested",
        "model.responded",
        "run.finished",
    ]
    (compacted,) = [event for event in seen if isinstance(event, events.Compacted)]
    receipt: Any = compacted.receipt
    assert receipt["kind"] == "summary"
    check_events(seen)
    assert replayed.messages == stream.result.messages
    assert [*fork.messages[:-2]] == [*stream.result.messages]
    assert len(early.messages) == 1 + 8 + 2, (
        "what came before the compaction is there for whoever goes back before it"
    )


@pytest.mark.parametrize("again", [OVERFLOW, says("Half an", stop="context_overflow")])
async def test_a_second_refusal_ends_the_run(again: dict[str, Any], tmp_path: Path) -> None:
    model = ScriptedModel(rambling(again, again, says("never"), turns=12))
    async with Runtime(
        config=small(says("They rambled."), says("They did."), path=tmp_path / "small.json")
    ) as rt:
        result = await rt.run(agent(model, gives("look")), "go")
    assert result.outcome is Outcome.CONTEXT_OVERFLOW
    assert model.place == 14
    check_history(result.messages)


async def test_a_response_that_found_no_room_is_gone_on_from(tmp_path: Path) -> None:
    model = ScriptedModel(rambling(says("Half an", stop="context_overflow"), says("done")))
    async with Runtime(config=small(says("They rambled."), path=tmp_path / "small.json")) as rt:
        result = await rt.run(agent(model, gives("look")), "go")
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "done")
    assert [message.text for message in model.requests[-1].messages][-2:] == [
        "Half an",
        "Your last response was cut off because the conversation had become too long. The conversation has been shortened: go on.",
    ]


async def test_each_time_that_there_is_no_room_it_is_made_once(tmp_path: Path) -> None:
    short = says("Half an", stop="context_overflow")
    more = [asks(call("look", f"d{i}", at=i), text=LONG) for i in range(4)]
    model = ScriptedModel(rambling(short, *more, short, says("done")))
    async with Runtime(
        config=small(says("They rambled."), says("They went on."), path=tmp_path / "small.json")
    ) as rt:
        result = await rt.run(agent(model, gives("look")), "go")
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "done")


async def test_without_a_key_for_the_small_model_the_runs_own_sums_up() -> None:
    model = ScriptedModel(rambling(OVERFLOW, says("A record of it."), says("done")))
    async with open_runtime() as rt:
        result = await rt.run(agent(model, gives("look")), "go")
        state = await rt.journal.load(result.run_id)
    assert result.text == "done"
    assert "A record of it." in result.messages[1].text
    assert state.spending.used_up == {model.name: 7}, "so that a script goes on at its place"


@pytest.mark.parametrize(
    ("name", "why"),
    [("script:/not/there.json", "/not/there.json"), ("openai:gpt-mini", "OPENAI_API_KEY")],
)
async def test_a_small_model_that_cannot_be_used_is_told_once_and_the_runs_own_sums_up(
    name: str, why: str
) -> None:
    more = [asks(call("look", f"d{i}", at=i), text=LONG) for i in range(4)]
    model = ScriptedModel(
        rambling(
            OVERFLOW,
            says("A record of it."),
            *more,
            OVERFLOW,
            says("Another record."),
            says("done"),
        )
    )
    async with (
        open_runtime(config=Config(models=Models(small=name))) as rt,
        rt.stream(agent(model, gives("look")), "go") as stream,
    ):
        seen = [event async for event in stream]
        result = stream.result
    assert result.text == "done"
    (warning,) = [event.text for event in seen if isinstance(event, events.Warned)]
    assert warning.startswith(
        f"models.small cannot be used, so {model.name} summarizes older messages: "
    )
    assert why in warning


@pytest.mark.parametrize("url", ["memory:", "sqlite"])
async def test_everything_of_a_session_is_as_it_was_said_and_each_summary_stands_where_it_was_made(
    url: str, tmp_path: Path
) -> None:
    model = ScriptedModel(
        [says("Hello."), *rambling(OVERFLOW, says("A record of it."), says("done"), says("Bye."))]
    )
    async with Runtime.open(url if url == "memory:" else f"sqlite:///{tmp_path}/runs.db") as rt:
        session = rt.session("ada", agent=agent(model, gives("look")))
        for words in ("Hi.", "Go.", "And?"):
            await session.send(words)
        told, view = rt.sessions.everything("ada"), rt.sessions.get_messages("ada")
        ids = [message.id for message in told]
        (mark,) = [at for at, message in enumerate(told) if message.is_summary]
        assert len({*ids}) == len(ids)
        assert {message.id for message in view} < {*ids}
        assert [
            message.text for message in told if message.role == "user" and not message.is_summary
        ] == ["Hi.", "Go.", "And?"]
        assert [call.id for message in told for call in message.tool_calls] == [
            "c0",
            "c1",
            "c2",
            "c3",
        ]
        assert [message.text for message in told[mark + 1 :]] == ["done", "And?", "Bye."]
        assert rt.sessions.clear_messages("ada")
        assert (rt.sessions.everything("ada"), rt.sessions.everything("nobody")) == ([], [])


async def test_with_nothing_to_leave_out_it_is_too_long_at_once() -> None:
    async with open_runtime() as rt:
        result = await rt.run(agent(ScriptedModel([OVERFLOW, says("never")])), "go")
        assert "compaction" not in [
            label(record.entry) for record in await rt.journal.read(result.run_id)
        ]
    assert result.outcome is Outcome.CONTEXT_OVERFLOW


async def test_a_run_that_is_cancelled_while_it_is_summed_up_is_closed_as_ever(
    tmp_path: Path,
) -> None:
    config = small(says("never", delay_ms=600_000), path=tmp_path / "small.json")
    seen: list[Any] = []
    async with Runtime(config=config) as rt:
        with anyio.fail_after(20):
            async with (
                rt.stream(agent(ScriptedModel(rambling(OVERFLOW)), gives("look")), "go") as stream,
                anyio.create_task_group() as group,
            ):

                async def stop() -> None:
                    while not any(
                        event.turn == 5 for event in seen if isinstance(event, events.TurnStart)
                    ):
                        await anyio.lowlevel.checkpoint()
                    stream.cancel()

                group.start_soon(stop)
                async for event in stream:
                    seen.append(event)
    assert stream.result.outcome is Outcome.CANCELLED
    check_history(stream.result.messages)
    check_events(seen)


class Told(Hook):
    def __init__(self, *, stops: bool) -> None:
        self.stops, self.before, self.after = stops, 0, list[Mapping[str, object]]()

    async def before_compaction(self, run: HookedRun) -> Stop | None:
        self.before += 1
        return Stop("not now") if self.stops else None

    async def after_compaction(self, run: HookedRun, receipt: Mapping[str, object]) -> None:
        self.after.append(receipt)


@pytest.mark.parametrize("stops", [False, True])
async def test_hooks_are_told_and_may_leave_the_history_as_it_is(
    stops: bool, tmp_path: Path
) -> None:
    hook = Told(stops=stops)
    model = ScriptedModel(rambling(OVERFLOW, says("done")))
    async with Runtime(config=small(says("They rambled."), path=tmp_path / "small.json")) as rt:
        result = await rt.run(replace(agent(model, gives("look")), hooks=[hook]), "go")
    assert result.outcome is (Outcome.CONTEXT_OVERFLOW if stops else Outcome.COMPLETED)
    assert (hook.before, [receipt["kind"] for receipt in hook.after]) == (
        1,
        [] if stops else ["summary"],
    )


class Looks:
    """Reads the end of the journal when a hook is asked."""

    def __init__(self, runtime: Runtime) -> None:
        self._journal, self.seen = runtime.journal, list[str]()

    async def __call__(self, run: HookedRun, *_: object) -> None:
        self.seen.append(label((await self._journal.read(run.run_id))[-1].entry))


async def test_results_are_in_the_journal_before_a_hook_of_the_model_is_asked() -> None:
    """Else a process that dies meanwhile would not know the outcome of calls that had ended long
    before.
    """
    async with Runtime() as rt:
        looks = Looks(rt)
        await rt.run(
            replace(
                agent(ScriptedModel(rambling(says("done"), turns=2)), gives("look")),
                hooks=[hook(before_model=looks)],
            ),
            "go",
        )
    assert looks.seen == ["run.started", "tool.finished:c0:ok", "tool.finished:c1:ok"]


async def test_results_are_in_the_journal_before_room_is_made(tmp_path: Path) -> None:
    async with Runtime(config=small(says("They rambled."), path=tmp_path / "small.json")) as rt:
        looks, model = Looks(rt), ScriptedModel(rambling(says("done"), turns=3))
        session = rt.session(
            "s", agent=replace(agent(model, gives("look")), hooks=[hook(before_compaction=looks)])
        )
        async with session.stream("go") as stream:
            async for event in stream:
                if isinstance(event, events.TurnStart) and event.turn == 3:
                    assert session.compact() is True
    assert looks.seen == ["tool.finished:c2:ok"]


# ---------------------------------------------------------------- on demand


async def test_room_is_made_on_demand_between_runs_and_inside_them(tmp_path: Path) -> None:
    entries = [*(says(LONG) for _ in range(3)), *rambling(says("done"), turns=3)]
    model = ScriptedModel(entries)
    async with Runtime(
        config=small(says("One."), says("Two."), path=tmp_path / "small.json")
    ) as rt:
        one = agent(model, gives("look"))
        session = rt.session("s", agent=one)
        for i in range(3):
            await session.send(f"question {i}")
        assert session.compact() is False
        assert len(await session.history()) == 6
        async with session.stream("and now?") as stream:
            async for event in stream:
                if isinstance(event, events.TurnStart) and event.turn == 3:
                    assert session.compact() is True
        records = await rt.journal.read(stream.run_id)
        texts = [message.text for message in await session.history()]
        fork = await rt.fork(
            stream.run_id, turn=0, text="rather?", agent=agent(PlayedModel(text("fine")))
        )
        assert "One." in fork.messages[1].text, "as it began"
    kinds = [label(record.entry) for record in records]
    assert kinds[:2] == ["run.started", "compaction"]
    assert kinds.count("compaction") == 2
    assert texts[0] == "question 0"
    assert "and now?" in texts
    assert sum(text.startswith("[The older part") for text in texts) == 1
    assert "Two." in "".join(texts)
    with pytest.raises(treadle.AgentError, match="no session 'other'"):
        rt.compact("other")


# ---------------------------------------------------------------- a kill at any boundary

DRIVER = """
import json, sys
import anyio
from treadle import Agent, Runtime, tool
from treadle.config import Config
from treadle.config.values import Models

folder, run_id = sys.argv[1], (sys.argv[2:] or [None])[0]

@tool(effect="once")
def pay(n: int) -> str:
    with open(f"{folder}/paid", "a") as file:
        file.write(f"{n}\\n")
    return f"paid {n}"

agent = Agent(name="a", model=f"script:{folder}/big.json", tools=[pay])

async def main():
    async with Runtime.open(f"sqlite:///{folder}/j.db", config=Config(models=Models(small=f"script:{folder}/small.json"))) as rt:
        result = await (rt.run(agent, "go", session="s") if run_id is None else rt.resume(run_id, agent, on_unknown="tell"))
        print(json.dumps({"outcome": result.outcome, "text": result.text}))

anyio.run(main)
"""


@pytest.mark.crash
@pytest.mark.parametrize("at", range(1, 17))
async def test_a_kill_at_any_boundary_leaves_a_run_that_ends_the_same(
    tmp_path: Path, at: int
) -> None:
    """A summary that was made and not stored yet is made again; one that is stored is the history
    from there on.
    """
    script = [*(says(LONG) for _ in range(3)), OVERFLOW, asks(call("pay", "c9", n=9)), says("done")]
    (tmp_path / "big.json").write_text(json.dumps(script))
    config = small(says("They rambled."), path=tmp_path / "small.json")
    url = f"sqlite:///{tmp_path}/j.db"
    async with Runtime.open(url, config=config) as rt:
        for i in range(3):
            await rt.run(
                Agent(name="a", model=f"script:{tmp_path}/big.json"), f"question {i}", session="s"
            )
    first = await _play(tmp_path, at)
    async with Runtime.open(url) as rt:
        info = (await rt.journal.runs())[0]
        cut = await rt.journal.load(info.run_id)
        check_history(
            cut.context.history[: len(cut.context.history) - bool(cut.current.open_calls)]
        )
    if info.status == "finished":  # the kill came before the beginning, after the end, or never
        assert at == 1 or at > 10
        return
    assert first.returncode != 0
    last = await _play(tmp_path, 0, info.run_id)
    assert last.returncode == 0, last.stderr.decode()
    assert json.loads(last.stdout) == {"outcome": "completed", "text": "done"}
    paid = (tmp_path / "paid").read_text().split() if (tmp_path / "paid").exists() else []
    assert paid in (["9"], []), "nothing happens twice"
    async with Runtime.open(url) as rt:
        state = await rt.journal.load(info.run_id)
        assert [state.context.history[0].text, state.context.history[2].text] == [
            "question 0",
            "go",
        ]
        assert "They rambled." in state.context.history[1].text
        assert state.spending.used_up[f"script:{tmp_path}/small.json"] == 1
        assert await rt.messages("s") == state.context.history[:]


async def _play(folder: Path, at: int, *run_id: str) -> Any:
    (driver := folder / "driver.py").write_text(DRIVER)
    environment = {**os.environ, "TREADLE_CRASH_AT": str(at)}
    return await anyio.run_process(
        command(str(driver), str(folder), *run_id), check=False, env=environment
    )


@pytest.mark.parametrize(
    ("window", "at", "is_made"),
    [
        (1_000_000, None, True),
        (700_000, None, False),
        (1_000_000, 300_000, False),
        (400_000, 100_000, True),
    ],
)
async def test_room_is_made_above_a_number_of_tokens_that_does_not_depend_on_the_window_alone(
    window: int, at: int | None, is_made: bool
) -> None:
    script = [
        asks(call("look", f"c{i}"), usage={"input_tokens": 30_000 * i, "output_tokens": 5})
        for i in range(1, 8)
    ]
    model = ScriptedModel([*script, says("Done.")])
    model.abilities = Abilities(context_tokens=window)  # pyright: ignore[reportAttributeAccessIssue]  as a model of a provider has them
    one = agent(
        model,
        gives("look", "seen " * 2_000, effect="pure"),
        settings=Settings(compact_at_tokens=at),
    )
    async with open_runtime() as runtime:
        result = await runtime.run(one, "Look.")
        records = await runtime.journal.read(result.run_id)
    assert result.outcome is Outcome.COMPLETED
    receipts = [
        read_receipt(record.entry.receipt)
        for record in records
        if isinstance(record.entry, Compaction)
    ]
    assert [type(receipt) for receipt in receipts[:1]] == ([Cleared] if is_made else [])
    (newest,) = model.requests[-1].messages[-1].tool_results
    assert "to save context" not in newest.text, "the model has not read it yet"
