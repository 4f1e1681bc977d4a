"""The command line as a person uses it: a fresh home, nothing of our environment but what it needs.

A command runs in the process of the tests where it can. `forked=True` has it run in a child of a
process that has imported Treadle, for commands that end or are ended as a process; `started=True`
starts a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import in_process
from tests.fork_server import fits, fork_server

KEY = "sk-ant-api03-CANARY-4471bd02c9"
TIMEOUT_S = 200
"""For one command. The time of the test, 60 seconds unless it is marked, is over earlier."""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
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
        base = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "NO_PROXY": "*",
        }
        return {**base, **extra}

    def __call__(
        self,
        *arguments: str,
        stdin: str | None = None,
        forked: bool = False,
        started: bool = False,
        **environment: str,
    ) -> Answer:
        run = _forked if fits(environment) else _started
        if started:
            run = _started
        elif not forked and in_process.is_possible(environment):
            run = in_process.run
        code, out, err = run(
            arguments,
            self.workspace,
            self.environment(**environment),
            None if stdin is None else stdin.encode(),
        )
        answer = Answer(code, _text_of(out), _text_of(err))
        assert "Traceback" not in answer.out + answer.err, answer
        assert KEY not in answer.out + answer.err, answer
        return answer

    def script(self, *entries: dict[str, Any]) -> str:
        path = self.home / f"script-{len(list(self.home.iterdir()))}.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        return f"script:{path}"


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _started(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: bytes | None
) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "treadle", *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        cwd=cwd,
        env=environment,
        timeout=TIMEOUT_S,
    )
    return done.returncode, done.stdout, done.stderr


def _forked(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: bytes | None
) -> tuple[int, bytes, bytes]:
    return fork_server().run(
        arguments, cwd=cwd, environment=environment, stdin=stdin, timeout_s=TIMEOUT_S
    )


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)
