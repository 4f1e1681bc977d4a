"""Patterns of the small language stand for the names that bash puts in their place."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profiles import BY_CHANCE
from treadle.policy.shell.globs import MAX_NAMES, TooManyNames, expand

BASH = shutil.which("bash")
NAMES = [
    "a",
    "b.py",
    "ab.py",
    ".env",
    ".x",
    "-delete",
    "--pre=x",
    "a b",
    "a'b",
    "[a]",
    "a\\b",
    "ä",
    "z\nz",
    "*",
    "?",
    "d/a",
    "d/b.py",
    "d/.h",
    "d/e/b.py",
    "A",
    "B.PY",
]
PIECES = [
    "a",
    "b",
    ".py",
    "*",
    "?",
    "**",
    "d/",
    "/",
    "./",
    "../",
    ".",
    "-",
    "[a]",
    "e",
    "ä",
    "x",
    "--pre=",
    "*/",
]


def expanded(value: str, folder: Path) -> list[str] | None:
    wild = frozenset(i for i, c in enumerate(value) if c in "*?")
    try:
        return expand(
            value,
            wild,
            str(folder),
            lambda place: place == str(folder) or place.startswith(f"{folder}/"),
        )
    except TooManyNames:
        return None


def by_bash(value: str, folder: Path) -> list[str]:
    """`value` with its `*` and `?` as patterns, all else quoted."""
    word = "".join(c if c in "*?" else f"'{c}'" if c != "'" else '"\'"' for c in value)
    assert BASH is not None
    command = [BASH, "-c", f"printf '%s\\0' {word}"]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        timeout=10,
        check=True,
        env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"},
    )
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.skipif(BASH is None, reason="needs bash")
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_a_pattern_is_expanded_as_bash_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folder = tmp_path / str(seed)
    (folder / "d/e").mkdir(parents=True, exist_ok=True)
    for name in chance.sample(NAMES, 12):
        (folder / name).write_text("")
    (folder / "out").symlink_to(tmp_path)
    value = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 5)))
    try:
        found = expanded(value, folder) if set(value) & set("*?") else None
        if found is not None:
            assert sorted(found) == sorted(by_bash(value, folder)), value
    finally:
        shutil.rmtree(folder)


def test_a_pattern_that_stands_for_too_much_or_leads_out_is_not_expanded(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "out").symlink_to("/etc")
    assert expanded("../*", folder) is None
    assert expanded("out/*", folder) is None
    assert expanded("/etc/*", folder) is None
    assert expanded(".*", folder) is None
    assert expanded("*a*a*a*a*a", folder) is None
    for i in range(MAX_NAMES + 1):
        (folder / f"f{i}").write_text("")
    assert expanded("f*", folder) is None
    assert expanded("f1?", folder) is not None
