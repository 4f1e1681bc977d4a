"""A failed test gets a second run of its own; what fails again stays failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_selection import ROOT, small

__all__ = ["small"]

UNSTABLE = """
from pathlib import Path
def test_second_time():
    seen = Path(__file__).with_suffix(".seen")
    there = seen.exists()
    seen.touch()
    assert there
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=50,
    )


@pytest.mark.parametrize(
    ("source", "ends", "says"),
    [
        pytest.param(UNSTABLE, 0, "::test_second_time", id="unstable"),
        pytest.param("def test_it(): assert 0\n", 1, "failed again", id="failing"),
        pytest.param(
            "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n): assert 0\n",
            1,
            "",
            id="too many",
        ),
    ],
)
def test_what_fails_runs_once_more_alone(small: Path, source: str, ends: int, says: str) -> None:
    config = small / "pyproject.toml"
    config.write_text(config.read_text().replace(', "-p", "no:cacheprovider"', ""))
    (small / "tests/test_added.py").write_text(source)
    assert run(small, "pytest", "--all", "-n0").returncode == 1
    ran = run(small, "tests.again", "1")
    assert ran.returncode == ends, ran.stdout + ran.stderr
    assert says in ran.stdout
    assert ("UNSTABLE" in ran.stdout) == (ends == 0)
    assert ("run once more" in ran.stdout) == bool(says)


def test_a_run_that_ended_otherwise_is_not_repeated(small: Path) -> None:
    assert run(small, "tests.again", "3").returncode == 3
