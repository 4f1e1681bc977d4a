"""What is said of a guard when it is broken: on a small tree, with tests that see it go, that do
not, that cannot run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guards.catalogue import Guard
from tests.guards.trial import Tree, Verdict

WITHOUT = "-p no:treadle -p no:schemathesis -p no:inline_snapshot -p no:hypothesispytest"
TESTS = """
import subprocess, sys
import pytest
from gate import is_open

def test_it_is_closed_to_strangers(): assert not is_open("stranger")
def test_programs_find_it_closed_too(): assert subprocess.run([sys.executable, "-c", "import gate; sys = gate.is_open('x'); exit(sys)"], env={}).returncode == 0
def test_it_is_there(): assert is_open
@pytest.mark.skip(reason="nobody is here")
def test_that_is_skipped(): ...
"""
TEXT = 'return who == "friend"'


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    small = tmp_path / "small"
    (small / "src").mkdir(parents=True)
    (small / "tests").mkdir()
    (small / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\naddopts = '{WITHOUT}'\n")
    (small / "src/gate.py").write_text(f"def is_open(who):\n    {TEXT}\n")
    (small / "tests/test_gate.py").write_text(TESTS)
    return Tree(tmp_path / "copy", small)


def guard(test: str, broken: str = "return True", text: str = TEXT) -> Guard:
    return Guard(
        name="a gate",
        file="src/gate.py",
        text=text,
        broken=broken,
        tests=(f"tests/test_gate.py::{test}",),
    )


@pytest.mark.parametrize(
    "test", ["test_it_is_closed_to_strangers", "test_programs_find_it_closed_too"]
)
def test_a_broken_guard_is_seen_and_stands_again_afterwards(tree: Tree, test: str) -> None:
    ran = tree.without(guard(test))
    assert (ran.verdict, ran.red) == (Verdict.RED, [f"tests/test_gate.py::{test}"])
    assert TEXT in (tree.root / "src/gate.py").read_text()


@pytest.mark.parametrize(
    ("broken", "verdict"),
    [
        pytest.param(guard("test_it_is_there"), Verdict.GREEN, id="a test that does not look"),
        pytest.param(guard("test_that_is_skipped"), Verdict.SKIPPED, id="a test that is skipped"),
        pytest.param(
            guard("test_it_is_closed_to_strangers", broken="return ("),
            Verdict.TROUBLE,
            id="a break that is no program",
        ),
        pytest.param(guard("test_that_is_gone"), Verdict.TROUBLE, id="a test that is gone"),
        pytest.param(
            guard("test_it_is_closed_to_strangers", text="return False"),
            Verdict.LOST,
            id="a text that is gone",
        ),
    ],
)
def test_what_proves_nothing_is_not_called_red(tree: Tree, broken: Guard, verdict: Verdict) -> None:
    assert tree.without(broken).verdict is verdict
