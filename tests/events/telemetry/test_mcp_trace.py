"""One trace from the parent's run over its child's to the MCP server's own process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from treadle.events.telemetry import names

PROGRAM = Path(__file__).with_name("a_traced_program.py")


def test_parent_child_and_mcp_server_are_one_trace(tmp_path: Path) -> None:
    theirs = tmp_path / "server.jsonl"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(theirs)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (done.returncode, done.stderr) == (0, "")
    spans: list[dict[str, Any]] = [
        json.loads(line) for line in (done.stdout + theirs.read_text()).splitlines()
    ]
    by_id = {span["context"]["span_id"]: span for span in spans}

    def above(span: dict[str, Any]) -> list[str]:
        parent = by_id.get(span["parent_id"])
        return [span["name"]] if parent is None else [*above(parent), span["name"]]

    (served,) = [
        span
        for span in spans
        if span["kind"] == "SpanKind.SERVER" and span["name"] == "tools/call look"
    ]
    assert [name for name in above(served) if not name.startswith("MCP send")] == [
        "invoke_agent parent",
        "execute_tool ask",
        "invoke_agent child",
        "execute_tool cats_look",
        "tools/call look",
    ]
    (call,) = [span for span in spans if span["name"] == "execute_tool cats_look"]
    assert call["attributes"].items() >= {
        (names.TOOL_TYPE, "extension"),
        (names.MCP_SERVER, "cats"),
        (names.MCP_TOOL, "look"),
    }
