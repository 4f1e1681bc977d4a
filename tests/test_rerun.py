"""What becomes of failed tests that are run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rerun import MOST, main

WITHOUT = "-p no:schemathesis -p no:inline_snapshot -p no:hypothesispytest -p no:treadle"
"""Plug-ins that take longer to import than the tests to run."""
TESTS = """
from pathlib import Path

def test_broken():
    assert False

def test_passes():
    pass

def test_fails_the_third_time():
    runs = Path(__file__).with_name("runs")
    runs.write_text(runs.read_text() + "." if runs.exists() else ".")
    assert len(runs.read_text()) < 3
"""


@pytest.mark.parametrize(
    ("failed", "code", "printed"),
    [
        pytest.param(["passes"], 0, ["FLAKY"], id="flaky"),
        pytest.param(["broken", "passes"], 1, ["FAILED AGAIN", "FLAKY"], id="broken"),
        pytest.param(["fails_the_third_time"], 1, ["FAILED AGAIN"], id="often broken"),
        pytest.param([f"other_{n}" for n in range(MOST + 1)], 1, [], id="too many"),
        pytest.param([], 1, [], id="none known"),
    ],
)
def test_only_a_few_failures_that_pass_alone_are_excused(
    tmp_path: Path,
    failed: list[str],
    code: int,
    printed: list[str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    tests = tmp_path / "test_some.py"
    tests.write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {WITHOUT}\n")
    last = tmp_path / "lastfailed"
    last.write_text(json.dumps({f"{tests}::test_{name}": True for name in failed}))
    assert main(last) == code
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("F")]
    assert [line.rpartition(" ")[0] for line in lines] == printed
