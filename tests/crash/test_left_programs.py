"""Programs that `bash` had started when Treadle was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap

COMMAND = "exec 3> out; echo $$ >&3; exec sleep 600"


@pytest.mark.parametrize("sandbox", [pytest.param("on", marks=needs_bubblewrap), "off"])
def test_a_program_of_a_killed_process_ends_with_it_only_in_a_sandbox(
    tmp_path: Path, sandbox: str
) -> None:
    """The program keeps the pipe open: who reads it sees the end of the pipe once it has ended."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.yaml").write_text(f"defaults: {{sandbox: {sandbox}}}\n")
    call = {"name": "bash", "id": "c", "arguments": {"command": COMMAND}}
    (tmp_path / "script.json").write_text(json.dumps([{"tool_calls": [call]}, {"text": "done"}]))
    os.mkfifo(tmp_path / "out")
    ours = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
    options = ("--model", f"script:{tmp_path}/script.json", "--mode", "full")
    treadle = subprocess.Popen(
        [sys.executable, "-m", "treadle", "run", *options, "go"],
        cwd=tmp_path,
        env={
            **ours,
            "HOME": str(tmp_path),
            "TREADLE_HOME": str(tmp_path / "home"),
            "TREADLE_JOURNAL": f"sqlite:///{tmp_path}/runs.db",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with open(tmp_path / "out", "rb", buffering=0) as out:
        program = int(out.readline())
        treadle.kill()
        treadle.wait()
        if sandbox == "on":
            assert out.read() == b""
            return
        os.set_blocking(out.fileno(), False)
        assert out.read(1) is None, "it has ended"
        os.kill(program, signal.SIGKILL)
