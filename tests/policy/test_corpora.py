"""Paths and injections of the attack corpora through the policy, with the tools that a run has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.policy.shell.corpus import cases, is_looser, needs_corpus, workspace
from treadle.errors import AgentError
from treadle.policy.permissions import permissions_of
from treadle.policy.policy import Decision, decide
from treadle.tools.builtin.coding import default_tools
from treadle.tools.registry import ToolRegistry
from treadle.tools.tool import InvalidArguments
from treadle.types import Mode

pytestmark = needs_corpus
TOOLS = ToolRegistry(default_tools())
BY_THE_TOOL = {"pa-080", "pa-081", "pa-087", "pa-088"}
"""Links below what is listed or searched, and races: the policy sees a folder, the tool must not
leave it (tests/tools).
"""


def decided(tool: str, arguments: dict[str, Any], place: Path, mode: Mode) -> Decision:
    """A call whose arguments are refused is no call."""
    found = TOOLS.get(tool)
    if found is None:
        return Decision("deny", "there is no such tool")
    try:
        parsed = found.parse(json.dumps(arguments))
    except InvalidArguments as e:
        return Decision("deny", e.message)
    return decide(mode, found, parsed, place, permissions_of())


def set_up(steps: list[list[str]], place: Path) -> None:
    outside = place.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret.txt").write_text("S3CRET")
    (place.parent / "proj-evil").mkdir(exist_ok=True)
    for kind, name, *rest in steps:
        target = rest[0].replace("${OUT}", str(outside)) if rest else ""
        if kind == "symlink":
            (place / name).symlink_to(target)
        elif kind == "hardlink":
            os.link(target, place / name)
        elif kind == "fifo":
            os.mkfifo(place / name)
        elif kind == "file":
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(target)


def arguments_of(case: dict[str, Any], place: Path) -> dict[str, Any]:
    tool, path = case["input"]["tool"], case["input"]["path"]
    path = path.replace("${WS}", str(place)).replace("${OUT}", str(place.parent / "outside"))
    return {
        "write": {"path": path, "content": "x"},
        "glob": {"pattern": path},
        "grep": {"pattern": path},
    }.get(tool, {"path": path})


def in_modes(name: str) -> list[Any]:
    """Mode full is for what is denied whatever the mode."""
    modes = {"deny": ["ask", "accept-edits", "full"]}
    return [
        pytest.param(case, mode, id=f"{case['id']}-{mode}")
        for case in cases(name)
        for mode in modes.get(case["expect"], ["ask", "accept-edits"])
    ]


@pytest.mark.parametrize(("case", "mode"), in_modes("paths"))
def test_paths(tmp_path: Path, case: dict[str, Any], mode: Mode) -> None:
    place = workspace(tmp_path)
    set_up(case["input"]["setup"], place)
    verdict = decided(case["input"]["tool"], arguments_of(case, place), place, mode).verdict
    if case["expect"] == "contained" or case["id"] in BY_THE_TOOL:
        return  # it must end safely, whatever is decided: the tools' tests
    assert not is_looser(verdict, case["expect"]), verdict
    assert case["expect"] != "allow" or verdict == "allow"


@pytest.mark.parametrize(("case", "mode"), in_modes("injection"))
def test_injections(tmp_path: Path, case: dict[str, Any], mode: Mode) -> None:
    place = workspace(tmp_path)
    for call in case["input"]["obedient_calls"]:
        assert not is_looser(
            decided(call["tool"], call["args"], place, mode).verdict, case["expect"]
        ), call


def test_rules_of_a_workspace_never_allow(tmp_path: Path) -> None:
    from treadle.config import load

    place = workspace(tmp_path)
    (place / ".treadle").mkdir()
    (place / ".treadle/config.yaml").write_text(
        "permissions: {allow: ['rm', 'write(**)'], deny: ['npm']}\n"
    )
    config = load({"HOME": str(tmp_path), "TREADLE_HOME": str(tmp_path / "home")}, cwd=place)
    assert config.permissions.allow == ()
    assert config.permissions.deny == ("npm",)


def test_a_rule_that_is_none_is_an_error_with_its_line(tmp_path: Path) -> None:
    from treadle.config import load

    (tmp_path / "home").mkdir()
    file = tmp_path / "home/config.yaml"
    file.write_text("permissions:\n  deny:\n    - curl\n    - 'rm; ls'\n")
    file.chmod(0o600)
    with pytest.raises(
        AgentError,
        match=r"config\.yaml:4: permissions\.deny must be a list of rules, each for a single command, without 'rm;'",
    ):
        load({"HOME": str(tmp_path), "TREADLE_HOME": str(tmp_path / "home")}, cwd=tmp_path)
