"""The plug-in for pytest, loaded by a pytest of its own as other projects load it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
from treadle import Agent, run_sync

CALLS = {"tool_calls": [{"name": "nothing", "arguments": {}}]}


def test_used_up(scripted, run_snapshot):
    run_snapshot(run_sync(Agent(name="a", model=scripted([{"text": "SAID"}])), "hi"))


def test_not_used_up(scripted):
    run_sync(Agent(name="a", model=scripted([{"text": "one"}, {"text": "two"}])), "hi")


def test_real():
    with pytest.raises(Exception, match="no request is sent to api.example.invalid"):
        result = run_sync(Agent(name="a", model="openai-chat:m"), "hi")
        raise result.error
"""


def _pytest(folder: Path, *arguments: str) -> tuple[str, dict[str, int]]:
    """What a run of pytest printed, and its counts."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "OPENAI_BASE_URL": "https://api.example.invalid/v1",
        "OPENAI_API_KEY": "none",
    }
    without = ("schemathesis", "inline_snapshot", "hypothesispytest", "cacheprovider")
    plain = (*(f"-pno:{name}" for name in without), "-q", "-W", "error")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    words = done.stdout.strip().splitlines()[-1].replace(",", "").split()
    return done.stdout, {
        words[i + 1]: int(words[i]) for i in range(len(words) - 1) if words[i].isdigit()
    }


def test_scripts_are_used_up_snapshots_hold_and_no_real_model_is_asked(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntreadle_real_models = false\n")
    (tmp_path / "test_it.py").write_text(TESTS.replace("SAID", "Hello."))
    out, counts = _pytest(tmp_path)  # no transcript yet
    assert counts == {"failed": 1, "error": 1, "passed": 2}, out
    assert "run pytest --update-runs" in out
    assert "1 entry was not used after 1 requests" in out
    _, counts = _pytest(tmp_path, "--update-runs", "-k", "test_used_up or real")
    assert counts == {"passed": 2, "deselected": 1}
    file = tmp_path / "run_snapshots/test_it/test_used_up.json"
    assert json.loads(file.read_text())["output"] == "Hello."
    (tmp_path / "test_it.py").write_text(TESTS.replace("SAID", "Goodbye."))
    out, counts = _pytest(tmp_path, "-k", "test_used_up")
    assert counts == {"failed": 1, "deselected": 2}, out
    assert "if it should, run pytest --update-runs" in out
