"""Asks git itself whether a command left behind anything that runs later.

A command in the sandbox plants repositories, settings, links and todo lists; then the user's usual
git commands run in a jail without network and capabilities. Each plant has a program of its own,
which leaves a mark when it runs.

    python -m tests.policy.sandboxes.leftovers [--count N] [--seed N] [--without]

`--without` leaves everything where it is, to show that the plants bite.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import anyio
from msgspec import structs

from treadle.policy.sandboxes import control_files
from treadle.policy.sandboxes.bubblewrap import Bubblewrap
from treadle.policy.sandboxes.trial import Trial
from treadle.tools.confinement import CommandRoom

BWRAP = shutil.which("bwrap") or ""
AT_ONCE = 24
"""Plants in one workspace."""
SHARED = frozenset(
    {
        "exec-todo",
        "strategy",
        "author-script",
        "main-commondir",
        "main-worktree-config",
        "main-hooks",
        "bisect-names",
    }
)
"""Plants in the user's own repository, of which a workspace has room for one."""

# In each text $C is a program that leaves a mark, $D a new folder, and $W the workspace.
_STORE = "mkdir -p $S/objects $S/refs; echo 'ref: refs/heads/main' > $S/HEAD"
_SETTINGS = {
    "fsmonitor": "[core]\\n\\tfsmonitor = $C\\n",
    "hooksPath": "[core]\\n\\thooksPath = $D/h\\n",
    "filter": '[filter \\"x\\"]\\n\\tclean = $C\\n\\tsmudge = $C\\n',
    "textconv": '[diff \\"x\\"]\\n\\ttextconv = $C\\n',
    "external": "[diff]\\n\\texternal = $C\\n",
    "editor": "[core]\\n\\teditor = $C\\n",
    "sequence": "[sequence]\\n\\teditor = $C\\n",
    "gpg": "[commit]\\n\\tgpgsign = true\\n[gpg]\\n\\tprogram = $C\\n",
    "uploadpack": '[remote \\"origin\\"]\\n\\turl = $W/upstream\\n\\tuploadpack = $C\\n',
    "include": "[include]\\n\\tpath = $D/more\\n",
    "includeIf": '[includeIf \\"gitdir:**\\"]\\n\\tpath = $D/more\\n',
}
_SPELLINGS = {
    "plain": "$T",
    "far": "$(head -c 90000 /dev/zero | tr '\\\\0' '\\\\n')\\n$T",
    "bom": "\\357\\273\\277$T",
    "crlf": "[core]\\r\\n\\tfsmonitor = $C\\r\\n",
    "one line": "[core] fsmonitor = $C\\n",
    "glued": "[core]fsmonitor=$C\\n",
    "continued": "[core]\\n\\tbare = false\\n\\tfsmonitor = \\\\\\n$C\\n",
    "continued comment": "[user]\\n\\tname = a \\\\\\n\\tb\\n[core]\\n\\tfsmonitor = $C\\n",
    "quoted": '[core]\\n\\tfsmonitor = \\"$C\\"\\n',
    "upper": "[CORE]\\n\\tFSMONITOR = $C\\n",
    "vertical": "[core]\\n\\v\\f\\tfsmonitor = $C\\n",
    "after a comment": "[core] ; [user]\\n\\tfsmonitor = $C\\n",
    "no section end": "[core]\\n[user]\\n\\tname = x\\n[core]\\n\\tfsmonitor = $C\\n",
    "return in name": "[user]\\n\\tname = x\\r[core]\\n[core]\\n\\tfsmonitor=$C\\n",
}
_LAYOUTS = {
    "dot git": 'git init -q $D; printf "$T" > $D/.git/config',
    "appended": 'git init -q $D; printf "$T" >> $D/.git/config',
    "bare": "S=$D; " + _STORE + '; printf "$T" > $D/config',
    "bare with a tree": "S=$D; " + _STORE + '; printf "[core]\\n\\tworktree = $D\\n$T" > $D/config',
    "commondir": "S=$D.store; mkdir -p $D; "
    + _STORE
    + '; printf "$T" > $S/config; cp $S/HEAD $D; echo ../${D##*/}.store > $D/commondir',
    "worktree config": "S=$D.store; mkdir -p $D; "
    + _STORE
    + "; printf '[core]\\n\\tbare = false\\n[extensions]\\n\\tworktreeConfig = true\\n' > $S/config; cp $S/HEAD $D; echo ../${D##*/}.store > $D/commondir"
    + '; printf "[core]\\n\\tworktree = $D\\n$T" > $D/config.worktree',
    "git file": "S=$D.store; mkdir -p $D; "
    + _STORE
    + '; printf "$T" > $S/config; echo gitdir: ../${D##*/}.store > $D/.git',
    "git link": "S=$D.store; mkdir -p $D; "
    + _STORE
    + '; printf "$T" > $S/config; ln -s ../${D##*/}.store $D/.git',
    "config link": 'git init -q $D; printf "$T" > $D/c; ln -sf ../c $D/.git/config',
    "linked folders": "S=$D.store; mkdir -p $D; "
    + _STORE
    + '; for n in objects refs HEAD; do ln -s ../${D##*/}.store/$n $D/$n; done; printf "$T" > $D/config',
    "module": 'git init -q $D; mv $D/.git $W/.git/modules/${D##*/}; printf "$T" > $W/.git/modules/${D##*/}/config;'
    + " echo gitdir: $W/.git/modules/${D##*/} > $D/.git",
    "deep module": 'git init -q $D; mkdir -p $W/.git/modules/a/b; mv $D/.git $W/.git/modules/a/b/${D##*/}; printf "$T" > $W/.git/modules/a/b/${D##*/}/config;'
    + " echo gitdir: $W/.git/modules/a/b/${D##*/} > $D/.git",
    "worktree": "mkdir -p $D $W/.git/worktrees/${D##*/}; cp $W/.git/HEAD $W/.git/worktrees/${D##*/}; S=$D.store; "
    + _STORE
    + '; printf "$T" > $S/config;'
    + " echo $S > $W/.git/worktrees/${D##*/}/commondir; echo $D/.git > $W/.git/worktrees/${D##*/}/gitdir; echo gitdir: $W/.git/worktrees/${D##*/} > $D/.git",
    "submodule in node_modules": "N=$W/node_modules/${D##*/}; mkdir -p $D; git init -q $N; git -C $N commit -q --allow-empty -m x;"
    + ' git -C $W update-index --add --cacheinfo 160000,$(git -C $N rev-parse HEAD),node_modules/${D##*/}; printf "$T" >> $N/.git/config',
    "under a link": 'git init -q $D.real; printf "$T" > $D.real/.git/config; ln -s ${D##*/}.real $D',
    "gone rights": 'git init -q $D; printf "$T" > $D/.git/config; chmod 311 $D/.git $D',
}
_WHOLE = {
    "hook": "git init -q $D; mkdir -p $D/.git/hooks; ln -s $C $D/.git/hooks/pre-commit",
    "sample hook": "git init -q $D; rm -rf $D/.git/hooks; mkdir $D/.git/h.sample; ln -s $C $D/.git/h.sample/pre-commit; ln -s h.sample $D/.git/hooks",
    "hooks through a link": "git init -q $D; rm -rf $D/.git/hooks; mkdir $D/hh; ln -s ../hh $D/.git/hooks; cp $C $D/hh/pre-commit",
    "hooks in a submodule": "git init -q $D; mv $D/.git $W/.git/modules/${D##*/}; echo gitdir: $W/.git/modules/${D##*/} > $D/.git;"
    + " mkdir -p $W/.git/modules/${D##*/}/hooks; cp $C $W/.git/modules/${D##*/}/hooks/pre-commit",
    "existing submodule": 'printf "[core]\\n\\tfsmonitor = $C\\n" >> $W/.git/modules/sub/config; mkdir -p $W/.git/modules/sub/hooks;'
    + " cp $C $W/.git/modules/sub/hooks/pre-commit",
    "existing worktree": "printf '[core]\\n\\tfsmonitor = %s\\n' $C > $W/.git/worktrees/tree/config.worktree; S=$W/store; "
    + _STORE
    + ";"
    + ' printf "[core]\\n\\tfsmonitor = $C\\n" > $S/config; echo $S > $W/.git/worktrees/tree/commondir',
    "dangling": "echo x; mkdir -p $W/nowhere; cp $C $W/nowhere/pre-commit",
    "configured hooks": "mkdir -p $W/tools/hooks; cp $C $W/tools/hooks/post-commit; cp $C $W/tools/hooks/pre-commit; cp $C $W/tools/hooks/post-checkout",
    "configured include": 'printf "[core]\\n\\tfsmonitor = $C\\n" > $W/shared.gitconfig',
    "pending": "git init -q $D; cd $D; git commit -q --allow-empty -m 1; git commit -q --allow-empty -m 2;"
    + " stop; echo exec $C >> .git/rebase-merge/git-rebase-todo",
    "exec-todo": 'cd $W; stop; echo "x $C" >> .git/rebase-merge/git-rebase-todo',
    "strategy": "cd $W; stop; mkdir -p git-merge-a; cp $C git-merge-a/b; printf a/b > .git/rebase-merge/strategy;"
    + " git checkout -q --detach main~1; echo other > f; git commit -qam other; ",
    "author-script": 'cd $W; stop; echo "GIT_AUTHOR_NAME=\\$($C)" > .git/rebase-merge/author-script',
    "main-commondir": "S=$W/store; "
    + _STORE
    + '; printf "[core]\\n\\tfsmonitor = $C\\n" > $S/config; echo ../store > $W/.git/commondir',
    "main-worktree-config": 'printf "[core]\\n\\tfsmonitor = $C\\n" > $W/.git/config.worktree',
    "main-hooks": "rm -rf $W/.git/hooks; mkdir -p $W/.git/hooks; cp $C $W/.git/hooks/pre-commit; cp $C $W/.git/hooks/post-checkout",
    "bisect-names": 'cd $W; git bisect start -q HEAD HEAD~1; echo "\\$($C)" > .git/BISECT_NAMES',
}


