"""Prices in the configuration: of a model or of all of a provider, in the user's own file alone."""

from __future__ import annotations

import pytest

from tests.config.test_layers import Place
from tests.config.test_layers import place as place
from treadle.config import Price


def test_prices_are_said_by_model_or_for_all_others_of_a_provider(place: Place) -> None:
    place.mine(
        'prices:\n  "local:any-model": {input: 0.5, output: 1.5, cache_read: 0.05, cache_write: 0.6}\n  "local:*": {input: 0, output: 0}\n'
        '  "script:/some where/talk.json": {input: 1, output: 2}\n'
    )
    config = place.load()
    assert config.prices == {
        "local:any-model": Price(input=0.5, output=1.5, cache_read=0.05, cache_write=0.6),
        "local:*": Price(input=0, output=0),
        "script:/some where/talk.json": Price(input=1, output=2),
    }
    assert ("prices.'local:*'.input", 0) in [(row.key, row.value) for row in config.rows()]
    assert config.origin("prices", "local:*", "input").line == 3


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('prices:\n  "a:b": {input: -1, output: 1}', 2, "USD for a million tokens"),
        ('prices:\n  "a:b":\n    input: cheap\n    output: 1', 3, "not 'cheap'"),
        ('prices:\n  "a:b": {input: .inf, output: 1}', 2, "a number of at least 0"),
        ('prices:\n  "a:b": {input: true, output: 1}', 2, "not true"),
        ('prices:\n  "a:b": {input: 1}', 2, "needs output too"),
        ('prices:\n  "a:b": {cache_read: 1}', 2, "needs input and output too"),
        ('prices:\n  "a:b": {input: 1, output: 1, inptu: 1}', 2, "did you mean 'input'"),
        ("prices:\n  model: {input: 1, output: 1}", 2, "'model' cannot be a name in prices"),
    ],
)
def test_what_is_no_price_is_told_with_its_line(
    place: Place, text: str, line: int, told: str
) -> None:
    place.mine(text)
    assert place.wrong().startswith(f"{place.own}:{line}: ")
    assert told in place.wrong()


def test_a_workspace_cannot_say_what_a_model_costs(place: Place) -> None:
    place.says('prices:\n  "anthropic:*": {input: 0, output: 0}\n')
    config = place.load(trusted=True)
    assert config.prices == {}
    assert f"{place.theirs}:2: " in config.warnings[0]
    assert "only your own configuration" in config.warnings[0]
