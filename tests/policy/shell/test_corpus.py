"""Every line of the shell corpus: nothing is let through more loosely than it should be, and what
is harmless is not asked about.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.policy.shell.corpus import cases, is_looser, needs_corpus, workspace
from treadle.policy.permissions import permissions_of
from treadle.policy.policy import Decision, decide_command
from treadle.types import Mode

pytestmark = needs_corpus
CASES = cases("shell")


def decided(case: dict[str, Any], place: Path, mode: Mode = "ask") -> Decision:
    return decide_command(
        mode,
        case["input"],
        place,
        permissions_of(allow=case.get("rules", ()), deny=case.get("deny", ())),
    )


def test_nothing_is_too_permissive_and_little_is_asked_for_nothing(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    verdicts = [(case, decided(case, place)) for case in CASES]
    loose = [
        (case["id"], case["input"][:80], found.verdict)
        for case, found in verdicts
        if is_looser(found.verdict, case["expect"])
    ]
    asked = [
        (case["id"], case["input"][:80], found.reason)
        for case, found in verdicts
        if case["expect"] == "allow" and found.verdict in ("ask", "deny")
    ]
    assert loose == []
    assert len(asked) * 40 <= sum(case["expect"] == "allow" for case in CASES), asked


def test_what_is_harmless_needs_no_sandbox_but_for_compound_commands_and_here_documents(
    tmp_path: Path,
) -> None:
    place = workspace(tmp_path)
    others = [
        (case["input"], decided(case, place).verdict)
        for case in CASES
        if case["expect"] == "allow" and decided(case, place).verdict != "allow"
    ]
    assert all(
        verdict == "contained" and text.startswith(("cat <<", "[[")) for text, verdict in others
    ), others


@pytest.mark.parametrize("mode", ["plan", "accept-edits", "full"])
def test_what_is_denied_is_denied_in_every_mode(tmp_path: Path, mode: Mode) -> None:
    place = workspace(tmp_path)
    assert [
        case["input"]
        for case in CASES
        if case["expect"] == "deny" and decided(case, place, mode).verdict != "deny"
    ] == []


def test_outside_the_workspace_accept_edits_is_no_looser_than_ask(tmp_path: Path) -> None:
    """But for plain edits of files in the workspace, which then run in the sandbox."""
    place = workspace(tmp_path)
    loose = [
        case
        for case in CASES
        if is_looser(decided(case, place, "accept-edits").verdict, case["expect"])
    ]
    edits = ("touch x", "out.txt", "a.txt", "cp ", "tee ", "mkdir ")
    assert [
        case["input"] for case in loose if not any(edit in case["input"] for edit in edits)
    ] == []
    assert all(decided(case, place, "accept-edits").verdict == "contained" for case in loose)


def test_the_command_line_says_the_same(tmp_path: Path) -> None:
    place = workspace(tmp_path)
    chosen = [case for case in CASES if "\0" not in case["input"] and len(case["input"]) < 1000][
        ::40
    ]
    for case in chosen:
        rules = [
            word
            for option, key in (("--allow", "rules"), ("--deny", "deny"))
            for rule in case.get(key, ())
            for word in (option, rule)
        ]
        argv = [
            sys.executable,
            "-m",
            "treadle",
            "policy",
            "check",
            "--cwd",
            str(place),
            *rules,
            "--",
            case["input"],
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=True)
        answer = json.loads(done.stdout)
        assert (answer["decision"], answer["why"]) == (
            decided(case, place).verdict,
            decided(case, place).reason,
        )
