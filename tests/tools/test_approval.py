"""What a person says of a call: told at once where no journal could keep it."""

from __future__ import annotations

from typing import Any

import pytest

from treadle import AgentError, Approve


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({1: 2}, "Approve({1: 2}): pass all arguments by their names"),
        (["a.txt"], "Approve(['a.txt']): pass all arguments by their names"),
    ],
)
def test_arguments_that_no_call_could_have_are_refused_where_they_are_given(
    arguments: Any, told: str
) -> None:
    with pytest.raises(AgentError) as caught:
        Approve(arguments)
    assert caught.value.kind == "invalid"
    assert told in caught.value.message


def test_what_can_be_written_is_approved() -> None:
    assert Approve().arguments is None
    assert Approve({}).arguments == {}
    assert Approve({"path": "a.txt", "lines": [1, None]}).arguments == {
        "path": "a.txt",
        "lines": [1, None],
    }
