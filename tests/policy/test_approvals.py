"""A yes for a session and for always: what it may say, and where it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.config import load
from treadle.errors import AgentError
from treadle.policy.approvals import for_always, for_session
from treadle.policy.permissions import Permissions, permissions_of
from treadle.policy.policy import decide_command

NEVER = [
    "python3",
    "python3 x.py",
    "bash",
    "git push",
    "git commit",
    "sudo",
    "env",
    "curl",
    "npm",
    "npm *",
    "xargs",
    "../x",
    "/tmp/x",
    "read(/etc/**)",
    "write(**)",
    "tool(*)",
    "x; y",
    "",
]


def test_a_yes_for_the_session_holds_in_the_sandbox_and_nowhere_else(tmp_path: Path) -> None:
    before = Permissions()
    offered = decide_command("ask", "npm test && ruff check src", tmp_path, before).pattern
    assert offered is not None
    assert offered == ("npm test", "ruff")
    after = for_session(before, offered)
    assert (
        decide_command("ask", "npm test && ruff check src", tmp_path, after).verdict == "contained"
    )
    assert decide_command("ask", "npm run deploy", tmp_path, after).verdict == "ask"
    assert decide_command("ask", "npm test", tmp_path, before).verdict == "ask"


@pytest.mark.parametrize("rule", NEVER)
def test_what_is_never_offered_is_never_remembered(tmp_path: Path, rule: str) -> None:
    file = tmp_path / "config.yaml"
    with pytest.raises(AgentError):
        for_session(Permissions(), [rule])
    with pytest.raises(AgentError):
        for_always(file, [rule])
    assert not file.exists()


def test_each_rule_of_several_is_looked_at() -> None:
    for rules in (
        ["tool(github_create_issue)", "python3"],
        ["npm test", "python3"],
        ["npm test", "tool(*)"],
    ):
        with pytest.raises(AgentError, match="can be approved for single calls only"):
            for_session(Permissions(), rules)


def test_a_configuration_behind_a_link_is_edited_where_it_lies(tmp_path: Path) -> None:
    real, file = tmp_path / "dotfiles.yaml", tmp_path / "config.yaml"
    real.write_text("permissions:\n  allow: [ruff]\n")
    real.chmod(0o600)
    file.symlink_to(real)
    for_always(file, ["npm test"])
    assert file.is_symlink()
    assert real.read_text() == 'permissions:\n  allow: [ruff, "npm test"]\n'


def test_a_yes_for_always_is_written_to_the_users_own_file_and_counts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    file = home / "config.yaml"
    for_always(file, ["npm test"])
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("# mine\npermissions:\n  deny: [curl]   # never\n  allow:\n    - npm test\n")
    for_always(file, ["npm test", "ruff"])
    for_always(file, ["tool(github_create_issue)"])
    assert (
        file.read_text()
        == '# mine\npermissions:\n  deny: [curl]   # never\n  allow: ["npm test", ruff, "tool(github_create_issue)"]\n'
    )
    said = load({"TREADLE_HOME": str(home)}, cwd=tmp_path).permissions
    permissions = permissions_of(allow=said.allow, ask=said.ask, deny=said.deny)
    assert decide_command("ask", "ruff check", tmp_path, permissions).verdict == "contained"


def test_a_file_that_others_may_write_to_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("permissions: {}\n")
    file.chmod(0o666)
    with pytest.raises(AgentError, match="is writable by others"):
        for_always(file, ["npm test"])
    assert file.read_text() == "permissions: {}\n"
