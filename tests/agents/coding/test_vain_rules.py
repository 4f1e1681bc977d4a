"""Rules that match nothing here are told of, with the nearest name: where one was typed always, in
a file only where a tool has nearly that name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.agents.coding import coding_agent
from treadle.config import load

TOOLS = "tools are read, write, edit, apply_patch, bash, bash_output, bash_kill, glob, grep, ls, todo_write, fetch"
NO_PROGRAM = "matches no tool and no installed program"


def told(tmp_path: Path, *allow: str, own: str = "") -> list[str]:
    (tmp_path / ".treadle").mkdir(exist_ok=True)
    (tmp_path / ".treadle/config.yaml").write_text(own)
    config = load({"HOME": str(tmp_path)}, cwd=tmp_path, flags={"--allow": allow} if allow else {})
    return [
        warning.replace(str(tmp_path), "~") for warning in coding_agent(config, tmp_path).warnings
    ]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("foo", f"{NO_PROGRAM}: {TOOLS}"),
        ("wirte", f"{NO_PROGRAM}: did you mean 'write'?"),
        ("Write", f"{NO_PROGRAM}: did you mean 'write'?"),
        ("bash(greep)", f"{NO_PROGRAM}: did you mean 'grep'?"),
        ("tool(fecth)", "matches no tool: did you mean 'fetch'?"),
        ("tool(github_*)", f"matches no tool: {TOOLS}"),
    ],
)
def test_a_typed_rule_that_matches_nothing_is_told(tmp_path: Path, rule: str, said: str) -> None:
    assert told(tmp_path, rule) == [f"--allow: the rule {rule!r} {said}"]


@pytest.mark.parametrize(
    "rule",
    [
        "write",
        "tool(WR*)",
        "sh",
        "cd",
        "export",
        "./run",
        "foo bar",
        "foo *",
        "read(docs/**)",
        "write(src)",
        "fetch(*.org)",
    ],
)
def test_a_rule_that_may_match_is_not_spoken_of(tmp_path: Path, rule: str) -> None:
    assert told(tmp_path, rule) == []


def test_in_a_file_only_a_name_that_is_nearly_a_tool_s_is_told(tmp_path: Path) -> None:
    own = "permissions:\n  allow: [another-program]\n  deny: [fecth, ed, tool(github_*)]\n"
    assert told(tmp_path, own=own) == [
        f"~/.treadle/config.yaml:3: the rule 'fecth' {NO_PROGRAM}: did you mean 'fetch'?"
    ]


def test_tools_of_a_server_are_not_known_before_it_is_asked(tmp_path: Path) -> None:
    own = "mcp_servers: {github: {url: 'https://example.org/mcp'}}\npermissions: {deny: [tool(wirte)]}\n"
    assert told(tmp_path, own=own) == []
