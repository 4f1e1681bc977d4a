"""Descriptions of a command's effects for the user who approves it, such as "it deletes files:
build". They do not affect the decision. Entry point: `effect_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from treadle.policy.shell.dangers import REMOVES
from treadle.policy.shell.options import names
from treadle.policy.shell.runners import NETWORK, RUNNERS, is_interpreter

SHOWN_CHARS: Final = 80

_PACKAGES: Final = names(
    "pip pip3 npm pnpm yarn bun uv poetry pipenv cargo gem composer conda mamba bundle go"
)
"""Needed by: `ROW install x` (ask, "installs or removes packages")."""
_INSTALLS: Final = names("install i ci add remove uninstall update upgrade sync get")
"""Needed by: `npm ROW` (ask, "installs or removes packages")."""
_PUBLISHES: Final = names("publish login logout unpublish")
"""Needed by: `npm ROW` (ask, "publishes, or signs in to a registry")."""

_TOLD: Final[dict[str, str]] = {
    **dict.fromkeys(REMOVES, "deletes files"),
    "truncate": "empties or truncates files",
    "dd": "writes raw data to a file or a disk",
    "mv": "moves files, and can overwrite others",
    **dict.fromkeys(("cp", "install"), "copies files, and can overwrite others"),
    "ln": "makes links",
    **dict.fromkeys(("chmod", "chattr", "setfacl"), "changes permissions of files"),
    **dict.fromkeys(("chown", "chgrp"), "changes owners of files"),
    **dict.fromkeys(("kill", "pkill", "killall"), "ends processes"),
    "crontab": "schedules commands",
    **dict.fromkeys(("systemctl", "service", "launchctl"), "controls services of this machine"),
    **dict.fromkeys(("mount", "umount"), "mounts file systems"),
    **dict.fromkeys(
        names("useradd userdel usermod groupadd passwd"), "changes users of this machine"
    ),
    **dict.fromkeys(
        names("apt apt-get dpkg dnf yum rpm pacman zypper apk brew snap flatpak port"),
        "installs or removes software on this machine",
    ),
    "twine": "publishes a package",
    **dict.fromkeys(
        names("tar bsdtar cpio unzip zip 7z ar"),
        "packs or unpacks archives, and can overwrite files",
    ),
    **dict.fromkeys(
        names("docker podman kubectl helm"), "controls containers, outside the sandbox"
    ),
    **dict.fromkeys(
        names("aws gcloud az terraform pulumi ansible ansible-playbook"),
        "controls machines and services elsewhere",
    ),
    **dict.fromkeys(
        names("sqlite3 psql mysql mongo mongosh redis-cli"), "runs statements on a database"
    ),
    **dict.fromkeys(
        names("vi vim nvim ex ed emacs nano"), "opens an editor, which can write any file"
    ),
}
"""Needed by: `ROW x` (ask), `ROW $x` (ask)."""


def effect_of(argv: Sequence[str]) -> str:
    """Return a command's effect, as the end of a sentence that begins with "Not run: "."""
    program, words = argv[0].rsplit("/", 1)[-1], argv[1:]
    if program == "git" and (said := _git(words)) is not None:
        return f"it {said} ({_shown(argv)})"
    if program in _FILTERS:
        return f"it {_FILTERS[program](words)} ({_shown(argv)})"
    if (said := _TOLD.get(program)) is not None:
        operands = [word for word in words if not word.startswith("-")]
        return f"it {said}" + (
            f": {_shown(operands)}" if program in REMOVES and operands else f" ({_shown(argv)})"
        )
    if program in _PACKAGES and (said := _packages(words)) is not None:
        return f"it {said} ({_shown(argv)})"
    if program in RUNNERS or (module := _module(program, words)) in RUNNERS:
        return f"it runs code of this project ({_shown(argv)})"
    if module is not None and module in ("pip", "venv", "ensurepip"):
        return f"it {_packages(words[2:]) or 'prepares packages'} ({_shown(argv)})"
    if program in NETWORK:
        return f"it connects to the network, and can send data there ({_shown(argv)})"
    if is_interpreter(program):
        return f"it runs arbitrary code ({program})"
    return f"{program[:60]!r} is a program that this policy does not know"


def _sed(words: Sequence[str]) -> str:
    return (
        "edits files in place"
        if any(re.match(r"-\w*i|--in-place", word) for word in words)
        else "may write a file or run a command"
    )


def _find(words: Sequence[str]) -> str:
    return (
        "deletes the files that it finds"
        if "-delete" in words
        else "runs a command on the files that it finds, or writes their names to a file"
    )


_FILTERS: Final = {"sed": _sed, "find": _find}
"""Needed by: `find . -delete` (ask, "deletes the files that it finds")."""


def _shown(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


def _module(program: str, words: Sequence[str]) -> str | None:
    return (
        words[1]
        if len(words) > 1 and words[0] == "-m" and re.fullmatch(r"(?:python|pypy)[\d.]*", program)
        else None
    )


def _packages(words: Sequence[str]) -> str | None:
    command = next((word for word in words if not word.startswith("-")), "")
    if command in _INSTALLS:
        return "installs or removes packages, which can run their own code"
    return "publishes, or signs in to a registry" if command in _PUBLISHES else None


# ---------------------------------------------------------------- git


def _git(words: Sequence[str]) -> str | None:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    command, rest = next(iter(words[at:]), ""), words[at + 1 :]
    return next(
        (
            effect
            for commands, option, effect in _GIT
            if command in commands.split()
            and (not option or any(re.match(option, word) for word in rest))
        ),
        None,
    )


_GIT: Final = (
    ("push", r"-\w*f|--force|--mirror|\+", "rewrites history on the remote"),
    ("push", r"-\w*d|--delete|--prune|:.", "deletes branches or tags on the remote"),
    ("push", "", "publishes commits"),
    ("reset", r"--(?:hard|merge|keep)", "discards uncommitted changes"),
    ("reset", "", "moves the current branch, or unstages changes"),
    ("checkout switch", r"-\w*f|--force|--discard|--$|\.$", "discards uncommitted changes"),
    ("checkout switch", "", "switches to a branch, or restores files"),
    ("restore", r"-\w*W|--worktree", "discards uncommitted changes"),
    ("restore", r"-\w*S|--staged", "unstages changes"),
    ("restore", "", "discards uncommitted changes"),
    ("branch tag", r"-\w*[dD]|--delete", "deletes branches or tags"),
    ("branch tag", "", "creates or changes branches or tags"),
    ("stash", r"(?:drop|clear)$", "deletes stashed changes"),
    ("stash", "", "moves changes to the stash, or back"),
    ("commit", r"--amend", "rewrites the last commit"),
    ("commit", "", "records a commit"),
    ("clean", "", "deletes untracked files"),
    ("rm", "", "deletes files"),
    ("mv", "", "moves files"),
    ("add", "", "stages changes"),
    ("rebase filter-branch filter-repo replace", "", "rewrites history"),
    ("merge cherry-pick revert am apply", "", "changes files and the current branch"),
    ("gc prune reflog repack", "", "removes unreferenced objects, which undo may need"),
    ("fetch pull clone ls-remote remote submodule lfs", "", "connects to a remote repository"),
    ("config", "", "changes settings of git, which can name programs to run"),
    ("worktree", "", "creates or removes work trees"),
    ("init", "", "creates a repository"),
)
"""Commands, a pattern of one of their words, and their effect. The first row that matches counts.
Needed by: `git push -uf x` (ask, "rewrites history on the remote").
"""