class Plant(NamedTuple):
    name: str
    script: str
    folder: str


def plants(seed: int, count: int) -> list[list[Plant]]:
    """Workspaces of plants, all drawn from one seed.

    Every layout, setting and spelling is in the first ones.
    """
    drawn = random.Random(seed)
    pairs = [(layout, "fsmonitor", "plain") for layout in _LAYOUTS]
    pairs += [("dot git", setting, "plain") for setting in _SETTINGS]
    pairs += [("dot git", "fsmonitor", spelling) for spelling in _SPELLINGS]
    whole = [(name, "", "") for name in _WHOLE]
    drawn.shuffle(pairs)
    chosen = [*whole, *pairs]
    while len(chosen) < count:
        chosen.append(
            (
                drawn.choice(list(_LAYOUTS)),
                drawn.choice(list(_SETTINGS)),
                drawn.choice(list(_SPELLINGS)),
            )
        )
    chosen = chosen if count >= len(chosen) else drawn.sample(chosen, count)
    spaces: list[list[Plant]] = []
    for number, (layout, setting, spelling) in enumerate(chosen):
        shared = layout in SHARED
        space = next(
            (
                s
                for s in spaces
                if len(s) < AT_ONCE
                and not (shared and any(p.name.split("/")[0] in SHARED for p in s))
            ),
            None,
        )
        if space is None:
            spaces.append(space := [])
        folder = (
            drawn.choice(["", "a/", "a b/c/", "target/", "node_modules/x/", "deep/d/d/d/d/d/"])
            + f"p{number}"
        )
        if layout in _WHOLE:
            space.append(Plant(layout, _WHOLE[layout], folder))
        else:
            text = _SPELLINGS[spelling].replace("$T", _SETTINGS[setting])
            more = (
                "; mkdir -p $D/h; cp $C $D/h/pre-commit; cp $C $D/h/post-checkout; echo '* filter=x diff=x' > $D/a"
                '; printf "[core]\\n\\tfsmonitor = $C\\n" > $D/more'
                "; for g in $D/.git $D; do [ -d $g/info ] || mkdir -p $g/info; cp $D/a $g/info/attributes; done 2>/dev/null"
            )
            space.append(
                Plant(
                    f"{layout}/{setting}/{spelling}",
                    f'T="{text}"; ' + _LAYOUTS[layout] + (more if setting != "fsmonitor" else ""),
                    folder,
                )
            )
    return spaces


