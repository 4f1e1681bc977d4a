"""Money on the command line: `run --max-cost`, `runs cost`, and where else a cost is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Answer, Cli
from tests.cli.test_agents import own
from treadle.types import Usage

PRICES = 'prices: {"script:*": {input: 1000, output: 10000, cache_read: 100}}\n'
UNUSED = dict.fromkeys(Usage.__struct_fields__, 0)
HI: dict[str, Any] = {
    "text": "hi",
    "usage": {**UNUSED, "input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 1000},
}
LOOKS: list[dict[str, Any]] = [
    {"tool_calls": [{"name": "glob", "arguments": {"pattern": f"{n}*"}}], "usage": HI["usage"]}
    for n in range(30)
]


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
    assert [event["cost_usd"] for event in streamed if event["type"] in ("usage", "run_end")] == [
        0.3,
        0.3,
    ]


def test_a_limit_on_money_needs_a_price_and_says_how_to_give_one(cli: Cli) -> None:
    refused = cli("run", "go", "--model", cli.script(HI), "--max-cost", "1")
    assert (refused.code, refused.out) == (2, "")
    assert "the price of 'script:" in refused.err
    assert "prices: {" in refused.err
    assert not json.loads(cli("runs", "list", "--json").out)


def test_a_run_stops_where_its_money_is_spent(cli: Cli) -> None:
    priced(cli)
    dear = [{**look, "usage": {**HI["usage"], "input_tokens": 5_000}} for look in LOOKS]
    ended = cli(
        "run",
        "go",
        "--model",
        cli.script(*dear),
        "--max-cost",
        "50",
        "--max-output-tokens",
        "10",
        "--output",
        "json",
    )
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
    assert (told.code, told.out) == (0, "No run has used any tokens yet.\n")
    assert cli("runs", "cost", "--json").json["rows"] == []
    assert not (cli.home / ".treadle").exists()


def test_costs_are_added_up_by_day_model_and_session(cli: Cli) -> None:
    written = {**HI["usage"], "cache_write_tokens": 500, "cache_write_1h_tokens": 200}
    cli(
        "run",
        "free of charge?",
        "--model",
        cli.script({**HI, "usage": written}),
        "--session",
        "unpriced",
    )
    priced(cli)
    for session in ("ada", "ada", "bob"):
        assert (
            cli("run", f"hello {session}", "--model", cli.script(HI), "--session", session).code
            == 0
        )
    by_session = cli("runs", "cost", "--by", "session", "--json").json
    assert [
        (row["session_id"], row["title"], row["runs"], row["cost_usd"])
        for row in by_session["rows"]
    ] == [
        ("ada", "hello ada", 2, 0.6),
        ("bob", "hello bob", 1, 0.3),
        ("unpriced", "free of charge?", 1, None),
    ]
    usage = {name: 3 * count + written[name] for name, count in HI["usage"].items()}
    assert by_session["total"] == {
        "runs": 4,
        "responses": 4,
        "unpriced": 1,
        "usage": usage,
        "cost_usd": 0.9,
    }
    (day,) = cli("runs", "cost", "--json").json["rows"]
    assert {name: day[name] for name in by_session["total"]} == by_session["total"]
    assert len(cli("runs", "cost", "--by", "model", "--json").json["rows"]) == 4
    assert len(cli("runs", "cost", "--by", "model", "--json", "--limit", "2").json["rows"]) == 2
    shown = cli("runs", "cost", "--by", "session")
    assert "$0.60" in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()[1:5]] == [
        "ada",
        "bob",
        "unpriced",
        "total",
    ]
    assert "hello ada" in shown.out
    assert "500 (200 1h)" in shown.out
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


# ---------------------------------------------------------------- runs that start runs


def tree(cli: Cli, *options: str, said: int = 10) -> Answer:
    """A run of $0.40 that starts one of $0.10 and $0.01 for each token that is `said`."""
    priced(cli)
    usage = {**UNUSED, "input_tokens": 100, "output_tokens": 10}
    helper = cli.script({"text": "ok", "usage": {**usage, "output_tokens": said}})
    own(cli, "agents/helper.md", f"---\ndescription: Helps\nmodel: {helper}\n---\nHelp.\n")
    calls = [{"name": "helper", "id": "h", "arguments": {"prompt": "x"}}]
    boss = cli.script({"tool_calls": calls, "usage": usage}, {"text": "done", "usage": usage})
    own(
        cli,
        "agents/boss.md",
        f"---\ndescription: Decides\nmodel: {boss}\ntools: [helper]\n---\nBoss.\n",
    )
    return cli("run", "go", "--agent", "boss", *options)


def test_a_run_that_started_another_shows_its_own_figures_and_the_total_everywhere(
    cli: Cli,
) -> None:
    answer = tree(cli)
    assert answer.code == 0, answer
    assert (
        "2 turns · 1 tool call · 220 tokens · $0.40 · total of 2 runs: 3 turns, 1 tool call, 330 tokens, $0.60"
        in answer.err
    )
    row = next(row for row in cli("runs", "list", "--json").rows if row["agent"] == "boss")
    assert (
        row["cost_usd"],
        row["total"]["cost_usd"],
        row["total"]["runs"],
        row["total"]["usage"]["input_tokens"],
    ) == (0.4, 0.6, 2, 300)
    lines = cli("runs", "list").out.splitlines()
    assert [line for line in lines if "220/330" in line and "$0.40/$0.60" in line]
    shown = cli("runs", "show", row["run_id"]).out
    assert "2 runs: 3 turns, 1 tool call, 330 tokens, $0.60" in " ".join(shown.split())
    assert cli("runs", "show", row["run_id"], "--json").json["total"]["cost_usd"] == 0.6


def test_an_end_by_a_limit_states_what_the_tree_spent(cli: Cli) -> None:
    answer = tree(cli, "--max-cost", "5", "--max-output-tokens", "10", said=1000)
    assert answer.code == 3, answer
    assert "(spent: $10.30 in 2 runs)" in answer.err


@pytest.mark.parametrize("by", ["user", "agent"])
def test_costs_are_listed_by_user_and_by_agent(cli: Cli, by: str) -> None:
    tree(cli)
    rows = {
        row[by]: row["cost_usd"] for row in cli("runs", "cost", "--by", by, "--json").json["rows"]
    }
    assert rows == ({"boss": 0.4, "helper": 0.2} if by == "agent" else {None: 0.6})
    assert ("(no user)" if by == "user" else "helper") in cli("runs", "cost", "--by", by).out
