"""Descriptions of a command's effects for the user who approves it, such as "it deletes files:
build". They do not affect the decision. Entry point: `effect_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from treadle.policy.shell.dangers import REMOVES
from treadle.policy.shell.options import names
from treadle.policy.shell.runners import INTERPRETERS, NETWORK, RUNNERS

SHOWN_CHARS: Final = 80

_PACKAGES: Final = names(
    "pip pip3 npm pnpm yarn bun uv poetry pipenv cargo gem composer conda mamba bundle go"
)
"""Needed by: `npm publish` (ask, "publishes, or signs in to a registry")."""
_INSTALLS: Final = names("install i ci add remove uninstall update upgrade sync get")
"""Needed by: `pip install .` (ask, "installs or removes packages")."""
_PUBLISHES: Final = names("publish login logout unpublish")
"""Needed by: `npm publish` (ask, "publishes, or signs in to a registry")."""

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
"""Needed by: `kill 12` (ask, "ends processes")."""


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
    if program in INTERPRETERS or re.fullmatch(r"(?:python|ruby|perl|php|node|lua)[\d.]+", program):
        return f"it runs arbitrary code ({program})"
    return f"{program[:60]!r} is a program that this policy does not know"


def _sed(words: Sequence[str]) -> str:
    return (
        "edits files in place"
        if _given(words, "i", "--in-place")
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
    if at >= len(words):
        return None
    command, rest = words[at], words[at + 1 :]
    if (judged := _GIT_BY_OPTION.get(command)) is not None:
        return judged(rest)
    return _GIT.get(command)


def _given(rest: Sequence[str], short: str, *long: str) -> bool:
    """Return True if an option is among the words, also within a cluster of letters.

    `short`: letters. `long`: prefixes, including the dashes.
    """
    return any(
        (
            word.startswith(long)
            if word.startswith("--")
            else any(letter in word[1:] for letter in short)
        )
        for word in rest
        if word.startswith("-")
    )


def _push(rest: Sequence[str]) -> str:
    if _given(rest, "f", "--force", "--mirror") or any(word.startswith("+") for word in rest):
        return "rewrites history on the remote"
    if _given(rest, "d", "--delete", "--prune") or any(
        word.startswith(":") and word != ":" for word in rest
    ):
        return "deletes branches or tags on the remote"
    return "publishes commits"


def _reset(rest: Sequence[str]) -> str:
    return (
        "discards uncommitted changes"
        if _given(rest, "", "--hard", "--merge", "--keep")
        else "moves the current branch, or unstages changes"
    )


def _checkout(rest: Sequence[str]) -> str:
    return (
        "discards uncommitted changes"
        if _given(rest, "f", "--force", "--discard") or "--" in rest or "." in rest
        else "switches to a branch, or restores files"
    )


def _restore(rest: Sequence[str]) -> str:
    return (
        "unstages changes"
        if _given(rest, "S", "--staged") and not _given(rest, "W", "--worktree")
        else "discards uncommitted changes"
    )


def _branch(rest: Sequence[str]) -> str:
    return (
        "deletes branches or tags"
        if _given(rest, "dD", "--delete")
        else "creates or changes branches or tags"
    )


def _stash(rest: Sequence[str]) -> str:
    return (
        "deletes stashed changes"
        if rest[:1] in (["drop"], ["clear"])
        else "moves changes to the stash, or back"
    )


def _commit(rest: Sequence[str]) -> str:
    return "rewrites the last commit" if _given(rest, "", "--amend") else "records a commit"


_GIT_BY_OPTION: Final[dict[str, Callable[[Sequence[str]], str]]] = {
    "push": _push,
    "reset": _reset,
    "checkout": _checkout,
    "switch": _checkout,
    "restore": _restore,
    "branch": _branch,
    "tag": _branch,
    "stash": _stash,
    "commit": _commit,
}
"""Needed by: `git push` (ask, "publishes commits")."""
_GIT: Final[dict[str, str]] = {
    "clean": "deletes untracked files",
    "rm": "deletes files",
    "mv": "moves files",
    "add": "stages changes",
    **dict.fromkeys(("rebase", "filter-branch", "filter-repo", "replace"), "rewrites history"),
    **dict.fromkeys(
        ("merge", "cherry-pick", "revert", "am", "apply"), "changes files and the current branch"
    ),
    **dict.fromkeys(
        ("gc", "prune", "reflog", "repack"), "removes unreferenced objects, which undo may need"
    ),
    **dict.fromkeys(
        ("fetch", "pull", "clone", "ls-remote", "remote", "submodule", "lfs"),
        "connects to a remote repository",
    ),
    "config": "changes settings of git, which can name programs to run",
    "worktree": "creates or removes work trees",
    "init": "creates a repository",
}
"""Needed by: `git clean -fd` (ask, "deletes untracked files")."""
