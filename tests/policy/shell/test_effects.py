"""What a person reads about a command that needs an answer: plain words for what it does, and every
part of the line that asks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.policy.permissions import permissions_of
from treadle.policy.policy import decide_command
from treadle.policy.shell.effects import effect_of


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rm -rf build", "it deletes files: build"),
        ("git push --force", "it rewrites history on the remote (git push --force)"),
        ("git push -uf origin main", "it rewrites history on the remote"),
        ("git push origin +main", "it rewrites history on the remote"),
        ("git push origin :old", "it deletes branches or tags on the remote"),
        ("git push", "it publishes commits"),
        ("git -C sub reset --hard", "it discards uncommitted changes"),
        ("git clean -fd", "it deletes untracked files"),
        ("git branch -D old", "it deletes branches or tags"),
        ("git commit --amend", "it rewrites the last commit"),
        ("chmod +x a.sh", "it changes permissions of files"),
        ("pytest -q", "it runs code of this project (pytest -q)"),
        ("python3 -m pytest", "it runs code of this project"),
        ("make", "it runs code of this project (make)"),
        ("python3 a.py", "it runs arbitrary code (python3)"),
        ("docker ps", "it controls containers, outside the sandbox"),
        ("npm install left-pad", "it installs or removes packages"),
        ("npm publish", "it publishes"),
        ("curl https://example.com", "it connects to the network"),
        ("sed -i s/a/b/ f", "it edits files in place"),
        ("find . -delete", "it deletes the files that it finds"),
        ("kill 12", "it ends processes"),
        ("nosuchprogram", "'nosuchprogram' is a program that this policy does not know"),
    ],
)
def test_a_program_is_described_by_its_effect(command: str, words: str) -> None:
    assert effect_of(command.split()).startswith(words)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        (
            "rm -rf build && git push --force",
            ["deletes files: build", "rewrites history on the remote"],
        ),
        (
            "echo ok; sudo rm -r x | tee log",
            ["runs as another user", "deletes files: x", "'log' is written"],
        ),
        ('for f in *; do rm "$f"; done', ["deletes files"]),
        (
            "\n".join([*(f"echo {n}" for n in range(50)), "rm -rf important"]),
            ["deletes files: important"],
        ),
    ],
)
def test_every_part_of_a_line_that_asks_is_named(
    tmp_path: Path, command: str, parts: list[str]
) -> None:
    decision = decide_command("ask", command, tmp_path, permissions_of())
    assert decision.verdict == "ask"
    assert [part for part in parts if part not in decision.reason] == []


def test_where_a_rule_does_not_reach_the_effect_is_named_all_the_same(tmp_path: Path) -> None:
    decision = decide_command("ask", "rm -r build", tmp_path, permissions_of(allow=["rm"]))
    assert decision.reason == "it deletes files: build; the rule 'rm' does not cover -r"


def test_a_module_that_runs_tests_can_be_allowed_for_a_session(tmp_path: Path) -> None:
    offered = decide_command("ask", "python3 -m pytest -q", tmp_path, permissions_of()).pattern
    assert offered == ("python3 -m pytest",)
    assert (
        decide_command(
            "ask", "python3 -m pytest -q tests", tmp_path, permissions_of(allow=offered or ())
        ).verdict
        == "contained"
    )
