"""Repositories of git, recognised as git recognises them, and what in one of them can make git run
a program.

Reads files only and never runs git. Each reader accepts a small subset of what git accepts and
reports everything else, so a difference between the two readings is never in favour of the file.
Entry: `RepositoryFolder`, `is_repository`, `flaws`.

Source: git 2.39 setup.c (is_git_directory, read_gitfile_gently, get_common_dir), config.c and
sequencer.c, and gitrepository-layout(5), 2026-11-22.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

from treadle.policy.sandboxes.git_contents import FREE_TEXT, PLAIN_OPTIONS, contents, veiled

Kind = Literal["git", "bare", "module", "worktree"]
"""`git`: a folder `.git`.

`module` and `worktree`: a folder that a repository keeps for a submodule or a linked worktree.
"""

CONTROL = frozenset(
    {"config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules", "worktrees"}
)
"""Entries of a repository that name programs or lead to such entries.

Every commit writes the others.
"""
PENDING = frozenset(
    {"rebase-merge", "rebase-apply", "sequencer", "bisect_names", "remotes", "branches"}
)
"""Entries that an operation leaves for the next call of git."""
MAX_BYTES = 1 << 20
MAX_LINE = 4_096
"""Bytes of a line of settings. Every expression here takes time in proportion to a line."""
MAX_INNER = 1_000
"""Folders of submodules and worktrees that are inspected in one repository."""

_OF_HEAD = {"head", "objects", "refs"}
_INFO = frozenset({"exclude", "sparse-checkout", "refs"})


class RepositoryFolder(NamedTuple):
    """A folder that git takes for a repository or for a part of one."""

    path: str
    """Path below the workspace."""
    kind: Kind
    parts: tuple[str, ...]
    """Names of its `CONTROL` entries."""
    pending: Mapping[str, frozenset[bytes]]
    """Settings that make git run a program or write elsewhere, by the entry below the repository
    that holds them.
    """
    veiled: frozenset[bytes] = frozenset()
    """Settings that make git show less than has changed."""


def is_repository(names: Iterable[str]) -> bool:
    """Return whether a folder with these entries may be a repository, with any letter case and
    without a look at the entries.
    """
    folded = {name.casefold() for name in names if len(name) <= len("commondir")}
    return "head" in folded and ("commondir" in folded or folded >= _OF_HEAD)


def repository_at(root: str, path: str, kind: Kind) -> RepositoryFolder:
    """Read one repository's entries. A folder that cannot be read has none."""
    folder = os.path.join(root, path)
    names = _names(folder)
    parts = tuple(sorted(name for name in names if name.casefold() in CONTROL))
    found: dict[str, frozenset[bytes]] = {}
    for name in names:
        if name.casefold() in PENDING:
            found.update(_pending(folder, name))
    for name, lines in contents(folder, kind).items():
        found[name] = found.get(name, frozenset()) | lines
    return RepositoryFolder(path, kind, parts, found, veiled(folder))


def inner_repositories(root: str, path: str) -> Iterator[tuple[str, Kind | None]]:
    """Yield the submodules and worktrees that a repository keeps, at any depth, as path and kind.

    A kind of None marks an entry that stands where such a folder may stand and is none that can be
    inspected: a link, or one folder too many.
    """
    waiting = _inner_folders(root, path)
    left = MAX_INNER
    while waiting:
        folder, kind = waiting.pop()
        for entry in _entries(os.path.join(root, folder)):
            inner = f"{folder}/{entry.name}"
            left -= 1
            if entry.is_symlink() or (left < 0 and entry.is_dir(follow_symlinks=False)):
                yield inner, None
            elif not entry.is_dir(follow_symlinks=False):
                continue
            elif kind == "worktree" or any(
                name.casefold() == "head" for name in _names(entry.path)
            ):
                yield inner, kind
                waiting += _inner_folders(root, inner)
            else:
                waiting.append((inner, kind))


