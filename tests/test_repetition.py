"""When a run goes in circles: more than five times the same in the last ten, or three times the same error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.message import MediaPart, TextPart, ToolCall, ToolResult
from treadle.repetition import Repetition


def call(name: str = "f", arguments: str = "{}") -> ToolCall:
    return ToolCall(id="c", name=name, arguments_json=arguments)


def result(text: str = "ok", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id="c", name="f", content=text, is_error=is_error)


def found(*steps: tuple[ToolCall, ToolResult]) -> list[bool]:
    repetition = Repetition()
    return [repetition.found(*step) for step in steps]


def test_the_sixth_time_the_same_is_a_circle() -> None:
    assert found(*[(call(), result())] * 7) == [False] * 5 + [True, True]


def test_the_third_time_the_same_error_is_a_circle() -> None:
    assert found(*[(call(), result("no", is_error=True))] * 4) == [False, False, True, True]


def test_ids_make_no_difference() -> None:
    repetition = Repetition()
    steps = [(ToolCall(id=f"c{n}", name="f"), ToolResult(call_id=f"c{n}", name="f", content="ok")) for n in range(6)]
    assert [repetition.found(*step) for step in steps][-1]


@pytest.mark.parametrize(
    "other",
    [(call("g"), result()), (call("f", '{"a":1}'), result()), (call(), result("other")), (call(), result("ok", is_error=True))],
    ids=["another tool", "other arguments", "another result", "an error"],
)
def test_what_differs_is_not_the_same(other: tuple[ToolCall, ToolResult]) -> None:
    same = (call(), result())
    assert not any(found(*[same] * 5, other))


def test_progress_in_a_result_is_no_circle() -> None:
    assert not any(found(*[(call(), result(f"{n} lines left")) for n in range(50)]))


def test_five_in_every_ten_is_still_allowed() -> None:
    same, other = (call(), result()), [(call("g", f"{n}"), result()) for n in range(100)]
    assert not any(found(*[step for n in range(100) for step in (same, other[n])]))


def test_six_among_ten_others_is_a_circle() -> None:
    same, other = (call(), result()), [(call("g", f"{n}"), result()) for n in range(4)]
    assert found(*other, *[same] * 6)[-1]
    assert found(same, other[0], same, other[1], same, other[2], same, other[3], same, same)[-1]


def test_what_lies_more_than_ten_back_is_forgotten() -> None:
    error, other = (call(), result("no", is_error=True)), [(call("g", f"{n}"), result()) for n in range(9)]
    assert not any(found(error, error, *other, error))
    assert found(error, error, *other[:7], error)[-1]


def test_pictures_that_differ_are_progress() -> None:
    def shot(data: str) -> ToolResult:
        return ToolResult(call_id="c", name="f", content=(TextPart(text="the screen"), MediaPart(media_type="image/png", data=data)))

    assert not any(found(*[(call(), shot(f"{n}")) for n in range(10)]))
    assert found(*[(call(), shot("same"))] * 6)[-1]


@given(st.lists(st.tuples(st.sampled_from("fg"), st.sampled_from("xy"), st.booleans()), max_size=30))
def test_a_circle_is_what_a_count_of_the_last_ten_says(steps: list[tuple[str, str, bool]]) -> None:
    said = found(*[(call(name), result(text, is_error=is_error)) for name, text, is_error in steps])
    for place, step in enumerate(steps):
        assert said[place] is (steps[max(0, place - 9) : place + 1].count(step) > (2 if step[2] else 5))
