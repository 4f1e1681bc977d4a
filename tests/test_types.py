"""The plain values: immutable, additive, and at home in JSON and in pydantic models."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples_of, values_of, without_half_pairs
from treadle.errors import AgentError
from treadle.journal.entries import Entry, Record
from treadle.messages.events import ErrorInfo, Event
from treadle.messages.message import Message, Part, TextPart
from treadle.messages.metrics import RunMetrics
from treadle.models.model import ModelRequest, ModelResponse, ToolDefinition
from treadle.types import Limits, Settings, StopReason, SystemBlock, Usage, Value, new_id, now

PLAIN: list[type[Value]] = [
    Usage,
    Settings,
    Limits,
    SystemBlock,
    RunMetrics,
    ToolDefinition,
    ErrorInfo,
    ModelResponse,
    ModelRequest,
    Message,
    Record,
]
KINDS: list[type[Value]] = [*PLAIN, *get_args(Part), *get_args(Event), *get_args(Entry)]


def name_of(kind: type) -> str:
    return f"{kind.__module__.removeprefix('treadle.')}.{kind.__name__}"


def example(kind: type[Value]) -> Value:
    return examples_of(kind)[0]


# ---------------------------------------------------------------- every value


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_a_value_cannot_be_changed(kind: type[Value]) -> None:
    value = example(kind)
    name = kind.__struct_fields__[0]
    with pytest.raises(AttributeError, match="immutable"):
        setattr(value, name, getattr(value, name))
    with pytest.raises(AttributeError):
        value.surprise = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_a_value_is_made_by_naming_its_fields(kind: type[Value]) -> None:
    with pytest.raises(TypeError, match=r"keyword arguments only|positional"):
        kind("by place")  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", PLAIN, ids=name_of)
def test_a_value_survives_json(kind: type[Value]) -> None:
    @settings(max_examples=40)
    @given(values_of(kind))
    def holds(value: Value) -> None:
        data = value.to_json()
        assert kind.from_json(data) == value
        assert kind.from_json(data.decode()) == value

    holds()


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@pytest.mark.parametrize(
    "data", [b"", b"[]", b"5", b'{"', b"\xff", b"[" * 10_000, "\ud800", '"\\ud800"']
)
def test_what_is_no_such_value_is_refused_as_invalid(kind: type[Value], data: bytes | str) -> None:
    with pytest.raises(AgentError) as caught:
        kind.from_json(data)
    assert caught.value.kind == "invalid"


def test_values_with_equal_fields_are_equal_and_hash_alike() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    one, other = (
        Message(id="m", role="user", parts=(TextPart(text="x"),), created_at=at) for _ in range(2)
    )
    assert one == other
    assert len({one, other}) == 1
    assert len({Usage(), Usage(), Usage(input_tokens=1)}) == 2
    assert len({Limits(turns=1), Limits(turns=1)}) == 1


# ---------------------------------------------------------------- pydantic


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_a_value_can_be_a_field_of_a_pydantic_model(kind: type[Value]) -> None:
    model = pydantic.create_model("Holder", value=(kind, ...), more=(list[kind] | None, None))  # type: ignore[valid-type]
    value = kind.from_json(without_half_pairs(example(kind).to_json()))
    from_instance = model(value=value)
    assert from_instance.value is value
    plain = json.loads(value.to_json())
    for held in (
        model(value=plain),
        model.model_validate_json(json.dumps({"value": plain, "more": [plain]})),
    ):
        assert held.value == value
        assert held.model_dump(mode="json")["value"] == plain
        assert json.loads(held.model_dump_json())["value"] == plain
        assert model(**held.model_dump()) == held


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_a_value_in_a_pydantic_model_has_a_json_schema_that_it_fits(kind: type[Value]) -> None:
    """Without one, FastAPI cannot show the API that the model belongs to."""
    model = pydantic.create_model("Holder", value=(kind, ...))
    for mode in ("validation", "serialization"):
        schema = model.model_json_schema(mode=mode, ref_template="#/components/schemas/{model}")
        validator = jsonschema_rs.Draft202012Validator(schema)
        validator.validate({"value": json.loads(without_half_pairs(example(kind).to_json()))})
        assert not validator.is_valid({"value": 5})


@pytest.mark.parametrize("wrong", [5, "x", None, {"input_tokens": "many"}, {1, 2}, object()])
def test_pydantic_says_where_a_value_does_not_fit(wrong: object) -> None:
    model = pydantic.create_model("Holder", usage=(Usage, ...))
    with pytest.raises(pydantic.ValidationError) as caught:
        model(usage=wrong)
    assert caught.value.errors()[0]["loc"] == ("usage",)


def test_pydantic_takes_python_values_in_the_place_of_their_json() -> None:
    model = pydantic.create_model("Holder", message=(Message, ...))
    at = datetime(2026, 11, 20, tzinfo=UTC)
    held = model(
        message={
            "id": "m",
            "role": "user",
            "parts": ({"type": "text", "text": "x"},),
            "created_at": at,
        }
    )
    assert held.message == Message(id="m", role="user", parts=(TextPart(text="x"),), created_at=at)


# ---------------------------------------------------------------- usage


usages = values_of(Usage)


@given(usages, usages, usages)
def test_usages_add_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == c + (b + a)
    assert a + Usage() == a
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens
    assert sum([a, b, c], Usage()) == a + b + c


def test_all_that_was_read_counts_as_input_and_reasoning_counts_once() -> None:
    usage = Usage(
        input_tokens=1,
        output_tokens=20,
        cache_read_tokens=300,
        cache_write_tokens=4_000,
        reasoning_tokens=15,
    )
    assert usage.total_input_tokens == 4_301
    assert usage.total_tokens == 4_321


def test_a_usage_says_every_count_in_json() -> None:
    assert json.loads(Usage(input_tokens=3).to_json()) == {
        "input_tokens": 3,
        "output_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
        "cache_write_1h_tokens": 0,
        "web_searches": 0,
    }


# ---------------------------------------------------------------- settings


settings_values = values_of(Settings)


@given(settings_values, settings_values)
def test_what_is_left_open_comes_from_the_layer_below(mine: Settings, lower: Settings) -> None:
    merged = mine.over(lower)
    for name in Settings.__struct_fields__:
        own = getattr(mine, name)
        assert getattr(merged, name) == (own if own is not None else getattr(lower, name))
    assert merged.given == mine.given | lower.given


def test_what_is_off_is_given_and_not_left_open() -> None:
    mine = Settings(thinking=False, temperature=0.0, stop=(), cache=False)
    assert mine.given == {"thinking", "temperature", "stop", "cache"}
    assert mine.over(Settings(thinking=True, temperature=1.0, stop=("x",), cache=True)) == mine
    assert Settings().given == frozenset()


@pytest.mark.parametrize("tokens", [0, -1, True, 1.5, "8192"])
def test_max_tokens_is_a_whole_number_of_at_least_one(tokens: Any) -> None:
    with pytest.raises(AgentError, match=re.escape(f"Settings(max_tokens={tokens!r})")) as caught:
        Settings(max_tokens=tokens)
    assert caught.value.kind == "invalid"


def test_one_stop_sequence_is_still_a_tuple() -> None:
    """A bare text would be taken letter by letter."""
    with pytest.raises(AgentError, match=r"stop='END'.*stop=\('END',\)"):
        Settings(stop="END")  # type: ignore[arg-type]


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("name", Limits.__struct_fields__)
@pytest.mark.parametrize(
    "value", [0, -1, math.nan, math.inf, True, "5", [], Fraction(1, 2), Decimal(1)], ids=repr
)
def test_a_limit_is_a_number_greater_than_zero(name: str, value: Any) -> None:
    with pytest.raises(AgentError, match=re.escape(f"Limits({name}={value!r})")) as caught:
        Limits(**{name: value})
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("name", ["turns", "tool_calls", "tokens"])
def test_what_is_counted_is_limited_to_whole_numbers(name: str) -> None:
    assert getattr(Limits(**{name: 1}), name) == 1
    with pytest.raises(AgentError, match=rf"Limits\({name}=1.5\): .*whole number of at least 1"):
        Limits(**{name: 1.5})


@pytest.mark.parametrize("name", ["seconds", "cost_usd"])
def test_seconds_and_money_may_be_fractions(name: str) -> None:
    assert getattr(Limits(**{name: 0.01}), name) == 0.01
    assert getattr(Limits(**{name: 3}), name) == 3


def test_no_limit_is_none() -> None:
    assert all(getattr(Limits(), name) is None for name in Limits.__struct_fields__)
    assert Limits().to_json() == b"{}"


def test_limits_are_checked_where_they_come_from_json_too() -> None:
    with pytest.raises(AgentError, match="turns=0"):
        Limits.from_json('{"turns":0}')


# ---------------------------------------------------------------- ids and words


def test_ids_are_unique_and_sort_by_the_time_they_were_made() -> None:
    ids = [new_id("run") for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert all(re.fullmatch(r"run_[0-9a-f]{26}", one) for one in ids)
    times = [one[:16] for one in ids]
    assert times == sorted(times)


def test_now_is_an_aware_time() -> None:
    assert now().tzinfo is UTC


@given(st.sampled_from(StopReason))
def test_reasons_are_their_words(reason: StopReason) -> None:
    assert json.dumps(reason) == f'"{reason.value}"'
    assert str(reason) == reason.value
