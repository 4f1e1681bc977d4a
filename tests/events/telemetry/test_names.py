"""Names that leave are those of the conventions, or listed as ours."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.doubles import asks, call, fails, gives, open_runtime, says, watch
from tests.events.telemetry.traces import Watched, told
from treadle.events.telemetry import names
from treadle.types import StopReason

INCUBATING = "opentelemetry.semconv._incubating"


def constants(module: str) -> set[str]:
    found = vars(importlib.import_module(module))
    return {value for name, value in found.items() if name.isupper() and isinstance(value, str)}


def of_the_conventions() -> set[str]:
    return (
        constants(f"{INCUBATING}.attributes.gen_ai_attributes")
        | constants(f"{INCUBATING}.attributes.user_attributes")
        | constants("opentelemetry.semconv.attributes.error_attributes")
    )


def test_every_attribute_is_one_of_the_conventions_or_listed_as_ours() -> None:
    attributes = {
        value
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, str) and "." in value
    }
    attributes |= {*names.RATE_LIMITS.values()}
    metrics = {names.OPERATION_DURATION, names.TOKEN_USAGE, names.TIME_TO_FIRST_CHUNK}
    assert attributes - metrics - {names.RETRY} - of_the_conventions() == names.OURS
    assert metrics <= constants(f"{INCUBATING}.metrics.gen_ai_metrics")
    assert set(names.TOOL_KIND.values()) <= of_the_conventions() | names.OURS


def test_operations_are_those_of_the_conventions() -> None:
    gen_ai: Any = importlib.import_module(f"{INCUBATING}.attributes.gen_ai_attributes")
    assert {names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL} <= {
        one.value for one in gen_ai.GenAiOperationNameValues
    }


async def test_a_whole_run_says_nothing_under_another_name() -> None:
    watched = Watched(content=True)
    script = [fails("rate_limit"), asks(call("look"), call("none")), says("hi")]
    await watch(script, gives("look"), runtime=open_runtime(tracer=watched.tracer), session="ada")
    said = {key for span in watched.spans for key in told(span)} | {
        key for span in watched.spans for event in span.events for key in event.attributes or {}
    }
    assert said <= of_the_conventions() | names.OURS
    assert names.INPUT_MESSAGES in said


@pytest.mark.parametrize(
    ("model", "told_as"),
    [
        ("anthropic:claude-opus-5-5", ("anthropic", "claude-opus-5-5")),
        ("openai-chat:any", ("openai", "any")),
        ("gemini:flash", ("gcp.gemini", "flash")),
        ("local:a:b", ("local", "a:b")),
        ("nothing", ("", "nothing")),
    ],
)
def test_a_models_name_is_told_as_provider_and_model(model: str, told_as: tuple[str, str]) -> None:
    assert names.provider_and_model(model) == told_as


def test_every_stop_reason_has_a_word() -> None:
    assert set(names.FINISH) == set(StopReason)