def _inner_folders(root: str, path: str) -> list[tuple[str, Kind]]:
    found: list[tuple[str, Kind]] = []
    for entry in _entries(os.path.join(root, path)):
        if entry.name.casefold() in ("modules", "worktrees") and entry.is_dir(
            follow_symlinks=False
        ):
            found.append(
                (
                    f"{path}/{entry.name}",
                    "module" if entry.name.casefold() == "modules" else "worktree",
                )
            )
    return found


def last_changed(folder: str) -> int:
    """Return when a repository's control entries last changed, as a ctime in nanoseconds, which no
    program can set.
    """
    parts = [os.path.join(folder, name) for name in _names(folder) if name.casefold() in CONTROL]
    newest = 0
    for place in (*parts, *(os.path.join(part, name) for part in parts for name in _names(part))):
        with suppress(OSError):
            newest = max(newest, os.lstat(place).st_ctime_ns)
    return newest


# ---------------------------------------------------------------- what is not plain


def flaws(root: str, repository: RepositoryFolder) -> list[str]:
    """Return the names in a repository that are not as `git init` and `git clone` make them,
    sorted. None: nothing in it names a program.
    """
    folder = os.path.join(root, repository.path)
    found = {name for name in repository.parts if not is_plain_part(root, repository, name)} | set(
        repository.pending
    )
    names = {entry.name.casefold(): entry for entry in _entries(folder)}
    if not names and not os.access(folder, os.R_OK):
        return ["."]
    if "head" in names and not names["head"].is_file(follow_symlinks=False):
        found.add(names["head"].name)
    if _names(os.path.join(folder, "objects/info")) & {"alternates", "http-alternates"}:
        found.add("objects")
    return sorted(found)


def is_plain_part(root: str, repository: RepositoryFolder, name: str) -> bool:
    """Return whether one of a repository's `parts` is as git itself makes it."""
    place = os.path.join(root, repository.path, name)
    match name:
        case "config" | "config.worktree":
            return _is_plain_config(root, os.path.join(root, repository.path), name)
        case "hooks":
            return _is_folder_of(place, lambda entry: entry.name.endswith(".sample"))
        case "info":
            return _is_folder_of(place, lambda entry: entry.name in _INFO)
        case "modules" | "worktrees":
            return _is_folder(place)
        case "commondir":
            return repository.kind == "worktree" and read(place) == b"../..\n"
        case "gitdir":
            return repository.kind == "worktree" and _is_inside(root, place, read(place))
        case _:
            return False


def gitfile_target(root: str, path: str) -> str | None:
    """Return where a file `.git` leads, below the workspace; None where that cannot be said for
    certain or lies outside.
    """
    found = re.fullmatch(
        rb"gitdir: ([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)\n?",
        read(os.path.join(root, path)) or b"",
    )
    if found is None:
        return None
    real = os.path.realpath(os.path.join(root, os.path.dirname(path), os.fsdecode(found[1])))
    return os.path.relpath(real, root) if real.startswith(f"{root}/") else None


def read(place: str) -> bytes | None:
    """Return a regular file's whole content; None for a link, anything else, a file over
    `MAX_BYTES`, or one that cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return None
        with open(os.open(place, flags), "rb") as file:
            text = (
                file.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
            )
    except OSError:
        return None
    return text if text is not None and len(text) <= MAX_BYTES else None


def _is_folder(place: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False


def _is_folder_of(place: str, fits: Callable[[os.DirEntry[str]], bool]) -> bool:
    try:
        with os.scandir(place) as entries:
            return _is_folder(place) and all(
                fits(entry) and entry.is_file(follow_symlinks=False) for entry in entries
            )
    except OSError:
        return False


def _is_inside(root: str, place: str, target: bytes | None) -> bool:
    if target is None or not re.fullmatch(rb"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\n?", target):
        return False
    real = os.path.realpath(os.path.join(os.path.dirname(place), os.fsdecode(target.rstrip(b"\n"))))
    return real == root or real.startswith(f"{root}/")


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """List a folder.

    A command may have taken our right to do so, and git needs none to open what is in it.
    """
    for _ in range(2):
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except PermissionError:
            with suppress(OSError):
                if _is_folder(folder):
                    os.chmod(folder, stat.S_IMODE(os.lstat(folder).st_mode) | 0o700)
        except OSError:
            break
    return []


def _names(folder: str) -> set[str]:
    return {entry.name for entry in _entries(folder)}


# ---------------------------------------------------------------- configuration

_ANY = (
    rb"(?!-)(?![A-Za-z0-9+.-]*::)[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?"
)
"""A value that is neither an option nor the address of a helper program.

