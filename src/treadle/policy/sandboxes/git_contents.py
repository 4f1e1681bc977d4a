"""Content of a repository that is allowed besides its control entries: files of git's own commands,
without anything that leads git out of the workspace.

Source: gitrepository-layout(5), and git 2.39 path.c, rerere.c, sequencer.c and builtin/am.c,
2026-11-22. Entry points: `contents`, `veiled`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

from treadle._internal.stamps import Stamp, stamp_of
from treadle.policy.sandboxes.git_index import index_at, is_astray

MAX_FOLDERS = 20_000
"""Maximum number of directories of one repository that are searched for links. Object directories
are not searched.
"""
_ORDINARY = re.compile(
    r"""(?:[A-Z]+_)*HEAD(?:S|\.lock)? | MERGE_(?:MSG|MODE|RR|AUTOSTASH) | SQUASH_MSG | AUTO_MERGE | (?:COMMIT|TAG|NOTES|MERGE|ADD|BRANCH)_?EDIT(?:MSG|\.patch)
    | EDIT_DESCRIPTION | NOTES_MERGE_(?:PARTIAL|REF|WORKTREE) | BISECT_[A-Z_]+ | FETCH_HEAD | description | refs | logs | objects | branches | remotes
    | packed-refs(?:\.new)? | shallow | index | sharedindex(?:\.[0-9a-f]+|_\w+) | next-index-\d+
    | rebase-merge | rebase-apply | sequencer | gc\.(?:log|pid) | FSCK
    | lost-found | lfs | annex | svn | reftable | locked | git-daemon-export-ok | (?:COMMIT_EDITMSG|MERGE_MSG)[~.\w-]*
    | config | config\.worktree | hooks | info | commondir | gitdir | modules | worktrees | fsmonitor--daemon(?:\.ipc)? 
    | [\w.-]+\.lock | (?:incoming|tmp_objdir)-[\w-]+""",  # noqa: E501
    re.VERBOSE,
)
_CONTROL = frozenset(
    {"config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules", "worktrees"}
)
_NOT_ORDINARY = frozenset({b"is not what git leaves in a repository"})
_RESOLUTION = re.compile(rb"[0-9a-f]{40,64}(?:\.\d+)?\t([^\0]+)")
_QUOTED_OPTION = r"""[ ]?'?(?:{0})'?"""
_OF_APPLY = r"-C\d+|-p\d+|--(?:whitespace=[a-z-]+|ignore-whitespace|ignore-space-change|reject|recount|inaccurate-eof)"  # noqa: E501
_OF_STRATEGY = (
    r"--(?:ours|theirs|patience|histogram|minimal|(?:no-)?renormalize|no-renames|(?:find-renames|rename-threshold)(?:=\d+%?)?"
    r"|ignore-[a-z-]+|diff-algorithm=[a-z]+)"
)
_OID = rb"[0-9a-f]{40,64}"
_FLAG = rb"(?:[tfb01]|yes|no|true|false)?\n?"
_REF = rb"refs/(?![^\n]*(?:\.\.|//|@\{))[^\s\0~^:?*\[\\]+"
_NUMBER = rb"[0-9]+\n?"
_REWRITTEN = rb"(?:" + _OID + rb"(?: " + _OID + rb")?\n)*"
_FLAGS = """
interactive quiet verbose signoff sign drop_redundant_commits keep_redundant_commits cdate_is_adate ignore_date reschedule-failed-exec
no-reschedule-failed-exec threeway utf8 keep messageid scissors rebasing applying dirtyindex no-verify keepcr committer-date-is-author-date ignore-date
"""  # noqa: E501
_TEXTS: Mapping[str, bytes] = {
    **dict.fromkeys(_FLAGS.split(), _FLAG),
    **dict.fromkeys(
        ("autostash", "onto", "orig-head", "amend", "stopped-sha", "squash-onto", "head"),
        _OID + rb"\n?",
    ),
    **dict.fromkeys(("abort-safety", "original-commit"), rb"(?:" + _OID + rb")?\n?"),
    **dict.fromkeys(("msgnum", "end", "next", "last"), _NUMBER),
    **dict.fromkeys(("rewritten-list", "rewritten-pending", "rewritten", "dropped"), _REWRITTEN),
    "apply-opt": f"(?:{_QUOTED_OPTION.format(_OF_APPLY)})*\n?".encode(),
    "strategy_opts": f"(?:{_QUOTED_OPTION.format(_OF_STRATEGY)})*\n?".encode(),
    "gpg_sign_opt": rb"(?:-S[\w@.+-]*|--no-gpg-sign)?\n?",
    "allow_rerere_autoupdate": rb"(?:--(?:no-)?rerere-autoupdate)?\n?",
    "quoted-cr": rb"(?:nowarn|warn|strip)?\n?",
    "head-name": rb"(?:refs/(?!.*\.\.)[^\s\0]+|detached HEAD)\n?",
    "current-fixups": rb"(?:(?:fixup|squash)(?: -[cC])? " + _OID + rb"\n?)*",
    "update-refs": rb"(?:(?:" + _REF + rb"|" + _OID + rb")\n?)*",
    "refs-to-delete": rb"(?:refs/rewritten/(?![^\n]*\.\.)[^\s\0]+\n?)*",
}
PLAIN_OPTIONS: Mapping[str, re.Pattern[bytes]] = {
    name: re.compile(text) for name, text in _TEXTS.items()
}
"""Files of an unfinished operation, each with the content that git itself writes."""
FREE_TEXT = re.compile(
    r"\d{4,} | message(?:-fixup|-squash)? | patch | info | msg | msg-clean | final-commit | "
    r"onto_name | patch-merge-index | done | git-rebase-todo\.backup"
    r"| [\w.-]+ (?: ~ | \.sw[a-p] | \.lock )",
    re.VERBOSE,
)
"""Further such files, which refer to no other file: messages, patches, records of finished steps,
and editors' files.
"""


def contents(folder: str, kind: str) -> dict[str, frozenset[bytes]]:
    """Return the entries of a repository that git did not create, by path below `folder`, each with
    a value that identifies it.
    """
    found: dict[str, frozenset[bytes]] = {}
    found.update(_links(folder))
    for entry in _entries(folder):
        name = entry.name
        if name in found or entry.is_symlink():
            continue
        if kind != "bare" and not _ORDINARY.fullmatch(name):
            found[name] = _NOT_ORDINARY
        elif name.casefold() == "index" or name.casefold().startswith("sharedindex."):
            if paths := index_at(entry.path, _hash_size(folder)).astray:
                found[name] = paths
        elif name.casefold() == "merge_rr" and not _leads_inside(folder, kind, entry.path):
            found[name] = frozenset({b"\0"})
    return found


def veiled(folder: str) -> frozenset[bytes]:
    """Return entries that make git misreport a repository: index paths marked as unchanged, and
    replaced objects.
    """
    replaced = {os.fsencode(entry.name) for entry in _entries(os.path.join(folder, "refs/replace"))}
    with suppress(OSError):
        place = os.path.join(folder, "packed-refs")
        replaced |= _replaced(place, stamp_of(os.lstat(place)))
    return index_at(os.path.join(folder, "index"), _hash_size(folder)).veiled | {
        b"refs/replace/" + name for name in replaced
    }


@lru_cache(maxsize=1_024)
def _replaced(place: str, _stamp: Stamp) -> frozenset[bytes]:
    with open(
        os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)),
        "rb",
    ) as file:
        return frozenset(re.findall(rb"refs/replace/([0-9a-f]{40,64})", file.read(1 << 28)))


def _links(folder: str) -> Iterator[tuple[str, frozenset[bytes]]]:
    """Yield every symbolic link except for control entries, which are checked separately. Git
    itself creates none.
    """
    waiting, left = [""], MAX_FOLDERS
    while waiting:
        inner = waiting.pop()
        left -= 1
        if left < 0:
            yield inner.partition("/")[0], frozenset({b"holds more folders than are looked into"})
            return
        for entry in _entries(os.path.join(folder, inner)):
            path = f"{inner}/{entry.name}" if inner else entry.name
            if not inner and entry.name.casefold() in _CONTROL:
                continue
            if entry.is_symlink():
                with suppress(OSError):
                    yield path, frozenset({os.fsencode(os.readlink(entry.path))})
            elif entry.is_dir(follow_symlinks=False) and not (
                inner.casefold() == "objects" and len(entry.name) == len("xx")
            ):
                waiting.append(path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _hash_size(folder: str) -> int:
    for config in ("config", "../../config"):
        with suppress(OSError), open(os.path.join(folder, config), "rb") as file:
            return 32 if b"sha256" in file.read(1 << 20).lower() else 20
    return 20


def _leads_inside(folder: str, kind: str, place: str) -> bool:
    """Return True if the conflicts that git records with the next commit are of files in the work
    tree. Git writes these files, also through links.
    """
    try:
        with open(
            os.open(
                place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            ),
            "rb",
        ) as file:
            records = file.read(1 << 20).removesuffix(b"\0").split(b"\0")
    except OSError:
        return False
    if records == [b""]:
        return True
    matches = [_RESOLUTION.fullmatch(record) for record in records]
    paths = [match[1] for match in matches if match is not None and not is_astray(match[1])]
    tree = os.path.realpath(os.path.dirname(folder))
    reals = [os.path.join(tree, os.fsdecode(path)) for path in paths]
    return (
        kind == "git"
        and len(paths) == len(records)
        and all(os.path.realpath(real) == real for real in reals)
    )
