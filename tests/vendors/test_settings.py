"""Every known model takes what is sent for every setting, and people are told what differs from
what was asked for.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import msgspec
import pytest

from tests.models.switching.overheard import Listening, body_for
from tests.vendors import claude, gemini, gpt
from tests.vendors.rules import Asked
from tests.vendors.server import RULES, VENDORS, model_of
from treadle.errors import AgentError
from treadle.messages.message import Message
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.known_models import known_ids
from treadle.types import Settings

LOOK = ToolDefinition(
    name="look", description="Look.", parameters={"type": "object", "properties": {}}
)
MODELS = {
    "anthropic": claude.MODELS,
    "openai": gpt.MODELS,
    "openai-chat": gpt.MODELS,
    "gemini": {**gemini.LEVELS, **gemini.BUDGETS, **dict.fromkeys(gemini.NEVER)},
}
THINKING = (None, False, True, 100, 20_000, 60_000, "between_tools")
EFFORTS = (None, "low", "xhigh", "max")
OTHERS = (
    (None, None, None, None),
    ("any", 0.5, None, 1_100),
    ("look", 0.5, ("END",), 9_000_000),
    ("none", None, None, 100),
)
"""Choice of tools, temperature, stop sequences, output tokens."""
ASKED = [Settings(thinking=thinking) for thinking in THINKING[1:]] + [
    Settings(effort=effort) for effort in EFFORTS[1:]
]  # type: ignore[arg-type]
ASKED += [Settings(tool_choice="any"), Settings(temperature=0.5), Settings(stop=("END",))]


def sent(wire: str, model_id: str, settings: Settings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body, and what is said about it; what a model is known to refuse was left out before, as
    a run does.
    """
    model = model_of(wire, model_id, Listening())
    left_out = {name: None for name in settings.given & model.refuses}
    settings = msgspec.structs.replace(settings, **left_out)
    never = wire == "openai-chat" and gpt.MODELS[model_id].chat_tools == "never"
    tools = () if never else (LOOK,)
    body = json.loads(
        body_for(model, ModelRequest(messages=[Message.user("Hi")], tools=tools, settings=settings))
    )
    return body, (*left_out, *getattr(model, "notes", lambda _: ())(settings))  # type: ignore[no-any-return]


@pytest.mark.parametrize("wire", VENDORS)
def test_the_vendors_rules_cover_every_known_model(wire: str) -> None:
    assert set(known_ids(wire, None)) == set(MODELS[wire])


@pytest.mark.parametrize("wire", VENDORS)
def test_a_request_breaks_no_rule_of_any_model(wire: str) -> None:
    for model_id in MODELS[wire]:
        for thinking, effort, (choice, temperature, stop, most) in product(
            THINKING, EFFORTS, OTHERS
        ):
            settings = Settings(
                thinking=thinking,
                effort=effort,
                tool_choice=choice,
                temperature=temperature,
                stop=stop,
                max_tokens=most,
            )  # type: ignore[arg-type]
            body, _ = sent(wire, model_id, settings)
            assert RULES[wire].broken(Asked(model_id, body)) == [], (model_id, settings)


@pytest.mark.parametrize("wire", VENDORS)
def test_people_are_told_wherever_a_request_differs_from_its_settings(wire: str) -> None:
    """Equal bodies for different settings: one of the two differs, unless both mean the same."""
    for model_id in MODELS[wire]:
        plain, _ = sent(wire, model_id, Settings(show_thinking=False))
        rests = model_id in gemini.NEVER or plain.get("reasoning_effort") == "none"
        for settings in ASKED:
            body, told = sent(
                wire, model_id, msgspec.structs.replace(settings, show_thinking=False)
            )
            means_the_default = settings.thinking in (True, 20_000) or (
                settings.thinking is False and rests
            )
            if settings.tool_choice and "tools" not in body:
                continue
            assert told or means_the_default or body != plain, (
                model_id,
                settings,
                "is sent as if nothing had been asked for",
            )


@pytest.mark.parametrize(
    ("name", "settings", "notes"),
    [
        (
            "openai:gpt-6-astra",
            Settings(thinking=False),
            ("thinking cannot be disabled: effort is 'low'",),
        ),
        ("openai:gpt-6-sol", Settings(thinking=False, temperature=0.5), ()),
        (
            "openai:gpt-6-sol",
            Settings(temperature=0.5),
            ("temperature is not supported while it thinks: it was left out",),
        ),
        ("openai:gpt-5.4", Settings(temperature=0.5), ()),
        ("openai:gpt-5.4", Settings(thinking=True), ("thinking=True became effort='medium'",)),
        (
            "openai:gpt-5.4",
            Settings(thinking=8_000),
            ("a thinking budget is not supported: 8,000 tokens became effort='medium'",),
        ),
        ("openai:gpt-5-pro", Settings(effort="low"), ("effort='low' became 'high'",)),
        (
            "openai:gpt-5-mini",
            Settings(thinking=False),
            ("thinking cannot be disabled: effort is 'minimal'",),
        ),
        ("openai:gpt-of-tomorrow", Settings(thinking=True, effort="max", temperature=0.5), ()),
        (
            "openai-chat:gpt-6-luna",
            Settings(effort="high"),
            (
                "over Chat Completions it calls tools only without thinking: with tools, effort is 'none'",
            ),
        ),
        (
            "gemini:gemini-3.8-flash",
            Settings(thinking=False),
            ("thinking cannot be disabled: its level is 'low'",),
        ),
        (
            "gemini:gemini-3.6-flash",
            Settings(thinking=False),
            ("thinking cannot be disabled: its level is 'minimal'",),
        ),
        ("gemini:gemini-3.8-flash", Settings(effort="max"), ("effort='max' became 'high'",)),
        (
            "gemini:gemini-2.5-pro",
            Settings(thinking=False),
            ("thinking cannot be disabled: its budget is 128 tokens",),
        ),
        (
            "gemini:gemini-2.5-flash",
            Settings(thinking=50_000),
            ("a budget of 50,000 tokens for thinking became 24,576",),
        ),
        ("gemini:gemini-2.5-flash", Settings(thinking=False), ()),
    ],
)
def test_what_differs_from_the_request_is_told(
    name: str, settings: Settings, notes: tuple[str, ...]
) -> None:
    wire, _, model_id = name.partition(":")
    assert sent(wire, model_id, settings)[1] == notes


def test_a_model_that_calls_no_tools_over_chat_completions_names_the_way_that_does() -> None:
    model = model_of("openai-chat", "gpt-6-astra", Listening())
    with pytest.raises(AgentError, match="openai:gpt-6-astra"):
        body_for(
            model, ModelRequest(messages=[Message.user("Hi")], tools=(LOOK,), settings=Settings())
        )