The line's own expression keeps out what git would not read literally.
"""
_BOOLEAN = rb"(?i:true|false|yes|no|on|off|[01])"
_WORD = rb"[A-Za-z0-9][A-Za-z0-9_.:-]*"
_BOOLEANS = """
core.filemode core.bare core.logallrefupdates core.ignorecase core.precomposeunicode core.symlinks core.quotepath core.longpaths
core.sparsecheckout core.sparsecheckoutcone extensions.worktreeconfig extensions.noop pull.rebase push.autosetupremote
remote*.promisor branch*.rebase submodule*.active
"""  # noqa: E501
_PLAIN: Mapping[str, bytes] = dict.fromkeys(_BOOLEANS.split(), _BOOLEAN) | {
    "core.repositoryformatversion": rb"[01]",
    "core.autocrlf": rb"(?i:true|false|input)",
    "core.eol": rb"lf|crlf|native",
    "core.safecrlf": rb"true|false|warn",
    "core.worktree": _ANY,
    "extensions.objectformat": rb"sha1|sha256",
    "extensions.refstorage": rb"files|reftable",
    "extensions.partialclone": _WORD,
    "user.name": _ANY,
    "user.email": _ANY,
    "init.defaultbranch": _ANY,
    "pull.ff": rb"true|false|only",
    "push.default": _WORD,
    "color.ui": rb"auto|always|never|true|false",
    "commit.gpgsign": rb"(?i:false|no|off|0)",
    "tag.gpgsign": rb"(?i:false|no|off|0)",
    "gc.auto": rb"[0-9]+",
    "lfs.repositoryformatversion": rb"[01]",
    "lfs*.access": rb"basic|none|private",
    "remote*.url": _ANY,
    "remote*.fetch": _ANY,
    "remote*.tagopt": rb"--(?:no-)?tags",
    "remote*.partialclonefilter": rb"[a-z0-9:=]+",
    "branch*.remote": _ANY,
    "branch*.merge": _ANY,
    "submodule.active": _ANY,
    "submodule*.url": _ANY,
}
"""Harmless settings. A star stands for a subsection.

Sources: git-config(1), git-lfs-config(5), 2026-11-22.
"""
_OPTION_BOOLEANS = """
no-commit edit signoff record-origin allow-ff allow-empty allow-empty-message drop-redundant-commits keep-redundant-commits allow-rerere-auto
"""  # noqa: E501
_OPTIONS: Mapping[str, bytes] = {
    f"options.{name}": _BOOLEAN for name in _OPTION_BOOLEANS.split()
} | {
    "options.mainline": rb"[0-9]+",
    "options.default-msg-cleanup": rb"[a-z]+",
    "options.strategy": rb"ort|recursive|resolve|octopus|ours|subtree",
}
_SECTION = re.compile(rb'\[([A-Za-z]+)(?: "([\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]+)")?\]')
_SETTING = re.compile(
    rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*=([\x20\x21\x24-\x3a\x3c-\x5b\x5d-\x7e\x80-\xff\t]*)"
)
"""Without a quote, a backslash, a comment sign or a control character, every line says the same to
git and to us.
"""


def plain_settings(file: str) -> list[tuple[str, bytes]] | None:
    """Return the keys and values of a configuration; None where it is not plain."""
    text = read(file)
    return None if text is None else _settings(text, _PLAIN)


def _is_plain_config(root: str, folder: str, name: str) -> bool:
    settings = plain_settings(os.path.join(folder, name))
    return settings is not None and all(
        _is_inside(root, os.path.join(folder, name), value)
        for key, value in settings
        if key == "core.worktree"
    )


def is_plain_setting(section: bytes, line: bytes) -> bool:
    """Return whether a line of a configuration below this line of a section names no program."""
    return _settings(section + b"\n" + line, _PLAIN) is not None


def _settings(text: bytes, table: Mapping[str, bytes]) -> list[tuple[str, bytes]] | None:
    """Return keys and values; None where a line is not in the table or could mean something else to
    git.
    """
    found: list[tuple[str, bytes]] = []
    section = ""
    for line in text.split(b"\n"):
        line = line.strip(b" \t")
        if len(line) > MAX_LINE:
            return None
        if (head := _SECTION.fullmatch(line)) is not None:
            section = head[1].decode().lower() + ("*" if head[2] is not None else "")
        elif (setting := _SETTING.fullmatch(line)) is not None:
            key = f"{section}.{setting[1].decode().lower()}"
            value = setting[2].strip(b" \t")
            if key not in table or not re.fullmatch(table[key], value):
                return None
            found.append((key, value))
        elif line:
            return None
    return found


# ---------------------------------------------------------------- operations that have not ended

_HARMLESS = re.compile(
    rb"[ \t\r]*(?:#.*|(?:pick|p|revert|edit|e|reword|r|fixup|f|squash|s|break|b|label|l|reset|t|merge|m|update-ref|u|drop|d|noop)(?:[ \t\r].*)?)?",  # noqa: E501
    re.DOTALL,
)
"""A line of a todo list.

