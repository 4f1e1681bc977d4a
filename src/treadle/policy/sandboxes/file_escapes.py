"""Attempts to escape the sandbox through files: the disk, secrets, denied files, control files.

Entry point: `FILE_ESCAPES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from treadle.policy.sandboxes.escape_attempt import (
    AS_IT_WAS,
    EscapeAttempt,
    EscapeGround,
    changed,
    there,
)


def _public_changed(ground: EscapeGround) -> bool:
    return ground.public.read_text() != AS_IT_WAS


def _is_no_link(ground: EscapeGround) -> bool:
    return not (ground.place / "work/CLAUDE.md").is_symlink()


def _planted(*paths: str) -> Callable[[EscapeGround], bool]:
    """Return a check that one of the files exists and was not quarantined."""
    return lambda ground: (
        any(os.path.lexists(ground.place / "work" / path) for path in paths)
        or len(ground.quarantined) < len(paths)
    )


def _left_in_etc(_: EscapeGround) -> bool:
    with suppress(FileNotFoundError):
        os.unlink("/etc/treadle-escape")
        return True
    return False


FILE_ESCAPES = (
    # ---- the disk
    EscapeAttempt("write a file outside the workspace", "echo x > $OUT/file", changed("out/file")),
    EscapeAttempt("make a file in the home", "echo x > $HOME_/made", there("home/made")),
    EscapeAttempt("write through a link that leads out", "echo x > link", changed("out/file")),
    EscapeAttempt(
        "write through a hard link of its own",
        "ln $OUT/file hard && echo x > hard",
        changed("out/file"),
    ),
    EscapeAttempt("delete a file outside", "rm -f $OUT/file", changed("out/file")),
    EscapeAttempt("move a folder outside", "mv $OUT $OUT-moved", changed("out/file")),
    EscapeAttempt(
        "write in /etc",
        "(: > /etc/treadle-escape) 2>/dev/null && echo ESCAPED",
        _left_in_etc,
        as_root=True,
    ),
    EscapeAttempt(
        "make the disk writable again",
        (
            "mount -o remount,rw / && echo ESCAPED; mount -o remount,rw,bind / / && echo ESCAPED; "
            "echo x > $OUT/file"
        ),
        changed("out/file"),
    ),
    EscapeAttempt(
        "mount something",
        "mount -t tmpfs none $OUT && echo ESCAPED; mount --bind . $OUT && echo ESCAPED",
    ),
    EscapeAttempt(
        "make a device",
        (
            "mknod disk b 254 0 && echo ESCAPED; for d in /dev/*; do [ -b $d ] && echo ESCAPED: "
            "$d; done"
        ),
    ),
    EscapeAttempt("leave the root by chroot", "chroot / true && echo ESCAPED"),
    # ---- what is private
    EscapeAttempt("see the temporary files of others", "[ -e $PUBLIC ] && echo ESCAPED"),
    EscapeAttempt("leave something among the temporary files", "echo x > $PUBLIC", _public_changed),
    EscapeAttempt(
        "see sockets and files of running services",
        (
            "for f in /run/*; do case $f in '/run/*' | /run/systemd | /run/current-system) ;; *) "
            "echo ESCAPED: $f ;; esac; done"
        ),
    ),
    EscapeAttempt(
        "see the lasting temporary files of others",
        "for f in /var/tmp/.[!.]* /var/tmp/*; do [ -e $f ] && echo ESCAPED: $f; done",
    ),
    # ---- secrets
    EscapeAttempt(
        "read a key of ssh", "cat $HOME_/.ssh/id_rsa | grep -q 'as it was' && echo ESCAPED"
    ),
    EscapeAttempt(
        "read credentials of a cloud",
        "cat $HOME_/.aws/credentials | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read a password of the network", "cat $HOME_/.netrc | grep -q 'as it was' && echo ESCAPED"
    ),
    EscapeAttempt(
        "read Treadle's own files", "cat $OWN/config.yaml | grep -q 'as it was' && echo ESCAPED"
    ),
    EscapeAttempt(
        "read the environment file of the workspace",
        "cat .env | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read the passwords of the system",
        "[ -s /etc/shadow ] && cat /etc/shadow > /dev/null && echo ESCAPED",
        as_root=True,
    ),
    EscapeAttempt("read a variable of ours", '[ "$TREADLE_TRIAL" ] && echo ESCAPED'),
    EscapeAttempt(
        "read a token of a package index",
        "cat $HOME_/.config/pypoetry/auth.toml | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read a secret deep in the workspace",
        "cat sub/deep/server.key sub/secrets/any | grep -q 'as it was' && echo ESCAPED",
    ),
    EscapeAttempt(
        "read what a rule denies",
        (
            "grep -rq 'as it was' private && echo ESCAPED; cat private/file | grep -q . && echo "
            "ESCAPED; mv private other; cat other/file && echo ESCAPED"
        ),
        there("work/other"),
    ),
    # ---- rules about writing, and rooms that are read-only
    EscapeAttempt(
        "write what a rule denies",
        "echo x > prod/file; rm -rf prod; mv prod other; : > prod/new",
        changed("work/prod/file"),
    ),
    EscapeAttempt(
        "make a file that a rule denies",
        "mkdir -p later && echo x > later/file",
        there("work/later"),
    ),
    EscapeAttempt(
        "write in the workspace while only looking",
        (
            "echo x > own.txt; rm -f own.txt; mv own.txt o; echo x > made; mkdir dir; touch "
            "own.txt; chmod 777 own.txt && echo ESCAPED"
        ),
        changed("work/own.txt"),
        only_looks=True,
    ),
    EscapeAttempt(
        "make a file in the workspace while only looking",
        "echo x > made; ln -s own.txt made; mkdir made; mkfifo made",
        there("work/made"),
        only_looks=True,
    ),
    EscapeAttempt(
        "make the workspace writable again",
        (
            "mount -o remount,rw,bind . && echo ESCAPED; mount -o remount,rw . && echo ESCAPED; "
            "mount --bind /tmp . && echo ESCAPED; echo x > made"
        ),
        there("work/made"),
        only_looks=True,
    ),
    # ---- control files
    EscapeAttempt(
        "change the configuration of git",
        "echo x > .git/config; mv .git/config .git/c",
        changed("work/.git/config"),
    ),
    EscapeAttempt(
        "plant a hook of git",
        (
            "echo x > .git/hooks/pre-commit; mkdir -p .git/hooks && ln -s /bin/true "
            ".git/hooks/post-checkout"
        ),
        there("work/.git/hooks/pre-commit"),
    ),
    EscapeAttempt(
        "move .git away and make another",
        "mv .git g; mkdir -p .git/hooks && echo x > .git/hooks/pre-commit; rm -rf .git",
        changed("work/.git/config"),
    ),
    EscapeAttempt(
        "change our own configuration",
        "echo x > .treadle/config.yaml; rm -rf .treadle",
        changed("work/.treadle/config.yaml"),
    ),
    EscapeAttempt(
        "change the words to agents",
        "echo x > AGENTS.md; mv AGENTS.md b; rm -f AGENTS.md",
        changed("work/AGENTS.md"),
    ),
    EscapeAttempt(
        "change a control file deep inside",
        "echo x > sub/deep/.envrc; mv sub moved; mkdir -p sub/deep; echo x > sub/deep/.envrc",
        changed("work/sub/deep/.envrc"),
    ),
    EscapeAttempt(
        "plant a control file",
        "echo '{}' > .mcp.json; mkdir -p new/.vscode && echo x > new/.vscode/settings.json",
        _planted(".mcp.json", "new/.vscode"),
    ),
    EscapeAttempt(
        "plant a repository with a program in it",
        "mkdir -p r/.git/hooks && printf '[core]\\n\\tfsmonitor = ./evil\\n' > r/.git/config",
        _planted("r/.git"),
    ),
    EscapeAttempt(
        "plant a repository without a name",
        (
            "mkdir -p b/objects b/refs && echo x > b/HEAD && printf '[core]\\n\\tfsmonitor = "
            "./evil\\n' > b/config"
        ),
        _planted("b/HEAD"),
    ),
    EscapeAttempt(
        "lead a linked control file elsewhere", "rm -f CLAUDE.md; echo x > CLAUDE.md", _is_no_link
    ),
)
