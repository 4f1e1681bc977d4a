"""A key that a model says itself leaves no run: not in its stream, its callbacks and the hub, and
not in the log of a bug.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.doubles import (
    PlainTool,
    PlayedModel,
    agent,
    check_events,
    end,
    gives,
    open_runtime,
    watch,
)
from treadle import ToolContext
from treadle._internal.json_text import encode_json
from treadle._internal.secret_patterns import MASK
from treadle.config import Config, load
from treadle.errors import AgentError
from treadle.events.callbacks import Callbacks
from treadle.messages import events
from treadle.messages.events import Event
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelRequest,
    PartEnd,
    ReasoningDelta,
    TextDelta,
    ToolCallStart,
)
from treadle.runtime.runtime import Runtime
from treadle.testing import collect
from treadle.types import StopReason

KEY = "sk-ant-api03-CANARY-0815-4711"
SECOND = "sk-ant-api03-CANARY-second-one"


def knowing(key: str = KEY) -> Config:
    return load({"ANTHROPIC_API_KEY": key}, files=False)


def talkative(key: str = KEY) -> PlayedModel:
    """Says the key in every way that it has, cut in the middle."""
    head, tail = key[:17], key[17:]
    turn = [
        ReasoningDelta(f"They want {head}"),
        ReasoningDelta(tail),
        PartEnd(),
        TextDelta(f"It is {head}"),
        TextDelta(f"{tail}, right?"),
        PartEnd(),
    ]
    call = [
        ToolCallStart("c1", "look"),
        ArgumentsDelta(f'{{"at": "{head}'),
        ArgumentsDelta(f'{tail}"}}'),
        PartEnd(),
        end(StopReason.TOOL_USE),
    ]
    return PlayedModel([*turn, *call], [TextDelta(head), TextDelta(tail), end()])


def joined(heard: list[Event], kind: type[events.TextDelta | events.ReasoningDelta]) -> str:
    return "".join(event.text for event in heard if isinstance(event, kind))


async def test_a_key_that_the_model_says_reaches_nobody_who_listens() -> None:
    heard: list[Event] = []
    words: list[str] = []
    async with open_runtime(config=knowing()) as rt:
        published = rt.hub.agents.subscribe()
        options: Any = {
            "on_event": heard.append,
            "callbacks": Callbacks(on_text_delta=words.append),
        }
        async with rt.stream(agent(talkative(), gives("look")), f"Say {KEY}", **options) as stream:
            seen = await collect(stream)
    assert seen == heard
    check_events(seen)
    assert not [event for event in seen if KEY.encode() in encode_json(event)]
    assert "".join(words) == joined(seen, events.TextDelta) == f"It is {MASK}, right?{MASK}"
    assert joined(seen, events.ReasoningDelta) == f"They want {MASK}"
    assert (
        "".join(event.arguments for event in seen if isinstance(event, events.ToolCallDelta))
        == f'{{"at": "{MASK}"}}'
    )
    assert KEY not in joined(
        [event for event in await collect(published) if isinstance(event, events.TextDelta)],
        events.TextDelta,
    )
    assert isinstance(seen[-1], events.RunEnd)
    assert seen[-1].text == MASK


async def test_the_program_its_tools_and_the_model_read_what_was_said() -> None:
    model, called = talkative(), list[Any]()

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        called.append(arguments)
        return "seen"

    async with open_runtime(config=knowing()) as rt:
        result = await rt.run(
            agent(model, PlainTool(name="look", does=does)), "go", on_event=lambda event: None
        )
    assert result.text == KEY
    assert called == [{"at": KEY}]
    assert model.histories[1][1].text == f"It is {KEY}, right?"


async def test_a_key_that_came_while_the_run_went_on_is_kept_from_the_next_message_on() -> None:
    async with open_runtime(config=knowing()) as rt:

        async def replaced() -> None:
            rt.set_credentials("anthropic", api_key=SECOND)

        first = [ToolCallStart("c1", "look"), PartEnd(), replaced, end(StopReason.TOOL_USE)]
        model = PlayedModel(first, [TextDelta(SECOND[:20]), TextDelta(SECOND[20:]), end()])
        async with rt.stream(agent(model, gives("look")), "go") as stream:
            seen = await collect(stream)
    assert joined(seen, events.TextDelta) == MASK


async def test_without_known_secrets_a_run_is_told_as_it_was() -> None:
    seen = await watch(talkative(), gives("look"))
    assert joined(seen.events, events.TextDelta) == f"It is {KEY}, right?{KEY}"


# ---------------------------------------------------------------- logs

PLAIN = "canary-0815-4711"
"""A key that does not look like one: nothing but its value can give it away."""
OTHER = "canary-of-another-kind"


class Broken(PlayedModel):
    """Has a bug, and the key in its words."""

    def __init__(self, key: str = PLAIN) -> None:
        super().__init__()
        self._key = key

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        yield TextDelta("so far")
        try:
            raise KeyError(self._key)
        except KeyError as e:
            raise RuntimeError(f"no answer for {self._key}") from e


def told(log: pytest.LogCaptureFixture) -> str:
    return f"{log.text} {[vars(record) for record in log.records]}"


async def test_the_traceback_of_a_bug_inside_a_run_is_logged_without_the_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_runtime(config=knowing(PLAIN)) as rt:
        result = await rt.run(agent(Broken()), "go")
    assert isinstance(result.error, AgentError)
    assert PLAIN not in result.error.message
    assert "Traceback" in caplog.text
    assert f"RuntimeError: no answer for {MASK}" in caplog.text
    assert PLAIN not in told(caplog)


async def test_the_log_is_masked_for_each_of_several_runtimes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        open_runtime(config=knowing(PLAIN)) as one,
        open_runtime(config=knowing(OTHER)) as two,
    ):
        await one.run(agent(Broken(OTHER)), "go")
        await two.run(agent(Broken(PLAIN)), "go")
    assert caplog.text.count("Traceback") == 4
    assert PLAIN not in told(caplog)
    assert OTHER not in told(caplog)


async def test_the_log_is_masked_for_credentials_old_and_new(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old, new = "canary-that-was-replaced", "canary-that-came-later"
    async with open_runtime(config=knowing(old)) as rt:
        rt.set_credentials("anthropic", api_key=new)
        await rt.run(agent(Broken(old)), "go")
        await rt.run(agent(Broken(new)), "go")
    assert caplog.text.count(f"RuntimeError: no answer for {MASK}") == 2
    assert old not in told(caplog)
    assert new not in told(caplog)


async def test_a_callback_that_fails_with_the_key_is_logged_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bad(event: Event) -> None:
        raise ValueError(PLAIN)

    async with open_runtime(config=knowing(PLAIN)) as rt:
        await rt.run(agent(PlayedModel([TextDelta("ok"), end()])), "go", on_event=bad)
    assert f"ValueError: {MASK}" in caplog.text
    assert PLAIN not in told(caplog)


async def test_an_ordinary_log_line_is_masked_with_its_arguments_and_its_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Runtime(config=knowing(PLAIN)):
        logging.getLogger("treadle").setLevel(logging.DEBUG)
        logging.getLogger("treadle").debug("asking with %s", PLAIN, extra={"header": PLAIN})
    logging.getLogger("treadle").setLevel(logging.NOTSET)
    assert caplog.messages == [f"asking with {MASK}"]
    assert PLAIN not in told(caplog)
