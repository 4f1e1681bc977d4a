"""Requests whose beginnings the providers' caches have seen: over long runs, and wherever a
conversation goes on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
import pytest

from tests.doubles import open_runtime
from tests.models.caching.conversation import TURNS, WIDE, Conversation
from tests.models.caching.pricing import Bill, PricingServer, pricing
from tests.models.providers.conftest import SPEECHES
from tests.models.providers.loopback import Answer, document
from tests.models.providers.speech import Speech, call, reasoning, stream, text
from treadle.config.model_profile import Abilities
from treadle.messages.result import RunResult
from treadle.models.model import Delta, Model, ModelRequest
from treadle.models.providers.fallback import FallbackModel
from treadle.models.providers.openai_chat import ChatModel
from treadle.models.providers.openai_chat.servers import server_at
from treadle.runtime.session import Session
from treadle.types import Limits, Settings, StopReason, SystemBlock

ROOT = Path(__file__).resolve().parents[3]
GOOD = 0.95
SIGNED = {"gemini"}
"""Where calls hold the reasoning that led to them, sealed: they too change once their run is over.
"""


def check(bills: Sequence[Bill], speech: Speech, *, marked: bool = False) -> None:
    """Each is for a request that continues the one before it.

    `marked`: breakpoints must be where they are looked for, as always at Claude's.
    """
    broken = {i: bill.parted for i, bill in enumerate(bills) if bill.parted is not None}
    assert not broken, "\n".join(
        f"request {i} breaks the prefix: {where}" for i, where in broken.items()
    )
    could = sum(bill.could for bill in bills)
    assert sum(bill.read for bill in bills) >= GOOD * could
    if marked or speech.wire == "anthropic":
        assert sum(bill.marked for bill in bills) >= GOOD * could, (
            "Claude finds it at no breakpoint"
        )


@asynccontextmanager
async def conversing(
    speech: Speech,
    server: PricingServer,
    through: Callable[[Model], Model] = lambda model: model,
    *,
    retains: bool = False,
) -> AsyncGenerator[Session[Any, Any]]:
    """`retains`: the model reads the thinking of earlier runs."""
    connection = speech.connection(server.url, timeout_s=10)
    options = (
        {
            "abilities": Abilities(
                earlier_thinking=True, preserved_thinking=speech.wire == "anthropic"
            )
        }
        if retains
        else {}
    )
    async with open_runtime() as rt:
        sessions: list[Session[Any, Any]] = []
        conversation = Conversation(speech, lambda words: sessions[0].steer(words))
        sessions.append(
            rt.session(agent=conversation.agent(through(speech.model(connection, **options))))
        )
        yield sessions[0]
    await connection.aclose()


async def sent(
    session: Session[Any, Any], prompt: str = "Sort the parcels.", **options: Any
) -> RunResult[Any]:
    with anyio.fail_after(80):
        return await session.send(prompt, **options)


async def test_a_long_run_reads_from_the_cache_all_that_it_has_sent_before(speech: Speech) -> None:
    async with (
        pricing(speech.wire, *Conversation(speech).answers()) as server,
        conversing(speech, server) as session,
    ):
        # else a call that is cut raises it
        result = await sent(session, limits=Limits(turns=TURNS), settings=Settings(max_tokens=8192))
    assert (result.text, result.turn_count, result.metrics.retries) == (
        "All done, I think.",
        TURNS,
        2,
    )
    assert len(server.bills) == TURNS + 2
    assert_varied(result)
    check(server.bills[2:], speech)
    settings = [prompt.settings for prompt in server.cache.prompts]
    assert all(said == settings[0] for said in settings[1:-1]), (
        "nothing changes but the choice of tools in the last turn"
    )
    assert settings[-1].keys() - settings[0].keys() <= {"tool_choice", "toolConfig"}


async def test_claude_reads_all_of_it_but_where_the_last_turn_forbids_it_tools() -> None:
    speech = next(speech for speech in SPEECHES if speech.wire == "anthropic")
    async with (
        pricing(speech.wire, *Conversation(speech).answers()) as server,
        conversing(speech, server) as session,
    ):
        await sent(session, limits=Limits(turns=TURNS))
    missed = [i for i, bill in enumerate(server.bills) if bill.marked < bill.could]
    assert missed == [len(server.bills) - 1], (
        "another choice of tools is another conversation to Claude's cache"
    )


async def test_claude_behind_a_router_reads_as_much() -> None:
    speech = next(speech for speech in SPEECHES if speech.wire == "openai-chat")
    async with pricing(speech.wire, *Conversation(speech).answers()) as server:
        connection = speech.connection(server.url, timeout_s=10)
        model = ChatModel(
            "anthropic/claude-test",
            connection=connection,
            server=server_at("https://openrouter.ai/api/v1"),
        )
        async with open_runtime() as rt:
            session = rt.session(
                agent=Conversation(speech, lambda words: session.steer(words)).agent(model)
            )
            await sent(session, limits=Limits(turns=TURNS))
        await connection.aclose()
    check(server.bills[2:], speech, marked=True)


def assert_varied(result: RunResult[Any]) -> None:
    results = [one for message in result.messages for one in message.tool_results]
    assert sum(one.is_error for one in results) >= 4
    assert max(len(one.text) for one in results) > 15_000
    assert any(not isinstance(one.content, str) for one in results), "an image"
    assert (
        sum("please" in message.text for message in result.messages if message.role == "user") == 2
    ), "somebody spoke up"
    assert max(len(message.tool_calls) for message in result.messages) == WIDE


async def test_the_next_run_goes_on_where_no_reasoning_has_to_be_left_out(speech: Speech) -> None:
    answers = Conversation(speech).answers(14, thinking=False)
    async with (
        pricing(speech.wire, *answers, *answers) as server,
        conversing(speech, server) as session,
    ):
        await sent(session)
        first = len(server.bills)
        await sent(session, "Once more.")
    check(server.bills[1:first], speech)
    check(server.bills[first + (speech.wire in SIGNED) :], speech)


async def test_the_next_run_shares_what_came_before_the_first_reasoning_and_then_goes_on(
    speech: Speech,
) -> None:
    answers = Conversation(speech).answers(14)
    async with (
        pricing(speech.wire, *answers, *answers) as server,
        conversing(speech, server) as session,
    ):
        await sent(session)
        first = len(server.bills)
        await sent(session, "Once more.")
    check(server.bills[1:first], speech)
    check(server.bills[first + 1 :], speech)
    assert server.bills[first].read >= server.bills[0].size, (
        "tools, instructions and the first prompt"
    )
    if speech.wire == "anthropic":
        blocks = server.cache.prompts[0]
        assert server.bills[first].marked >= sum(
            len(block.data) for block in blocks.blocks[: blocks.messages_at]
        ), "tools and instructions"


async def test_three_runs_of_a_session_read_all_that_was_sent_before_where_the_model_retains_its_thinking(
    speech: Speech,
) -> None:
    async with (
        pricing(speech.wire, *Conversation(speech).answers(14) * 3) as server,
        conversing(speech, server, retains=True) as session,
    ):
        for prompt in ("Sort the parcels.", "Once more.", "And again."):
            await sent(session, prompt)
    check(server.bills[1:], speech)
    firsts = [server.bills[run * len(server.bills) // 3] for run in (1, 2)]
    assert all(bill.read >= GOOD * bill.could for bill in firsts), "the first request of a run too"


@pytest.mark.parametrize(("cache", "survives"), [("1h", True), (True, False)])
async def test_what_is_kept_for_an_hour_outlasts_a_pause_of_ten_minutes(
    cache: bool | Literal["1h"], survives: bool
) -> None:
    speech = next(speech for speech in SPEECHES if speech.wire == "anthropic")
    async with (
        pricing(speech.wire, *Conversation(speech).answers(4) * 2) as server,
        conversing(speech, server, retains=True) as session,
    ):
        await sent(session, settings=Settings(cache=cache))
        server.cache.now_s += 600
        first = len(server.bills)
        await sent(session, "Once more.", settings=Settings(cache=cache))
    assert (server.bills[first].marked >= GOOD * server.bills[first].could) is survives


async def test_a_fork_shares_all_that_it_was_forked_from(speech: Speech) -> None:
    conversation = Conversation(speech)
    async with (
        pricing(speech.wire, *conversation.answers(14), *conversation.answers(5)) as server,
        open_runtime() as rt,
    ):
        connection = speech.connection(server.url, timeout_s=10)
        result = await rt.run(conversation.agent(speech.model(connection)), "Sort the parcels.")
        with anyio.fail_after(20):
            await rt.fork(result.run_id, turn=7, text="Take another way.")
        await connection.aclose()
    forked = server.bills[14]
    assert forked.read >= server.bills[6].size, "the request of the last turn that was kept"
    if speech.wire == "anthropic":
        assert forked.marked >= server.bills[6].size
    check(server.bills[15:], speech)


async def test_one_that_takes_its_place_again_finds_what_it_had_sent(speech: Speech) -> None:
    """Another model answered meanwhile: a history keeps the bytes of each wire apart."""
    other = next(other for other in SPEECHES if other.wire != speech.wire)
    early, meanwhile = Conversation(speech).answers(8)[:-1], Conversation(other).answers(8)[:-1]
    late = [
        stream(
            speech,
            reasoning("Back."),
            call("look", '{"n": 1}', id="call_back"),
            end=StopReason.TOOL_USE,
        ),
        stream(speech, text("Done.")),
    ]
    async with (
        pricing(speech.wire, *early, busy(speech), *late) as server,
        pricing(other.wire, *meanwhile, busy(other)) as second,
        open_runtime() as rt,
    ):
        connections = [
            speech.connection(server.url, timeout_s=10),
            other.connection(second.url, timeout_s=10),
        ]
        models = [speech.model(connections[0]), other.model(connections[1], name="other:it")]
        session = rt.session(
            agent=Conversation(speech, lambda words: session.steer(words)).agent(
                FallbackModel(*models)
            )
        )
        result = await sent(session)
        for connection in connections:
            await connection.aclose()
    assert result.text == "Done."
    check(server.bills[2:], speech)
    check(second.bills[1:], other)
    assert server.bills[8].size > 1.5 * server.bills[7].size, "the other's turns are in it"


def busy(speech: Speech) -> Answer:
    return document(speech.error(529, "busy"), status=529)


async def test_a_run_goes_on_in_another_process_with_the_bytes_it_had(tmp_path: Path) -> None:
    """All wires at once: a process takes its time to start."""
    journal = f"sqlite:///{tmp_path / 'journal.db'}"
    async with AsyncExitStack() as stack:
        servers = {
            speech.wire: await stack.enter_async_context(pricing(speech.wire, *interrupted(speech)))
            for speech in SPEECHES
        }
        begun = await spoken(
            journal, *(f"{wire}={server.url}" for wire, server in servers.items()), seed="1"
        )
        ended = await spoken(
            journal,
            *(f"{wire}={servers[wire].url}={run_id}" for wire, run_id, _ in begun),
            seed="2",
        )
    assert {outcome for _, _, outcome in begun} == {"approval_needed"}
    assert [(wire, outcome) for wire, _, outcome in ended] == [
        (speech.wire, "completed") for speech in SPEECHES
    ]
    for speech in SPEECHES:
        server = servers[speech.wire]
        assert len(server.bills) == 5
        check(server.bills[1:], speech)
        assert all(
            prompt.settings == server.cache.prompts[0].settings for prompt in server.cache.prompts
        )
        assert (
            server.cache.prompts[-1].settings["metadata"]
            == b'{"team":"post","area":"north","5":"six"}'
        )


def interrupted(speech: Speech) -> list[Answer]:
    """A run that waits for a person in its fourth turn."""
    asked = [
        stream(
            speech,
            reasoning("Hm."),
            call("look", '{"n": 10}', id=f"call_{n}"),
            end=StopReason.TOOL_USE,
        )
        for n in range(3)
    ]
    held = stream(
        speech,
        reasoning("Hm."),
        call("search", '{"query": "x"}', id="call_8"),
        call("burn", "{}", id="call_9"),
        end=StopReason.TOOL_USE,
    )
    return [*asked, held, stream(speech, text("Done."))]


async def spoken(*arguments: str, seed: str) -> list[list[str]]:
    """The words of each line that another process prints, whose strings hash differently."""
    command = [sys.executable, "-m", "tests.models.caching.child", *arguments]
    run = partial(
        subprocess.run,
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    child = await anyio.to_thread.run_sync(run)
    assert child.returncode == 0, child.stderr
    return [line.split() for line in child.stdout.splitlines()]


# ---------------------------------------------------------------- what is noticed


class Unsteady:
    """A model whose requests are changed on their way."""

    def __init__(self, model: Model, change: Callable[[ModelRequest, int], ModelRequest]) -> None:
        self._model, self._change = model, change
        self.name, self.refuses = model.name, model.refuses
        self._asked = 0

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self._asked += 1
        return self._model.stream(self._change(request, self._asked))


def with_the_time(request: ModelRequest, asked: int) -> ModelRequest:
    return msgspec.structs.replace(
        request,
        system=(*request.system, SystemBlock(text=f"It is {12 + asked // 6}:{asked % 6}0.")),
    )


def with_tools_in_another_order(request: ModelRequest, asked: int) -> ModelRequest:
    return msgspec.structs.replace(
        request, tools=request.tools[asked % 2 :] + request.tools[: asked % 2]
    )


def with_an_old_result_taken_out(request: ModelRequest, asked: int) -> ModelRequest:
    return msgspec.structs.replace(
        request,
        messages=[
            m
            for m in request.messages
            if m.role != "tool" or m is not request.messages[2] or asked < 5
        ],
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (with_the_time, "It is 12:3"),
        (with_tools_in_another_order, "look"),
        (with_an_old_result_taken_out, "request 2 breaks the prefix"),
    ],
)
async def test_a_prefix_that_breaks_is_noticed_and_shown(
    speech: Speech, change: Callable[[ModelRequest, int], ModelRequest], named: str
) -> None:
    answers = Conversation(speech).answers(6)
    async with (
        pricing(speech.wire, *answers) as server,
        conversing(speech, server, lambda model: Unsteady(model, change)) as session,
    ):
        await sent(session)
    with pytest.raises(AssertionError, match=named):
        check(server.bills[2:], speech)


async def test_a_prefix_without_breakpoints_is_noticed() -> None:
    speech = next(speech for speech in SPEECHES if speech.wire == "anthropic")
    async with (
        pricing(speech.wire, *Conversation(speech).answers(6)) as server,
        conversing(speech, server) as session,
    ):
        await sent(session, settings=Settings(cache=False))
    with pytest.raises(AssertionError, match="no breakpoint"):
        check(server.bills[2:], speech)
