"""Values in an export that no run has: they are refused, or no command minds them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.exports import call_of, finished, lines, odd, responded, started
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli


@pytest.mark.parametrize("seed", SEEDS)
def test_an_odd_value_in_an_export_breaks_no_command(cli: Cli, seed: int) -> None:
    text = odd(chance(seed, "odd"))
    imported = cli("runs", "import", "-", stdin=text)
    answers = [imported]
    if imported.code == 0:
        there = cli("runs", "list", "--json").rows[0]["run_id"]
        model = cli.script({"text": "done"})
        for command in (
            ("list",),
            ("replay", there),
            ("diff", there, there),
            ("show", there),
            ("show", there, "--json"),
            ("export", there),
            ("resume", there, "--model", model),
            ("prune", "--older-than", "1d", "--json", "--yes"),
        ):
            answers.append(cli("runs", *command))
        answers.append(cli("runs", "cost"))
    for answer in answers:
        assert "bug in Treadle" not in answer.err, (text, answer)
        assert answer.code in (0, 2, 3, 4), (text, answer)


@pytest.mark.parametrize("figure", [-1, 10**30, 2**63])
def test_an_impossible_figure_is_refused_with_its_name(cli: Cli, figure: int) -> None:
    text = lines(started(), {**finished(), "turns": figure})
    refused = cli("runs", "import", "-", stdin=text)
    assert refused.code == 2
    assert "bug in Treadle" not in refused.err
    assert "standard input:2: " in refused.err or "its turns must be a number" in refused.err


FUTURE = "9998-01-01T00:00:00Z"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_time_in_the_future_is_refused_with_the_file_and_the_entry(cli: Cli, number: int) -> None:
    """Retention never removed such a run, and a resume ended at its time limit."""
    entries = [started(), *responded(call_of("bash", {"command": "ls"})), finished()]
    entries[number - 1] = {**entries[number - 1], "at": FUTURE}
    (cli.workspace / "run.jsonl").write_text(lines(*entries))
    refused = cli("runs", "import", "run.jsonl")
    assert refused.code == 2
    assert (
        f"run.jsonl: entry {number}: its time 9998-01-01T00:00:00+00:00 is more than a day ahead"
        in (refused.err)
    )
    assert cli("runs", "list", "--json").rows == []


def test_a_time_some_hours_ahead_is_a_clock_that_differs(cli: Cli) -> None:
    at = (datetime.now(UTC) + timedelta(hours=12)).isoformat()
    assert cli("runs", "import", "-", stdin=lines({**started(), "at": at})).code == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes(range(256)) * 9, "1: this is not an export"),
        (b"\x1f\x8b\x08\x00abc", "1: this is not an export"),
        (b"PK\x03\x04", "1: this is not an export"),
        (b"hello\n", "1: this is not an export"),
        (lines(started()).encode() + b'{"seq":2,"type":"model.res', "2: the file ends within"),
    ],
    ids=["bytes", "gzip", "zip", "text", "cut"],
)
def test_a_file_that_is_no_whole_export_is_named_with_the_way_on(
    cli: Cli, data: bytes, reason: str
) -> None:
    file = cli.workspace / "run.jsonl"
    file.write_bytes(data)
    answer = cli("runs", "import", str(file))
    assert answer.code == 2
    assert f"{file}:{reason}" in answer.err
    assert answer.err.rstrip().endswith("Nothing was imported")
    assert "codec" not in answer.err