# ---------------------------------------------------------------- the user

_USER = """
for D in "$W" "$W/sub" "$W/tree" "$@"; do
  cd "$D" 2>/dev/null || continue
  echo changed >> f; echo new > new; mkdir -p e; echo y > e/y
  git rebase --continue; git am --continue; git cherry-pick --continue; git bisect visualize --oneline; git rebase --skip; git rebase --abort
  git status; git diff; git diff HEAD; git log -2 -p; git stash list; git branch -a
  git add -A; git commit -m words; git commit --amend --no-edit
  git checkout -q -b other; git checkout -q -; echo more >> f; git stash; git stash pop; git show; git blame f
  git submodule status; git submodule update; git fetch; git fetch "$W/upstream"; git gc -q; git worktree list; git clean -n; git describe --all
done
exit 0
"""


@contextmanager
def ground() -> Generator[Path]:
    """A user's workspace `work` with a repository, a submodule, a worktree, hooks that are
    configured and not there, and a dangling link to hooks.
    """
    place, archive = _built()
    place.mkdir(mode=0o700)
    try:
        subprocess.run(["tar", "-xf", "-"], cwd=place, input=archive, check=True)
        yield place
    finally:
        _remove(place)


@cache
def _built() -> tuple[Path, bytes]:
    """Where each ground of this process lies, for git names whole paths, and its files."""
    place = Path(
        tempfile.mkdtemp(
            prefix=".treadle-test-", dir="/var/lib" if os.geteuid() == 0 else Path.home()
        )
    )
    try:
        for folder in ("work", "scratch", "quarantine", "home", "ran", "bin"):
            (place / folder).mkdir()
        (place / "home/.gitconfig").write_text(
            '[user]\n\tname = Ada\n\temail = a@b.c\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n[protocol "file"]\n\tallow = always\n'
        )
        script = """set -e; cd "$W"; git init -q; echo 1 > f; git add f; git commit -q -m 1; echo 2 > f; git commit -qam 2
        git init -q --bare upstream; git push -q upstream main; git submodule --quiet add "$W/upstream" sub; git commit -qm sub; git worktree add -q tree
        git config core.hooksPath tools/hooks; git config include.path "$W/shared.gitconfig"
        git init -q linked; rm -r linked/.git/hooks; ln -s "$W/nowhere" linked/.git/hooks; echo 1 > linked/f
        rm -rf .git/hooks .git/info"""
        done = jailed(place, script, ())
        assert done.returncode == 0, done.stdout
        archive = subprocess.run(
            ["tar", "-H", "posix", "-cf", "-", "."], cwd=place, stdout=subprocess.PIPE, check=True
        )
        return place, archive.stdout
    finally:
        _remove(place)


