"""What plain `pytest` leaves out is marked, is said at the end, and runs as soon as somebody names
it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.selection import LEFT_OUT, PLACES, ROOT

CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests import selection
selection.ROOT = Path(__file__).parents[1]
from tests.conftest import pytest_addoption, pytest_configure
"""
CONFIG = f'[tool.pytest]\ntestpaths = ["tests"]\nmarkers = {[*LEFT_OUT]}\naddopts = ["-n1", "-p", "no:schemathesis", "-p", "no:inline_snapshot", "-p", "no:treadle", "-p", "no:cacheprovider"]\n'


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project with one test that stays, one below tests/crash and one that asks for a PostgreSQL."""
    for folder in ("tests", "tests/crash"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{Path(folder).name}.py").write_text("def test_it(): ...\n")
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)
    with (tmp_path / "tests/test_tests.py").open("a") as file:
        file.write(
            "import pytest\n@pytest.fixture\ndef postgres_url(): ...\ndef test_rows(postgres_url): ...\n"
        )
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        pytest.param((), 1, id="plain"),
        pytest.param(("--all",), 3, id="everything"),
        pytest.param(("-n0", "tests/crash"), 1, id="a folder"),
        pytest.param(("-n0", "-m", "postgres"), 1, id="a mark"),
        pytest.param(("tests",), 3, id="the folder of all"),
    ],
)
def test_what_costs_most_runs_where_it_is_named(
    small: Path, arguments: tuple[str, ...], passed: int
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=small,
        capture_output=True,
        text=True,
        timeout=140,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{passed} passed" in ran.stdout
    said = "2 tests that cost more were left out: 1 crash, 1 postgres" in ran.stdout
    assert said == (not arguments), ran.stdout


def test_places_are_there_and_marks_are_known() -> None:
    assert [
        place for places in PLACES.values() for place in places if not (ROOT / place).exists()
    ] == []
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"][
        "markers"
    ]
    assert sorted(line.partition(":")[0] for line in known) == sorted(LEFT_OUT)
    assert set(PLACES) < set(LEFT_OUT)
