"""Conversations that change their model, through the real loop and over real connections: each
server refuses what its vendor would.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import anyio
import pytest

from tests.doubles import PlainTool, agent, gives, open_runtime
from tests.models.providers.conftest import SPEECHES
from tests.models.providers.loopback import Answer, Server, document, serving
from tests.models.providers.speech import Speech, call, reasoning, stream, text
from tests.models.switching.targets import TARGETS
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.messages.message import MediaPart, TextPart
from treadle.models.model import Model
from treadle.models.providers.fallback import FallbackModel
from treadle.types import Outcome, StopReason

WIRES = [speech.wire for speech in SPEECHES]
PAIRS = list(permutations(WIRES, 2))
ORDERS = [tuple(WIRES[i:] + WIRES[:i]) for i in range(len(WIRES))]
BROKEN = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "chat of anyone",
    "gemini": "gemini",
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PICTURE = MediaPart(media_type="image/png", data=PIXEL, name="pixel")


@dataclass
class Provider:
    """A server that speaks one wire, and what it was asked."""

    speech: Speech
    server: Server
    connection: Any

    def model(self, abilities: Abilities = UNKNOWN) -> Model:
        return self.speech.model(
            self.connection, name=f"{self.speech.wire}:it", abilities=abilities
        )

    def will(self, *answers: Answer) -> None:
        self.server.answers += answers

    def asks(self, name: str, n: int) -> Answer:
        return stream(
            self.speech,
            reasoning("Let me ", "see."),
            text("I look."),
            call(name, f'{{"n": {n}}}', id=f"call|{n}"),
            end=StopReason.TOOL_USE,
        )

    def says(self, words: str) -> Answer:
        return stream(self.speech, reasoning("Now I know."), text(words))

    def busy(self) -> Answer:
        return document(self.speech.error(529, "busy"), status=529)

    def check(self) -> None:
        broken = TARGETS[BROKEN[self.speech.wire]].broken
        assert [broken(seen.json) for seen in self.server.seen] == [[] for _ in self.server.seen]

    @property
    def last(self) -> str:
        return self.server.seen[-1].body.decode()


@asynccontextmanager
async def providers(*wires: str) -> AsyncGenerator[list[Provider]]:
    """Afterwards, nothing that was sent broke a rule."""
    opened: list[Provider] = []
    async with AsyncExitStack() as stack:
        for wire in wires:
            speech = next(speech for speech in SPEECHES if speech.wire == wire)
            server = await stack.enter_async_context(serving())
            connection = speech.connection(server.url, timeout_s=10)
            stack.push_async_callback(connection.aclose)
            opened.append(Provider(speech, server, connection))
        with anyio.fail_after(10):
            yield opened
        for provider in opened:
            provider.check()


def tools() -> Sequence[PlainTool]:
    return gives("look", (TextPart(text="I saw this:"), PICTURE)), gives(
        "burn", "burnt", needs_approval=True
    )


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
async def test_a_session_that_changes_its_model_at_each_run(order: tuple[str, ...]) -> None:
    async with providers(*order) as opened, open_runtime() as rt:
        session = rt.session(agent=agent(opened[0].model(), *tools()))
        for n, provider in enumerate([*opened, opened[0]]):
            provider.will(provider.asks("look", n), provider.says(f"That was {n}."))
            session.use(model=provider.model())
            result = await session.send([TextPart(text=f"Look, part {n}."), PICTURE])
            assert (result.outcome, result.text) == (Outcome.COMPLETED, f"That was {n}.")
        assert [f"That was {n}." in opened[0].last for n in range(4)] == [True] * 4
        assert opened[0].last.count(PIXEL) == 10, "five prompts, five results"


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_another_takes_over_within_a_run(first: str, second: str) -> None:
    async with providers(first, second) as (one, other), open_runtime() as rt:
        one.will(one.asks("look", 1), one.busy())
        other.will(other.asks("look", 2), other.busy())
        one.will(one.says("I am back."))
        result = await rt.run(
            agent(
                FallbackModel(one.model(), other.model(), on=["rate_limit", "network"]), *tools()
            ),
            "Look.",
        )
        assert (result.outcome, result.text) == (Outcome.COMPLETED, "I am back.")
        assert one.last.count(PIXEL) == 2


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_another_goes_on_with_a_run_that_waits_and_with_a_fork_of_it(
    first: str, second: str
) -> None:
    async with providers(first, second) as (one, other), open_runtime() as rt:
        who = agent(one.model(), *tools())
        one.will(one.asks("look", 1), one.asks("burn", 2))
        waits = await rt.run(who, "Look.", on_ask="wait")
        assert waits.outcome is Outcome.APPROVAL_NEEDED
        open_call = (await rt.journal.load(waits.run_id)).current.open_calls[0]
        other.will(other.says("It burnt."), other.says("It did not."))
        resumed = await rt.resume(waits.run_id, who, model=other.model(), approve=[open_call.id])
        assert resumed.text == "It burnt."
        forked = await rt.fork(waits.run_id, turn=1, agent=who, model=other.model())
        assert forked.text == "It did not."
        assert PIXEL in other.last


@pytest.mark.parametrize("wire", WIRES)
async def test_one_that_takes_no_images_is_told_of_those_from_before(wire: str) -> None:
    async with providers("anthropic", wire) as (seeing, blind), open_runtime() as rt:
        session = rt.session(agent=agent(seeing.model(), *tools()))
        seeing.will(seeing.asks("look", 1), seeing.says("A pixel."))
        await session.send([TextPart(text="Look."), PICTURE])
        session.use(model=blind.model(Abilities(images=False)))
        blind.will(blind.says("I cannot see it."))
        await session.send("What is it?")
        assert PIXEL not in blind.last
        assert blind.last.count("pixel (image/png)") == 2
        session.use(model=seeing.model())
        seeing.will(seeing.says("It is still there."))
        await session.send("And now?")
        assert seeing.last.count(PIXEL) == 2
