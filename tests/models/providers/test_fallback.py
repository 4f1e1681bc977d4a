"""Several models as one, by themselves: who is asked, when, and what is left of whom."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message, TextPart
from treadle.models.model import (
    Delta,
    Fold,
    ModelNotice,
    ModelRequest,
    Switch,
    TextDelta,
    fold_stream,
)
from treadle.models.providers.fallback import FallbackModel
from treadle.testing import ScriptedModel
from treadle.types import Settings, StopReason, Usage

HELLO = ModelRequest(messages=[Message.user("Hello")], settings=Settings(max_tokens=10))
BUSY = {"error": {"kind": "rate_limit", "status": 429}}
USAGE = {"input_tokens": 7, "output_tokens": 2}


def scripted(name: str, *entries: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(entries, name=name)


async def deltas_of(model: FallbackModel, request: ModelRequest = HELLO) -> list[Delta]:
    async with aclosing(model.stream(request)) as deltas:
        return [delta async for delta in deltas]


async def test_the_first_that_answers_is_the_only_one_asked() -> None:
    second = scripted("b:2", {"text": "from the second"})
    deltas = await deltas_of(FallbackModel(scripted("a:1", {"text": "from the first"}), second))
    assert not any(isinstance(delta, Switch) for delta in deltas)
    assert second.place == 0


@pytest.mark.parametrize("kind", ["rate_limit", "network", "timeout"])
async def test_where_one_fails_the_next_answers_and_the_switch_says_why(kind: str) -> None:
    model = FallbackModel(
        scripted("a:1", {"error": {"kind": kind, "status": 529}}), scripted("b:2", {"text": "here"})
    )
    deltas = await deltas_of(model)
    switch = deltas[0]
    assert isinstance(switch, Switch)
    assert (switch.before, switch.model, switch.kind, switch.status) == ("a:1", "b:2", kind, 529)
    fold = Fold()
    for delta in deltas:
        fold.add(delta)
    assert fold.response().parts == (TextPart(text="here"),)


@pytest.mark.parametrize("kind", ["invalid", "auth", "context_overflow"])
async def test_an_error_that_was_not_named_is_raised(kind: str) -> None:
    second = scripted("b:2", {"text": "here"})
    with pytest.raises(AgentError) as raised:
        await deltas_of(FallbackModel(scripted("a:1", {"error": {"kind": kind}}), second))
    assert (raised.value.kind, second.place) == (ErrorKind(kind), 0)


async def test_any_kind_can_be_named() -> None:
    model = FallbackModel(
        scripted("a:1", {"error": {"kind": "auth"}}), scripted("b:2", {"text": "here"}), on=["auth"]
    )
    assert isinstance((await deltas_of(model))[0], Switch)


@pytest.mark.parametrize(
    "entry",
    [
        {"text": "so far"},
        {"reasoning": "so far"},
        {"tool_calls": [{"name": "look", "arguments": {}}]},
    ],
)
async def test_after_the_first_thing_that_is_seen_nobody_takes_over(entry: dict[str, Any]) -> None:
    second = scripted("b:2", {"text": "here"})
    with pytest.raises(AgentError, match="rate_limit"):
        await deltas_of(FallbackModel(scripted("a:1", {**entry, **BUSY}), second))
    assert second.place == 0


async def test_a_refusal_goes_to_the_next_with_what_it_used() -> None:
    model = FallbackModel(
        scripted("a:1", {"stop": "refusal", "usage": USAGE}), scripted("b:2", {"text": "gladly"})
    )
    switch, *_ = await deltas_of(model)
    assert isinstance(switch, Switch)
    assert (switch.kind, switch.usage) == ("refusal", Usage(**USAGE))


async def test_a_refusal_stands_where_nobody_is_left_or_it_was_not_named() -> None:
    both = FallbackModel(scripted("a:1", {"stop": "refusal"}), scripted("b:2", {"stop": "refusal"}))
    assert (await fold_stream(both.stream(HELLO))).stop_reason is StopReason.REFUSAL
    errors_only = FallbackModel(
        scripted("a:1", {"stop": "refusal"}), scripted("b:2", {"text": "gladly"}), on=["network"]
    )
    assert (await fold_stream(errors_only.stream(HELLO))).stop_reason is StopReason.REFUSAL


async def test_where_all_fail_the_last_error_is_raised() -> None:
    model = FallbackModel(
        scripted("a:1", BUSY),
        scripted("b:2", BUSY),
        scripted("c:3", {"error": {"kind": "network"}}),
    )
    with pytest.raises(AgentError) as raised:
        await deltas_of(model)
    assert raised.value.kind is ErrorKind.NETWORK


async def test_the_one_that_answered_last_is_asked_first_and_the_others_after_it_in_a_circle() -> (
    None
):
    first, second, third = (
        scripted("a:1", {"text": "back again"}),
        scripted("b:2", BUSY),
        scripted("c:3", BUSY),
    )
    deltas = await deltas_of(
        FallbackModel(first, second, third),
        ModelRequest(messages=HELLO.messages, settings=HELLO.settings, model="b:2"),
    )
    assert [delta.model for delta in deltas if isinstance(delta, Switch)] == ["c:3", "a:1"]
    assert TextDelta("back again") in deltas


async def test_what_the_next_does_not_take_is_left_out_and_said() -> None:
    class Picky(ScriptedModel):
        asked: ModelRequest

        @property
        def refuses(self) -> frozenset[str]:
            return frozenset({"temperature"})

        def stream(self, request: ModelRequest) -> Any:
            self.asked = request
            return super().stream(request)

    picky = Picky([{"text": "here"}], name="b:2")
    request = ModelRequest(
        messages=HELLO.messages, settings=Settings(max_tokens=10, temperature=0.5)
    )
    deltas = await deltas_of(FallbackModel(scripted("a:1", BUSY), picky), request)
    assert picky.asked.settings == Settings(max_tokens=10)
    assert [delta.text for delta in deltas if isinstance(delta, ModelNotice)] == [
        "b:2 does not accept temperature: it was left out"
    ]


async def test_closing_it_closes_the_one_that_is_being_asked() -> None:
    second = scripted("b:2", {"text": "one two three four five six seven eight nine ten"})
    async with aclosing(FallbackModel(scripted("a:1", BUSY), second).stream(HELLO)) as deltas:
        async for delta in deltas:
            if isinstance(delta, TextDelta):
                break
    assert second.place == 0, "its entry is there for the next one"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FallbackModel("a:1"), "at least two"),
        (lambda: FallbackModel("a:1", "b:2", on=["ratelimit"]), "'ratelimit'"),
        (lambda: FallbackModel("a:1", "a:1"), "twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(make: Any, said: str) -> None:
    with pytest.raises(AgentError, match=said) as raised:
        make()
    assert raised.value.kind is ErrorKind.INVALID


async def test_names_need_a_runtime() -> None:
    with pytest.raises(AgentError, match="names are resolved by a runtime only"):
        await deltas_of(FallbackModel("a:1", "b:2"))
