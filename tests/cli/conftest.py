"""The command line as a person uses it: a real process, a fresh home, nothing of our environment but what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

KEY = "sk-ant-api03-CANARY-4471bd02c9"


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs `treadle` in its own home and workspace."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.workspace = tmp_path / "work"
        self.home.mkdir()
        self.workspace.mkdir()

    def environment(self, **extra: str) -> dict[str, str]:
        base = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "NO_COLOR": "1", "NO_PROXY": "*"}
        return {**base, **extra}

    def __call__(self, *arguments: str, stdin: str | None = None, **environment: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "treadle", *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            cwd=self.workspace,
            env=self.environment(**environment),
            timeout=50,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in answer.out + answer.err, answer
        assert KEY not in answer.out + answer.err, answer
        return answer

    def script(self, *entries: dict[str, Any]) -> str:
        path = self.home / f"script-{len(list(self.home.iterdir()))}.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        return f"script:{path}"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)
