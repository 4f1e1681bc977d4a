"""The loop's own suite over real wires: what a script says comes from a vendor's server, which
refuses what its rules refuse.

Each test runs over one wire, chosen by its name. What a wire cannot say (an error, malformed
arguments) comes from the script itself; the request is checked all the same.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import ModuleType
from typing import Any
from uuid import uuid4
from zlib import crc32

import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from typing_extensions import override

from tests import doubles
from tests.loop import test_costs as test_loop_costs
from tests.loop import test_events as test_loop_events
from tests.loop import test_late_results as test_loop_late
from tests.loop import test_limits as test_loop_limits
from tests.loop import test_odd as test_loop_odd
from tests.loop import test_output as test_loop_output
from tests.loop import test_retries as test_loop_retries
from tests.loop import test_steering as test_loop_steering
from tests.loop import test_tools as test_loop_tools
from tests.loop import test_turns as test_loop_turns
from tests.loop import test_words_of_tools as test_loop_words_of_tools
from tests.models.providers.speech import Call, Reasoning, Said, Text
from tests.models.switching.overheard import Listening, body_for
from tests.tools import test_subagent as test_subagents
from tests.tools import test_subagents_resumed
from tests.vendors.rules import Asked
from tests.vendors.server import RULES, SPEECHES, Refused, Reply, Vendor, model_of
from treadle import Agent, Runtime, tool
from treadle.errors import AgentError
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ModelRequest,
    ReasoningDelta,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.models.providers.connection import Connection
from treadle.models.providers.connection import HttpReply as Received
from treadle.models.providers.scripted import ScriptedModel

MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6-astra",
    "openai-chat": "gpt-5.6",
    "gemini": "gemini-3.8-flash",
}
SUITE: Sequence[ModuleType] = (
    test_loop_costs,
    test_loop_events,
    test_loop_late,
    test_loop_limits,
    test_loop_odd,
    test_loop_output,
    test_loop_retries,
    test_loop_steering,
    test_loop_tools,
    test_loop_turns,
    test_loop_words_of_tools,
    test_subagents,
    test_subagents_resumed,
)
LEFT_OUT = {
    "test_without_limits_a_run_ends_after_a_hundred_turns",
    "test_no_run_spends_more_than_its_limit",
    "test_a_circle_of_several_calls_is_a_loop_while_equal_calls_far_apart_are_none",
    "test_what_is_too_long_is_cut_and_the_whole_can_be_read_on",
    "test_while_a_child_asks_a_person_the_time_of_its_parents_stands_still",
    "test_time_in_which_people_were_asked_in_a_child_is_no_time_of_its_parent",
}
"""A hundred turns of the same, and limits on real time, of which a server takes a part."""
rt = test_subagents_resumed.rt
"""A fixture of the suite."""

_played, _scripted = doubles.PlayedModel.stream, ScriptedModel.stream


class Prompter(Vendor):
    """Says what the script of the request's header says."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, Reply] = {}
        self.tests: list[bool] = []
        """Of each test so far, whether it sent a request."""

    @override
    def reply(self, wire: str) -> Reply:
        return self.told.pop(self.seen[-1].headers["x-script"])


class Tagged:
    """A connection whose requests name their script."""

    def __init__(self, connection: Connection, token: str) -> None:
        self._connection, self._token, self.base_url = connection, token, connection.base_url

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Received]:
        return self._connection.post(path, body, {**headers, "x-script": self._token})

    def get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Received]:
        return self._connection.get(path, headers)

    async def aclose(self) -> None:
        await self._connection.aclose()


@pytest.fixture(scope="module")
def prompter(request: pytest.FixtureRequest) -> Iterator[Prompter]:
    """One server, in a thread of its own."""
    ours = sum(item.path == request.path for item in request.session.items)
    with start_blocking_portal() as portal:
        server = Prompter()
        with portal.wrap_async_context_manager(server.listening()):
            yield server
        if len(server.tests) == ours >= 200:  # the whole module ran here
            assert len(server.bodies) > 150, "most of the suite goes over a wire"
        is_sample = len(server.tests) >= 100
        assert not is_sample or sum(server.tests) > len(server.tests) / 3, "most go over a wire"


@pytest.fixture
def store() -> str:
    """Over a wire, the tests of recovery keep their journals in memory."""
    return "memory"


