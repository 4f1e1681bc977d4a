"""The inside of a repository: what leads git out of the workspace goes, and what git leaves there
stays.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.policy.sandboxes.conftest import needs_bubblewrap
from tests.policy.sandboxes.leftovers import confined, ground, jailed
from tests.policy.sandboxes.planting import Leave, make, moved, repository

LINKS = [
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "packed-refs",
    "index",
    "logs/HEAD",
    "logs",
    "refs/heads",
    "objects/ab",
    "objects/pack/x.pack",
    "rebase-merge/done",
]


@pytest.mark.parametrize("base", [".git", ".git/modules/a", ".git/worktrees/w"])
@pytest.mark.parametrize("link", LINKS)
def test_a_link_below_a_repository_goes(
    work: Path, enter: Callable[..., Leave], base: str, link: str
) -> None:
    repository(work / ".git")
    if base != ".git":
        repository(work / base)
    leave = enter()
    (work / base / link).parent.mkdir(parents=True, exist_ok=True)
    (work / base / link).symlink_to(work.parent / "rc")
    assert f"{base}/{link}" in moved(leave())
    assert not (work / base / link).is_symlink()


def test_a_link_that_was_there_before_stays(work: Path, enter: Callable[..., Leave]) -> None:
    repository(work / ".git")
    (work / ".git/logs").symlink_to(work.parent)
    assert enter()() == []
    assert (work / ".git/logs").is_symlink()


@pytest.mark.parametrize(
    "target", ["/etc/x", "../x", ".git/config", "a/../../x", "link/x", ".GIT/x", "a//x"]
)
def test_resolutions_of_conflicts_elsewhere_go(
    work: Path, enter: Callable[..., Leave], target: str
) -> None:
    repository(work / ".git")
    leave = enter()
    (work / "link").symlink_to(work.parent)
    make(work / ".git", "MERGE_RR", text=f"{'a' * 40}\tf\0{'a' * 40}.1\t{target}\0")
    make(work / ".git", f"rr-cache/{'a' * 40}/preimage")
    assert moved(leave()) == {".git/MERGE_RR", ".git/rr-cache"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("rebase-apply/apply-opt", "'--build-fake-ancestor=/x'"),
        ("rebase-apply/apply-opt", "'--directory=../x'"),
        ("rebase-merge/strategy_opts", "'--output=/x'"),
        ("rebase-merge/gpg_sign_opt", "-Sa --x"),
        ("rebase-merge/autostash", "--x"),
        ("rebase-merge/head-name", "refs/../../x"),
        ("rebase-merge/onto", "--exec=x"),
        ("rebase-merge/orig-head", "@{-1}"),
        ("rebase-merge/update-refs", "refs/heads/../../x\n"),
        ("rebase-merge/refs-to-delete", "refs/heads/main\n"),
        ("rebase-merge/rewritten-list", "$(x)\n"),
        ("rebase-merge/unknown", ""),
        ("rebase-merge/inner", None),
        ("rebase-apply/next", "x"),
        ("rebase-apply/hook", "x"),
        ("sequencer/head", "x"),
        ("sequencer/unknown", "x"),
        ("something", "x"),
    ],
)
def test_what_git_does_not_leave_in_a_repository_goes(
    work: Path, enter: Callable[..., Leave], path: str, text: str | None
) -> None:
    repository(work / ".git")
    leave = enter()
    make(work / ".git", path if text is not None else f"{path}/x", text=text or "")
    assert moved(leave()) == {f".git/{path}"}


_CRAFT = """
b=$(echo evil | git hash-object -w --stdin); git update-index --index-version %s; git update-index --add --cacheinfo 100755,$b,%s
"""


@needs_bubblewrap
@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("xxxhome/evil", "../home/evil"),
        ("xxxx/hooks/post", ".git/hooks/post"),
        ("xabc/def", "/abc/def"),
    ],
)
def test_an_index_that_leads_elsewhere_goes(version: int, before: str, after: str) -> None:
    with ground() as place:
        index = place / "work/.git/index"
        jailed(place, _CRAFT % (version, before), ())
        data = index.read_bytes()[:-20]
        assert before.encode() in data
        crafted = data.replace(before.encode(), after.encode())
        index.write_bytes(data + hashlib.sha1(data).digest())
        (place / "bin/crafted").write_bytes(crafted + hashlib.sha1(crafted).digest())
        (said,) = confined(place, f"cp '{place}/bin/crafted' .git/index")
        assert moved([said]) == {".git/index"}


@needs_bubblewrap
@pytest.mark.parametrize(
    "work_of_a_day",
    [
        "git checkout -q -b side HEAD~1; echo 4 > f; git commit -qam 4; git merge main; git checkout -q --theirs f; git add f; git commit -qm m",
        "for v in 2 3 4; do git update-index --index-version $v; done; git update-index --split-index; echo z > z; git add z; git commit -qm z",
        'id=$(printf %040d 1); for i in $(seq 30000); do echo "100644 $id\td$((i%9))/f$i"; done | git -c index.threads=4 update-index --index-info',
        "git sparse-checkout init --cone --sparse-index; git sparse-checkout set d; git status",
        "git init -q --object-format=sha256 s; cd s; echo 1 > f; git add f; git commit -qm 1",
        "echo 9 >> f; git stash -q; git stash pop; git tag -a -m x v; git notes add -m x; git gc -q; git repack -adq; git fsck --lost-found",
        "git checkout -q -b side HEAD~1; echo 4 > f; git commit -qam 4; git rebase --merge -X ours main; git rebase --apply --whitespace=fix main",
        "echo 9 > f; git stash; git checkout -q -b side HEAD~1; echo 5 > f; git stash pop; git status; git reset -q --hard; git clean -fdq",
        "git checkout -q -b a HEAD~1; echo 4 > f; git commit -qam 4; git branch b; git commit -q --allow-empty -m e; git rebase -i --update-refs -x true main",
        "git checkout -q -b a HEAD~1; echo 4 > f; git commit -qam 4; git rebase --root --onto main; git rebase --skip; git rebase --rebase-merges main",
        "git checkout -q -b a HEAD~1; echo 4 > f; git commit -qam 4; git rebase --apply --signoff --no-verify -q main; git status",
        "git checkout -q -b a HEAD~1; echo 4 > f; git commit -qam 4; echo 5 > z; git add z; git rebase --autostash --committer-date-is-author-date main",
        "echo 4 > f; git commit -qam 4; echo 5 > f; git commit -qam 5; GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' git rebase -i HEAD~2 -Xours",
        "echo 4 > f; git commit -qam 4; echo 5 > f; git commit -qam 5; git revert --no-edit HEAD~1 HEAD~2; git status",
        "git format-patch -q -2 --stdout > p; git reset -q --hard HEAD~1; echo z > f; git commit -qam z; git am -3 -s --keep-cr --scissors --message-id p",
        "git bisect start HEAD HEAD~1; git bisect run true; git bisect reset; git worktree add -q --lock --no-checkout tree2; git fetch --depth 1 upstream",
    ],
)
def test_what_git_leaves_stays(work_of_a_day: str) -> None:
    with ground() as place:
        assert confined(place, f"{work_of_a_day} >/dev/null 2>&1") == []
        assert os.path.exists(place / "work/.git/index")


@needs_bubblewrap
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("git update-index --skip-worktree f", "'f'"),
        ("git update-index --assume-unchanged f", "'f'"),
        ("git -C tree update-index --assume-unchanged f", "'f'"),
        ("git replace HEAD HEAD~1", "'refs/replace/"),
        ("git replace HEAD HEAD~1; git pack-refs --all", "'refs/replace/"),
    ],
)
def test_what_git_will_not_show_is_told(command: str, named: str) -> None:
    with ground() as place:
        (said,) = confined(place, f"echo evil >> f; {command}")
        assert "now hides changes from git status and git diff (1 in all): " + named in said
        assert confined(place, "git status") == []


@needs_bubblewrap
def test_files_that_a_sparse_checkout_leaves_out_are_not_told() -> None:
    with ground() as place:
        assert (
            confined(
                place,
                "mkdir d; echo > d/x; git add d; git commit -qm d; git sparse-checkout set --no-cone /f; [ ! -e d/x ]",
            )
            == []
        )
