"""Scope of a user's rule that allows a program: commands that exceed it.

Entry points: `beyond`, `paths_in`.
"""

from __future__ import annotations

import os
import re

from treadle.config.rule import PermissionRule
from treadle.policy.decision import FindingKind
from treadle.policy.shell.git import NETWORK as GIT_NETWORK
from treadle.policy.shell.git import read_git
from treadle.policy.shell.ground import Ground
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.runners import extends
from treadle.policy.shell.wrappers import WRAPPERS


def beyond(rule: PermissionRule, argv: list[str], ground: Ground) -> str | None:
    """Return the reason why a command exceeds its rule; None if the rule covers it."""
    name = argv[0]
    exact = len(rule.words) == len(argv)
    if (
        (
            name in PROGRAMS
            or name in WRAPPERS
            or name in ("sed", "test", "[", "set", "cd", "eval", "source", ".")
        )
        and not exact
        and name != "git"
    ):
        return (
            f"{name} does more than read with these arguments, and a rule for it covers only its "
            "exact words"
        )
    if name == "git":
        git = read_git(argv[1:])
        if git.form == "unknown" and (
            not exact or git.command in GIT_NETWORK or git.command.startswith("-")
        ):
            return git.why
    elif (why := extends(rule.words, argv, any_more=rule.any_more)) is not None:
        return why
    for word in argv[1:]:
        for part in paths_in(word):
            finding = ground.writes(part)
            if (
                finding.kind is FindingKind.FORBIDDEN
                or ground.reads(part).kind is not FindingKind.READS
            ):
                return f"{part[:60]!r} is outside the workspace, or guarded"
    return None


def paths_in(word: str) -> list[str]:
    """Return the possible paths in an argument: the whole, the part after `=`, and the part after
    the letter of a short option.
    """
    parts = [word] if not word.startswith("-") else []
    if "=" in word:
        parts.append(word.split("=", 1)[1])
    if re.match(r"-[^-]", word) and "/" in word:
        parts.append(word[word.index("/") :] if word[2:3] != "." else word[2:])
    return [
        part
        for part in parts
        if part and ("/" in part or part.startswith((".", "~")) or os.sep in part)
    ]
