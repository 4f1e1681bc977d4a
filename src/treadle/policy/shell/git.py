"""git: its read-only commands with their options, and the commands that a rule may extend.

No git command is provably read-only, because the configuration of the repository decides what git
reads, and may name programs. At best, a command therefore runs inside the sandbox. Entry:
`read_git`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from treadle.policy.shell.options import Options, names, read_options

_DIFF = (
    "patch no-patch unified raw patch-with-raw indent-heuristic minimal patience histogram stat "
    "compact-summary numstat shortstat dirstat summary name-only name-status color no-color "
    "color-words word-diff word-diff-regex= ignore-space-at-eol ignore-space-change "
    "ignore-all-space ignore-blank-lines ignore-cr-at-eol inter-hunk-context= function-context "
    "exit-code quiet find-renames find-copies no-renames relative no-relative text check "
    "full-index binary abbrev diff-filter= no-ext-diff no-textconv cached staged merge-base "
    "color-moved src-prefix= dst-prefix= no-prefix submodule ignore-submodules "
    "output-indicator-new= output-indicator-old= pickaxe-all pickaxe-regex"
)
_LOG = (
    f"{_DIFF} oneline decorate no-decorate graph all branches tags remotes max-count= skip= "
    "since= after= until= before= author= committer= grep= all-match invert-grep "
    "regexp-ignore-case extended-regexp fixed-strings perl-regexp merges no-merges first-parent "
    "reverse date= format pretty no-abbrev-commit abbrev-commit follow full-diff cherry "
    "left-right topo-order date-order author-date-order walk-reflogs source no-walk not "
    "simplify-merges ancestry-path simplify-by-decoration show-notes no-notes cherry-pick "
    "cherry-mark boundary full-history dense sparse parents children relative-date reflog"
)


def _o(
    short: str = "", values: str = "", long: str = "", *, glued: str = "", numbers: bool = False
) -> Options:
    return Options(short=short, short_values=values, long=long, glued=glued, numbers=numbers)


LOOKS: dict[str, Options] = {
    "status": _o(
        "sbvzu",
        "",
        "short branch show-stash porcelain long verbose untracked-files ignored ignore-submodules "
        "column no-column ahead-behind no-ahead-behind renames no-renames find-renames",
        glued="u",
    ),
    "diff": _o("psRabwWzqt", "SG", _DIFF, glued="UMCDBl", numbers=True),
    "log": _o("psRabwWzqtiEFPgcm", "SGn", _LOG, glued="UMCDBlL", numbers=True),
    "show": _o("psRabwWzqtcm", "SGn", _LOG, glued="UMCDBl", numbers=True),
    "shortlog": _o(
        "nsec", "", "numbered summary email committer no-merges all since= until= group= format="
    ),
    "blame": _o(
        "bltfnswec",
        "L",
        "root show-stats line-porcelain porcelain incremental abbrev date= color-lines "
        "color-by-age show-name show-number show-email since=",
        glued="MC",
    ),
    "branch": _o(
        "avrvi",
        "",
        "list all remotes verbose show-current contains no-contains merged no-merged points-at= "
        "sort= format= color no-color column no-column",
    ),
    "tag": _o(
        "lin", "", "list contains no-contains merged no-merged points-at= sort= format= column"
    ),
    "rev-parse": _o(
        "q",
        "",
        "abbrev-ref short verify quiet show-toplevel show-prefix show-cdup git-dir git-common-dir "
        "is-inside-work-tree is-bare-repository all branches tags remotes symbolic "
        "symbolic-full-name absolute-git-dir show-superproject-working-tree default=",
    ),
    "rev-list": _o("n", "n", f"{_LOG} count objects", numbers=True),
    "ls-files": _o(
        "cdmosiktuvfz",
        "x",
        "cached deleted modified others ignored stage unmerged killed directory "
        "no-empty-directory exclude= exclude-standard error-unmatch full-name abbrev debug eol",
    ),
    "ls-tree": _o(
        "drtlz", "", "long name-only name-status object-only full-name full-tree abbrev format="
    ),
    "cat-file": _o("tpse"),
    "describe": _o(
        "",
        "",
        "all tags contains abbrev= candidates= exact-match long match= exclude= always "
        "first-parent dirty broken",
    ),
    "grep": _o(
        "EFGPivwIarRhHnlLcoqpWz",
        "eABCm",
        "cached untracked no-exclude-standard exclude-standard text ignore-case word-regexp "
        "invert-match full-name extended-regexp basic-regexp perl-regexp fixed-strings "
        "line-number column files-with-matches name-only files-without-match null only-matching "
        "count color no-color break heading show-function context= after-context= before-context= "
        "function-context max-count= threads= and or not all-match quiet max-depth= recursive "
        "no-recursive",
        numbers=True,
    ),
    "merge-base": _o("a", "", "all octopus independent is-ancestor fork-point"),
    "show-ref": _o("sdq", "", "head heads tags dereference hash verify abbrev quiet branches"),
    "for-each-ref": _o(
        "", "", "format= count= sort= points-at= merged no-merged contains no-contains"
    ),
    "check-ignore": _o("qvzn", "", "quiet verbose stdin non-matching no-index"),
    "diff-tree": _o("prtsvcmz", "", f"{_DIFF} root no-commit-id", glued="MCU"),
    "reflog": _o("n", "n", _LOG, numbers=True),
    "version": _o(),
}
"""Commands of git that only read, with their read-only options. Needed by: `git ROW` (contained).
"""

ACTS: dict[str, Options] = {
    "add": _o("nvfuAN", "", "all update verbose dry-run force intent-to-add no-all ignore-removal"),
    "commit": _o(
        "aqvsn",
        "m",
        "all message= quiet verbose amend no-edit signoff allow-empty allow-empty-message date= "
        "author= only include dry-run",
    ),
    "switch": _o("qm", "cC", "create= force-create= quiet detach"),
    "checkout": _o("qb", "b", "quiet detach"),
    "restore": _o("SWqs", "", "staged worktree quiet source="),
    "stash": _o("uaqpk", "m", "include-untracked all quiet keep-index message="),
    "mv": _o("fknv"),
    "rm": _o("rfnq", "", "cached force quiet dry-run"),
    "merge": _o("q", "m", "no-ff ff ff-only squash no-edit quiet abort continue message="),
    "cherry-pick": _o("nx", "", "no-commit abort continue quit"),
    "revert": _o("n", "", "no-edit no-commit abort continue quit"),
    "rebase": _o("q", "", "quiet abort continue skip onto="),
}
"""Commands that change the repository, with the options that a rule for the command also allows.
Needed by: `git ROW x` (contained, allow `git ROW`).
"""

NETWORK = names(
    "fetch pull push clone ls-remote remote send-email svn p4 submodule lfs archive request-pull "
    "daemon instaweb"
)
"""Needed by: `git ROW` (ask, allow `git ROW`)."""
_OWN = (
    LOOKS.keys()
    | ACTS.keys()
    | (NETWORK - {"svn", "p4", "lfs"})
    | names(
        "am annotate apply bisect bundle clean commit-graph commit-tree config count-objects "
        "difftool fast-export fast-import filter-branch format-patch fsck gc hash-object help "
        "init interpret-trailers mailinfo maintenance mergetool mktag mktree multi-pack-index "
        "name-rev notes pack-objects pack-refs patch-id prune range-diff read-tree repack replace "
        "rerere reset show-branch sparse-checkout stripspace symbolic-ref unpack-objects "
        "update-index update-ref var verify-commit verify-pack verify-tag whatchanged worktree "
        "write-tree"
    )
)
"""Git's own commands, which aliases cannot replace. Needed by: `git ROW` (allow in mode full, deny
`git x`).
"""
_BEFORE = names("--no-pager --no-optional-locks --literal-pathspecs --no-replace-objects -P")
"""Needed by: `git ROW log` (contained)."""


@dataclass(frozen=True, slots=True)
class GitCommand:
    form: Literal["looks", "acts", "unknown"]
    command: str = ""
    why: str = ""
    operands: tuple[str, ...] = ()


def read_git(argv: Sequence[str]) -> GitCommand:
    """Parse the arguments of git, without its name."""
    i = 0
    while i < len(argv) and argv[i] in _BEFORE:
        i += 1
    if i >= len(argv):
        return GitCommand("unknown", why="git without a command tells how it is used")
    command, rest = argv[i], argv[i + 1 :]
    if command.startswith("-"):
        return GitCommand(
            "unknown", command, f"git's {command.split('=')[0]} can change what git runs, or where"
        )
    for form, table in (("looks", LOOKS), ("acts", ACTS)):
        options = table.get(command)
        if options is None:
            continue
        parsed = read_options(rest, options)
        if any(re.match(r"-\D", value) for value in parsed.values):
            return GitCommand(
                "unknown",
                command,
                f"git {command} is given an option where this policy expects a value",
            )
        if parsed.unknown is None and (
            form == "acts" or not _changes(command, parsed.operands, parsed.given)
        ):
            return GitCommand(
                "looks" if form == "looks" else "acts", command, "", tuple(parsed.operands)
            )
        if parsed.unknown is not None:
            return GitCommand(
                "unknown",
                command,
                f"git {command}'s {parsed.unknown} may write a file or run a program",
            )
    return GitCommand(
        "unknown", command, f"git {command} can change the repository, or send it elsewhere"
    )


def _changes(command: str, operands: Sequence[str], given: set[str]) -> bool:
    """Return True if its operands make a read-only command change the repository."""
    if command == "branch":
        return bool(operands) and not given & {
            "list",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
        }
    if command == "tag":
        return bool(operands) and not given & {
            "l",
            "list",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
        }
    if command == "reflog":
        return bool(operands) and operands[0] in ("expire", "delete", "drop")
    return False


def renames(argv: Sequence[str]) -> bool:
    """Return True if git could run a command other than the one in `argv`: by a setting, an alias,
    or a program that is not part of git.
    """
    i = 0
    while i < len(argv) and argv[i].startswith("-"):
        if argv[i].startswith(("-c", "--config-env", "--exec-path")):
            return True
        i += 2 if argv[i] in ("-C", "--git-dir", "--work-tree", "--namespace") else 1
    return i < len(argv) and argv[i] not in _OWN


def git_runs(argv: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Return the commands and scripts that git runs: `bisect run X`, `submodule foreach X`, `-c
    alias.x=!X`, `--exec=X`.
    """
    commands, scripts = list[list[str]](), list[str]()
    for i, word in enumerate(argv):
        following = list(argv[i + 1 :])
        if (
            word in ("run", "foreach")
            and i
            and argv[i - 1] in ("bisect", "submodule", "--recursive")
        ):
            commands.append(following)
            scripts.append(" ".join(following))
        elif (
            word in ("-x", "--exec", "--upload-pack", "--receive-pack", "--extcmd", "-O")
            and following
        ):
            scripts.append(following[0])
        elif (found := re.match(r"(?:--[\w-]+|[\w.-]+)=!?(.+)", word, re.DOTALL)) is not None and (
            not word.startswith("--") or _RUNS.match(word)
        ):
            scripts.append(found[1])
    return [command for command in commands if command], scripts


_RUNS = re.compile(
    r"--(?:exec|upload-pack|receive-pack|extcmd|open-files-in-pager|config-env|ext-diff|textconv|filter|ssh|editor|pager)"
)
