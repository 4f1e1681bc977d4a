"""Money on the command line: `run --max-cost`, `runs cost`, and where else a cost is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli

PRICES = 'prices: {"script:*": {input: 1000, output: 10000, cache_read: 100}}\n'
HI: dict[str, Any] = {
    "text": "hi",
    "usage": {"input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 1000, "cache_write_tokens": 0, "reasoning_tokens": 0},
}
LOOKS: list[dict[str, Any]] = [{"tool_calls": [{"name": "glob", "arguments": {"pattern": f"{n}*"}}], "usage": HI["usage"]} for n in range(30)]


def priced(cli: Cli) -> None:
    (cli.home / ".treadle").mkdir(exist_ok=True)
    file = cli.home / ".treadle" / "config.yaml"
    file.write_text(PRICES)
    file.chmod(0o600)


def test_a_run_says_what_it_cost_where_that_is_known(cli: Cli) -> None:
    unknown = cli("run", "go", "--model", cli.script(HI))
    assert "$" not in unknown.err
    priced(cli)
    assert "· $0.30 ·" in cli("run", "go", "--model", cli.script(HI)).err
    assert cli("run", "go", "--model", cli.script(HI), "--output", "json").json["cost_usd"] == 0.3
    streamed = cli("run", "go", "--model", cli.script(HI), "--output", "stream-json").events
    assert [event["cost_usd"] for event in streamed if event["type"] in ("usage", "run_end")] == [0.3, 0.3]


def test_a_limit_on_money_needs_a_price_and_says_how_to_give_one(cli: Cli) -> None:
    refused = cli("run", "go", "--model", cli.script(HI), "--max-cost", "1")
    assert (refused.code, refused.out) == (2, "")
    assert "the price of 'script:" in refused.err
    assert "prices: {" in refused.err
    assert not json.loads(cli("runs", "list", "--json").out)


def test_a_run_stops_where_its_money_is_spent(cli: Cli) -> None:
    priced(cli)
    dear = [{**look, "usage": {**HI["usage"], "input_tokens": 5_000}} for look in LOOKS]
    ended = cli("run", "go", "--model", cli.script(*dear), "--max-cost", "50", "--max-output-tokens", "10", "--output", "json")
    assert (ended.code, ended.json["outcome"]) == (3, "cost_limit")
    assert 0 < ended.json["cost_usd"] <= 50
    assert "--max-cost" in cli("run", "go", "--model", cli.script(HI), "--max-cost", "0.0001").err


@pytest.mark.parametrize("wrong", ["0", "-1", "cheap"])
def test_what_is_no_money_is_wrong_use(cli: Cli, wrong: str) -> None:
    assert cli("run", "go", "--model", cli.script(HI), "--max-cost", wrong).code == 2


def test_a_configured_limit_holds_and_the_option_goes_before_it(cli: Cli) -> None:
    priced(cli)
    file = cli.home / ".treadle" / "config.yaml"
    file.write_text(PRICES + "limits: {cost_usd: 0.0001}\n")
    assert cli("run", "go", "--model", cli.script(HI)).code == 3
    assert cli("run", "go", "--model", cli.script(HI), "--max-cost", "1000").code == 0


# ---------------------------------------------------------------- runs cost


def test_where_nothing_was_run_nothing_was_spent(cli: Cli) -> None:
    told = cli("runs", "cost")
    assert (told.code, told.out) == (0, "No run has taken anything yet.\n")
    assert cli("runs", "cost", "--json").json["rows"] == []
    assert not (cli.home / ".treadle").exists()


def test_costs_are_added_up_by_day_model_and_session(cli: Cli) -> None:
    cli("run", "free of charge?", "--model", cli.script(HI), "--session", "unpriced")
    priced(cli)
    for session in ("ada", "ada", "bob"):
        assert cli("run", f"hello {session}", "--model", cli.script(HI), "--session", session).code == 0
    by_session = cli("runs", "cost", "--by", "session", "--json").json
    assert [(row["session_id"], row["title"], row["runs"], row["cost_usd"]) for row in by_session["rows"]] == [
        ("ada", "hello ada", 2, 0.6),
        ("bob", "hello bob", 1, 0.3),
        ("unpriced", "free of charge?", 1, None),
    ]
    usage = {name: 4 * count for name, count in HI["usage"].items()}
    assert by_session["total"] == {"runs": 4, "responses": 4, "unpriced": 1, "usage": usage, "cost_usd": 0.9}
    (day,) = cli("runs", "cost", "--json").json["rows"]
    assert {name: day[name] for name in by_session["total"]} == by_session["total"]
    assert len(cli("runs", "cost", "--by", "model", "--json").json["rows"]) == 4
    assert len(cli("runs", "cost", "--by", "model", "--json", "--limit", "2").json["rows"]) == 2
    shown = cli("runs", "cost", "--by", "session")
    assert "$0.60" in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()[1:5]] == ["ada", "bob", "unpriced", "total"]
    assert "hello ada" in shown.out
    assert "unknown" in shown.out
    assert "$0.90 + unknown" in shown.out
    assert "1 response had no known price" in shown.out
    assert "$0.00" not in shown.out
    assert "2 more rows" in cli("runs", "cost", "--by", "model", "--limit", "2").out
    assert cli("runs", "cost", "--last", "1").out == cli("runs", "cost").out


def test_lists_and_timelines_show_a_cost_that_is_known(cli: Cli) -> None:
    cli("run", "one", "--model", cli.script(HI))
    assert "COST" not in cli("runs", "list").out
    priced(cli)
    cli("run", "two", "--model", cli.script(HI))
    listed = cli("runs", "list").out
    assert "COST" in listed
    assert "$0.30" in listed
    assert "unknown" in listed
    assert [row["cost_usd"] for row in json.loads(cli("runs", "list", "--json").out)] == [0.3, None]
    assert "$0.30" in cli("runs", "show", "last").out
    assert cli("runs", "show", "last", "--json").json["cost_usd"] == 0.3
