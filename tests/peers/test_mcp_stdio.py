"""`treadle mcp` on stdio, as a client of another language sees it: the TypeScript SDK, which the
conformance suite brings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.child import ROOT
from tests.peers.conformance.suite import MODULES
from tests.peers.conftest import absent

CLIENT = ROOT / "tests" / "peers" / "conformance" / "typescript_client.mjs"


@pytest.fixture
def node() -> Path:
    if not (MODULES / "@modelcontextprotocol" / "sdk").is_dir():
        absent(f"the TypeScript SDK is not in {MODULES}: `make peers` installs it")
    return MODULES / ".bin" / "node"


def test_the_typescript_sdk_lists_calls_follows_and_is_asked(node: Path, tmp_path: Path):
    script = [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "echo 42 > made.txt"}}]},
        {"text": "Made ✓"},
    ]
    (tmp_path / "script.json").write_text(json.dumps(script), encoding="utf-8")
    options = [
        "--model",
        f"script:{tmp_path}/script.json",
        "--mode",
        "ask",
        "--no-sandbox",
        "--cwd",
        str(tmp_path),
    ]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "TREADLE_HOME": str(tmp_path / "home"),
    }
    command = [
        node,
        "--input-type=module",
        "--eval",
        CLIENT.read_text(encoding="utf-8"),
        "--",
        sys.executable,
        "-m",
        "treadle",
        "mcp",
        *options,
    ]
    done = subprocess.run(
        command, cwd=MODULES.parent, env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done
    seen = json.loads(done.stdout)
    assert seen["server"]["name"] == "treadle"
    assert [tool["name"] for tool in seen["tools"]] == ["treadle"]
    assert seen["result"]["content"] == [{"type": "text", "text": "Made ✓"}]
    assert (tmp_path / "made.txt").read_text() == "42\n"
    (question,) = seen["asked"]
    assert "echo 42 > made.txt" in question
    assert [note["message"] for note in seen["progress"]][:1] == ["turn 1"]