def _remove(place: Path) -> None:
    subprocess.run(["chmod", "-R", "u+rwX", str(place)], check=False)
    shutil.rmtree(place)


def jailed(place: Path, script: str, folders: Sequence[str]) -> subprocess.CompletedProcess[str]:
    jail = [
        BWRAP,
        "--unshare-all",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
        "--tmpfs",
        "/tmp",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    bound = [
        "--bind",
        str(place),
        str(place),
        "--setenv",
        "W",
        str(place / "work"),
        "--setenv",
        "HOME",
        str(place / "home"),
        "--setenv",
        "GIT_EDITOR",
        "",
    ]
    bound += [
        "--unsetenv",
        "GIT_EDITOR",
        "--setenv",
        "EDITOR",
        "true",
        "--setenv",
        "GIT_TERMINAL_PROMPT",
        "0",
        "--chdir",
        str(place / "work"),
    ]
    command = [*jail, *bound, "bash", "-c", script, "bash", *folders]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )


def ran(space: Sequence[Plant], *, clears: bool = True) -> tuple[list[str], list[str]]:
    """Return the names of the plants whose program ran in the end, and all that ran or not.

    `clears`: False leaves everything where it is.
    """
    with ground() as place:
        lines = ["stop() { GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1; }"]
        folders: list[str] = []
        for number, plant in enumerate(space):
            program = place / f"bin/c{number}"
            program.write_text(f"#!/bin/sh\necho x > '{place}/ran/{number}'\nexit 0\n")
            program.chmod(0o755)
            folders.append(f"{place}/work/{plant.folder}")
            lines.append(
                f"( W='{place}/work'; D='{folders[-1]}'; C='{program}'; mkdir -p \"${{D%/*}}\"; set -f; IFS=; {plant.script} )"
            )
        with (
            mock.patch.object(control_files.ControlFiles, "_clear", return_value=[])
            if not clears
            else nullcontext()
        ):
            confined(place, "exec 2>/dev/null\n" + "\n".join(lines))
        jailed(place, _USER, folders)  # outside of it, no program could leave its mark
        found = {int(mark.name) for mark in (place / "ran").iterdir()}
        return [space[number].name for number in sorted(found)], [plant.name for plant in space]


