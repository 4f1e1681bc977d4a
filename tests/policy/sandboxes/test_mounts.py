"""Mounts over a workspace: none covers one that was made before it, unless it is at least as
strict.
"""

from __future__ import annotations

import itertools

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.leftovers import confined, ground
from treadle.policy.sandboxes import mounts
from treadle.policy.sandboxes.mounts import guarding
from treadle.policy.sandboxes.sight import FoundPath
from treadle.tools.confinement import Ruled

CONTROL = [
    FoundPath("svc/.vscode/tasks.json", "file", (0, 0, "")),
    FoundPath("svc/repo/.git", "git", (0, 0, "")),
    FoundPath("svc/repo/.git/config", "file", (0, 0, "")),
]
RULES = {
    "beside": "/w/svc/private",
    "the same": "/w/svc/repo/.git/config",
    "below": "/w/svc/repo/.git/config/x",
    "above": "/w/svc",
    "the repository": "/w/svc/repo/.git",
    "far": "/w/other/file",
    "workspace": "/w",
    "above the workspace": "/",
}


@pytest.mark.parametrize("most", [2, 4, 256])
@pytest.mark.parametrize("what", ["hidden", "fixed"])
@pytest.mark.parametrize("rule", RULES)
def test_no_mount_opens_what_another_one_closes(
    monkeypatch: pytest.MonkeyPatch, rule: str, what: str, most: int
) -> None:
    monkeypatch.setattr(mounts, "MAX_BINDS", most)
    for guarded in itertools.permutations(CONTROL):
        ruled = Ruled(**{what: (RULES[rule],)})
        words = list(guarding("/w", guarded, ruled))
        made = list(zip(words[::3], words[2::3], strict=True))
        closed = {f"/w/{found.path}" for found in CONTROL if found.kind == "file"}
        if rule not in ("above the workspace", "workspace"):
            closed |= {RULES[rule], f"{RULES[rule]}/x", f"{RULES[rule]}/repo/.git/x"}
        if rule not in ("above the workspace", "workspace") or what == "fixed":
            assert {path for path in closed if _kept(path, made) != "--ro-bind"} == set()


def _kept(path: str, made: list[tuple[str, str]]) -> str:
    """The last mount over a path decides."""
    return next(
        (option for option, place in reversed(made) if f"{path}/".startswith(f"{place}/")), "--bind"
    )


@needs_bubblewrap
@pytest.mark.parametrize("what", ["hidden", "fixed"])
def test_a_rule_about_a_file_leaves_the_guard_on_those_beside_it(what: str) -> None:
    with ground() as place:
        work = place / "work"
        (work / ".vscode").mkdir()
        (work / ".vscode/tasks.json").write_text("old")
        (work / "private").write_text("key")
        settings = (work / ".git/config").read_bytes()
        ruled = Ruled(**{what: (str(work / "private"),)})
        confined(
            place,
            "echo evil > .vscode/tasks.json; echo evil >> .git/config; echo evil > private",
            ruled=lambda: ruled,
        )
        assert ((work / ".vscode/tasks.json").read_text(), (work / ".git/config").read_bytes()) == (
            "old",
            settings,
        )
        assert (work / "private").read_text() == "key"