@pytest.fixture(autouse=True)
def _over_a_wire(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, prompter: Prompter
) -> Iterator[None]:
    wire = list(MODELS)[crc32(request.node.name.encode()) % len(MODELS)]
    refused = prompter.refused = list[Refused]()

    async def played(self: doubles.PlayedModel, asked: ModelRequest) -> AsyncGenerator[Delta, None]:
        _check(wire, asked, refused)
        async with aclosing(_played(self, asked)) as deltas:
            async for delta in deltas:
                yield delta

    async def scripted(self: ScriptedModel, asked: ModelRequest) -> AsyncGenerator[Delta, None]:
        deltas, error = await _all(_scripted(self, asked))
        if error is None and (said := _sayable(wire, deltas)) is not None:
            async with aclosing(_over(wire, prompter, said, asked, deltas[-1])) as heard:
                async for delta in heard:
                    yield delta
            return
        _check(wire, asked, refused)
        for delta in deltas:
            yield delta
        if error is not None:
            raise error

    monkeypatch.setattr(doubles.PlayedModel, "stream", played)
    monkeypatch.setattr(ScriptedModel, "stream", scripted)
    sent = len(prompter.bodies)
    yield
    prompter.tests.append(len(prompter.bodies) > sent)
    assert refused == []


async def _all(source: AsyncGenerator[Delta, None]) -> tuple[list[Delta], AgentError | None]:
    deltas = list[Delta]()
    async with aclosing(source):
        try:
            async for delta in source:
                deltas.append(delta)
        except AgentError as error:
            return deltas, error
    return deltas, None


def _taken(model: Model, asked: ModelRequest) -> ModelRequest:
    """Without the settings that a run would have left out for this model."""
    left_out = dict.fromkeys(asked.settings.given & model.refuses)
    return msgspec.structs.replace(
        asked, settings=msgspec.structs.replace(asked.settings, **left_out)
    )


def _check(wire: str, asked: ModelRequest, refused: list[Refused]) -> None:
    model = model_of(wire, MODELS[wire], Listening())
    body = json.loads(body_for(model, _taken(model, asked)))
    issued = {signature: "" for signature in _signatures(body)}
    refused += [
        Refused(MODELS[wire], rule, why)
        for rule, why in RULES[wire].broken(Asked(MODELS[wire], body, issued))
        if rule != "preserved_thinking"
    ]


def _signatures(value: Any) -> Iterator[str]:
    """Of reasoning that a script made up."""
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _signatures(inner)
    if isinstance(value, dict):
        yield from (
            value[name]
            for name in ("encrypted_content", "thoughtSignature")
            if isinstance(value.get(name), str)
        )


def _sayable(wire: str, deltas: Sequence[Delta]) -> list[Said] | None:
    """The deltas as parts of an answer; None where the wire has no words for them."""
    said = list[Said]()
    for delta in deltas:
        match delta:
            case TextDelta(text) | ReasoningDelta(text):
                kind = Text if isinstance(delta, TextDelta) else Reasoning
                if said and isinstance(said[-1], kind):
                    text = "".join(said.pop().pieces) + text
                said.append(kind((text,)))
            case ToolCallStart(id, name):
                said.append(Call(id, name, ()))
            case ArgumentsDelta(text) if said and isinstance(call := said[-1], Call):
                said[-1] = Call(call.id, call.name, (*call.pieces, text))
            case _:
                pass
    end = deltas[-1]
    calls = [part for part in said if isinstance(part, Call)]
    usual = isinstance(end, ResponseEnd) and end.stop_reason == (
        "tool_use" if calls else "complete"
    )
    return (
        said
        if usual
        and said
        and all(_is_object("".join(part.pieces)) and part.name.isidentifier() for part in calls)
        else None
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text or "{}"), dict)
    except ValueError:
        return False


async def _over(
    wire: str, prompter: Prompter, said: list[Said], asked: ModelRequest, end: Delta
) -> AsyncGenerator[Delta, None]:
    """The answer as the wire brings it; what it used is what the script says."""
    assert isinstance(end, ResponseEnd)
    token = uuid4().hex
    prompter.told[token] = said
    connection = SPEECHES[wire].connection(prompter.url, timeout_s=10)
    model = model_of(wire, MODELS[wire], Tagged(connection, token))
    try:
        async with aclosing(model.stream(_taken(model, asked))) as deltas:
            async for delta in deltas:
                yield (
                    msgspec.structs.replace(delta, usage=end.usage, id=end.id, model=end.model)
                    if isinstance(delta, ResponseEnd)
                    else delta
                )
    finally:
        await connection.aclose()


@pytest.mark.parametrize("number", range(8))
async def test_each_answer_that_a_wire_can_say_goes_over_it(
    prompter: Prompter, number: int
) -> None:
    """Whatever else this worker runs; the numbers fall on different wires."""
    sent = len(prompter.bodies)
    script = [{"tool_calls": [{"name": "look", "arguments": {}}]}, {"text": "Done."}]
    asked = Agent(name="guide", model=ScriptedModel(script), tools=[look])
    async with Runtime.open("memory:") as runtime:
        result = await runtime.run(asked, "Look.")
    assert (result.text, len(prompter.bodies) - sent) == ("Done.", 2)


@tool
def look() -> str:
    """Look."""
    return "seen"


for _module in SUITE:
    globals().update(
        {
            name: test
            for name, test in vars(_module).items()
            if name.startswith("test_") and callable(test) and name not in LEFT_OUT
        }
    )