def worked(script: str) -> list[str]:
    """Return what was moved away after a command that does daily work.

    Raises AssertionError where git failed.
    """
    with ground() as place:
        moved = confined(place, f"cd '{place}/work'; {script}")
        assert jailed(place, "git status", ()).returncode == 0
        return moved


S = TypeVar("S", bound=Bubblewrap)


def tried(sandbox: S) -> S:
    """Give it the trial of this process: what bubblewrap can do here is found out once."""
    sandbox._trial = _trial()
    return sandbox


@cache
def _trial() -> Trial:
    sandbox = Bubblewrap(BWRAP)
    anyio.run(sandbox.standing)
    return sandbox._trial


def confined(place: Path, script: str, **room_of: Any) -> list[str]:
    """Run a command in the sandbox; return what was moved away.

    `room_of`: what is special about its room.
    """
    sandbox = tried(Bubblewrap(BWRAP, home=place / "home"))
    room = CommandRoom(
        workspace=place / "work",
        scratch=lambda: place / "scratch",
        quarantine=lambda: place / "quarantine",
        is_open=True,
    )
    room = structs.replace(room, **room_of)
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), "EDITOR": "true"}
    cage = sandbox.make_cage(["/bin/bash", "-c", script], room.workspace, environment, room)
    cage.run_blocking(120)
    return list(cage.quarantined)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="store_true")
    options = parser.parse_args()
    total = bitten = 0
    for space in plants(options.seed, options.count):
        found, names = ran(space, clears=not options.without)
        total += len(names)
        bitten += len(found)
        for name in found:
            print(f"ran: {name}")
        if options.without:
            for name in sorted(set(names) - set(found)):
                print(f"did not run: {name}")
    print(f"{total} plants, {bitten} ran")


if __name__ == "__main__":
    main()
