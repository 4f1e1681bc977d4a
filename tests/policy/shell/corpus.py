"""The attack corpora beside the checkout, and a workspace like the one that they were measured in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.policy.decision import STRICTNESS, Verdict

FOLDER = Path(__file__).parents[3] / "../shared/attacks"
needs_corpus = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the attack corpora lie beside the checkout, and are not there"
)


def cases(name: str) -> list[dict[str, Any]]:
    file = FOLDER / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def is_looser(verdict: Verdict, expected: Verdict) -> bool:
    return STRICTNESS.index(verdict) < STRICTNESS.index(expected)


def workspace(top: Path) -> Path:
    place = top / "proj"
    (place / "src").mkdir(parents=True)
    (place / "dir").mkdir()
    (place / "a.txt").write_text("a\nfoo\n")
    (place / "src/main.py").write_text("import os\n")
    (place / "src/m.py").write_text("x = 1\n")
    (place / ".git/hooks").mkdir(parents=True)
    (place / ".git/config").write_text("[core]\n")
    return place
