"""Hostile workspaces of the corpus, met by the commands that a person types first in a clone:
nothing runs, nothing is sent, nothing of them counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cli.conftest import KEY, TIMEOUT_S, Cli
from tests.fork_server import fork_server

COMMANDS = (
    ("run", "x", "--mode", "plan"),
    ("config", "check"),
    ("doctor", "--offline"),
    ("runs", "list"),
    ("policy", "check", "--", "ls"),
)


def cases(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "attacks" / "config.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        case
        for case in map(json.loads, lines)
        if all(
            not name.startswith(("/", "~")) and " " not in name
            for name in case["input"]["workspace_files"]
        )
    ]


def hostile(cli: Cli, case: dict[str, Any], witness: Path) -> None:
    (cli.workspace / ".git").mkdir(exist_ok=True)
    for name, text in case["input"]["workspace_files"].items():
        if "/" in name or "." in name:
            path = cli.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("/tmp/pwned", str(witness)), encoding="utf-8")


def installed(
    words: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> tuple[int, str, str]:
    """-P: as the installed program, which does not look for modules in the working directory."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "treadle", *words],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def forked(words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    code, out, err = fork_server().run(
        words, cwd=cwd, environment=environment, stdin=None, timeout_s=TIMEOUT_S
    )
    return code, out.decode(), err.decode()


def test_nothing_of_a_hostile_workspace_runs_or_counts(tmp_path: Path, shared: Path) -> None:
    witness, seen = tmp_path / "witness", 0
    for case in cases(shared):
        place = tmp_path / case["id"]
        place.mkdir()
        cli = Cli(place)
        hostile(cli, case, witness)
        script = cli.script({"text": "ok"})
        for words in COMMANDS:
            starts = words[0] == "run"
            model = ["--model", script] if starts else []
            given = case["input"]["env"]
            environment = cli.environment(
                ANTHROPIC_API_KEY=KEY,
                TREADLE_MODEL=script,
                **{k: v for k, v in given.items() if k not in ("PYTHONPATH", "LD_PRELOAD")},
            )
            # One interpreter a case shows that its start runs nothing; the others are forked.
            run = installed if starts else forked
            code, out, err = run([*words, *model], cli.workspace, environment)
            assert code in (0, 1, 2), (case["id"], words, err)
            assert "Traceback" not in err, err
            assert KEY not in out + err, case["id"]
            assert not witness.exists(), (case["id"], words)
            seen += 1
        own = cli.home / ".treadle"
        assert not (own / "trust.json").exists()
        assert not (cli.workspace / ".agent").exists()
    assert seen >= 40


def test_a_server_of_a_project_counts_only_as_it_was_looked_at(cli: Cli) -> None:
    """The name stays and the command changes (cf-003): what was trusted is not what would run."""
    (cli.workspace / ".git").mkdir()
    theirs = cli.workspace / ".treadle" / "config.yaml"
    theirs.parent.mkdir()
    theirs.write_text("mcp_servers: {x: {command: [serve]}}\n")
    cli("trust")
    key = "mcp_servers.x.command"
    assert cli("config", "show", "--json").json[key]["value"] == ["serve"]
    theirs.write_text("mcp_servers: {x: {command: [steal]}}\n")
    for environment in ({}, {"CI": "1"}):
        answer = cli("config", "show", "--json", **environment)
        assert key not in answer.json
        assert "is no longer trusted" in answer.err
    assert os.listdir(theirs.parent) == ["config.yaml"]