`exec` runs a program, and so may a word that another version of git knows.
"""
_AUTHOR = re.compile(rb"(?:GIT_AUTHOR_(?:NAME|EMAIL|DATE)='(?:[^']|'\\'')*'(?:\n|\Z))*")
"""Shells of git before 2.20 ran this file."""
_STRATEGY = re.compile(rb"(?:ort|recursive|resolve|octopus|ours|subtree)?\n?")
"""Any other word names a program `git-merge-WORD`, also one with a slash, which is looked for in
the working directory.
"""
_QUOTED = re.compile(rb"(?:[ \t]*'(?:[^']|'\\'')*')*[ \t]*\n?")
"""`git bisect visualize` before 2.35 ran this file's text in a shell."""


def _pending(folder: str, name: str) -> Iterator[tuple[str, frozenset[bytes]]]:
    place = os.path.join(folder, name)
    if name.casefold() == "bisect_names":
        yield from _unless(name, place, lambda text: _QUOTED.fullmatch(text) is not None)
        return
    if os.path.islink(place):
        yield name, frozenset({os.fsencode(os.readlink(place))})
        return
    for entry in _entries(place):
        inner, lower = f"{name}/{entry.name}", entry.name.casefold()
        if name.casefold() in ("remotes", "branches"):
            yield from _unless(inner, entry.path, lambda text: b"::" not in text)
        elif lower in ("git-rebase-todo", "todo"):
            text = read(entry.path)
            lines = (
                {b"\0"}
                if text is None
                else {line for line in text.split(b"\n") if not _HARMLESS.fullmatch(line)}
            )
            if lines:
                yield inner, frozenset(lines)
        elif lower == "author-script":
            yield from _unless(inner, entry.path, lambda text: _AUTHOR.fullmatch(text) is not None)
        elif lower == "strategy":
            yield from _unless(
                inner, entry.path, lambda text: _STRATEGY.fullmatch(text) is not None
            )
        elif lower in PLAIN_OPTIONS:
            yield from _unless(
                inner,
                entry.path,
                lambda text, plain=PLAIN_OPTIONS[lower]: plain.fullmatch(text) is not None,
            )
        elif lower == "opts":
            yield from _unless(
                inner, entry.path, lambda text: _settings(text, _OPTIONS) is not None
            )
        elif not entry.is_file(follow_symlinks=False) or not FREE_TEXT.fullmatch(lower):
            yield inner, frozenset({b"\0"})


def _unless(
    name: str, place: str, is_plain: Callable[[bytes], bool]
) -> Iterator[tuple[str, frozenset[bytes]]]:
    text = read(place)
    if text is None or not is_plain(text):
        yield name, frozenset({text if text is not None else b"\0"})
