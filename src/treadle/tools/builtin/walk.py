"""Files below a directory, sorted by name, without those that .gitignore excludes, and never
through a link.

Imports only the standard library, and pathspec if there is a .gitignore, because the search process
starts with this module. See also: name patterns (patterns.py). Entry point: `walk`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, NamedTuple

from treadle.errors import AgentError
from treadle.tools.builtin.folder import OpenFolder

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
MAX_DEPTH = 200
"""Maximum depth; deeper directories are omitted."""
_MAX_RULES_BYTES = 1024 * 1024


class FoundFile(NamedTuple):
    path: str
    """Path relative to the top, with `/`."""
    folder: OpenFolder
    """Directory of the file. Open until the next file is requested."""
    name: str
    is_link: bool


class IgnoreRules(NamedTuple):
    """Rules of one .gitignore.

    `base` is the path of its directory from the top, ending in `/`. `above` replaces it if that
    directory is above the top.
    """

    spec: GitIgnoreSpec
    base: str = ""
    above: str = ""

    def verdict(self, path: str, *, is_directory: bool) -> bool | None:
        """True: excluded; False: explicitly included; None: not mentioned."""
        return self.spec.check_file(
            f"{self.above}{path[len(self.base) :]}{'/' if is_directory else ''}"
        ).include


class _Entry(NamedTuple):
    name: str
    kind: Literal["directory", "file", "link", "other"]


@dataclass(slots=True)
class _Level:
    folder: OpenFolder
    path: str
    rules: tuple[IgnoreRules, ...] | None
    entries: Iterator[_Entry]


def walk(
    top: str, *, all_files: bool = False, enter: Callable[[str], bool] = lambda path: True
) -> Iterator[FoundFile]:
    """Yield regular files and links, sorted by name in each directory. Unreadable ones are skipped.

    `top` is absolute and without links. `all_files` includes those that .gitignore excludes.
    `enter(path)` is True for directories to descend into. Raises OSError if the top cannot be
    opened.
    """
    rules = None if all_files else rules_above(top)
    in_repository = rules is not None
    levels = [
        _level(OpenFolder.at(top), "", None if all_files else rules or (), in_repository=False)
    ]
    try:
        while levels:
            level = levels[-1]
            entry = next(level.entries, None)
            if entry is None:
                levels.pop().folder.__exit__()
                continue
            is_directory = entry.kind == "directory"
            path = f"{level.path}{entry.name}"
            if entry.name in VERSION_CONTROL or _is_excluded(
                level.rules, path, is_directory=is_directory
            ):
                continue
            if not is_directory:
                if entry.kind != "other":
                    yield FoundFile(path, level.folder, entry.name, entry.kind == "link")
            elif len(levels) < MAX_DEPTH and enter(path):
                _descend(levels, entry.name, path, in_repository=in_repository)
    finally:
        for level in levels:
            level.folder.__exit__()


def _descend(levels: list[_Level], name: str, path: str, *, in_repository: bool) -> None:
    level = levels[-1]
    try:
        folder = level.folder.folder(name)
    except OSError:
        return
    try:
        levels.append(_level(folder, f"{path}/", level.rules, in_repository=in_repository))
    except OSError:
        folder.__exit__()


def _level(
    folder: OpenFolder, path: str, rules: tuple[IgnoreRules, ...] | None, *, in_repository: bool
) -> _Level:
    with folder.entries() as found:
        entries = sorted(map(_entry, found), key=lambda entry: os.fsencode(entry.name))
    if rules is not None:
        names = {entry.name for entry in entries}
        # The rules of an outer repository do not apply to a nested one.
        if in_repository and ".git" in names:
            rules = ()
        if ".gitignore" in names and (spec := _spec_in(folder)) is not None:
            rules = (IgnoreRules(spec, base=path), *rules)
    return _Level(folder, path, rules, iter(entries))


def _entry(found: os.DirEntry[str]) -> _Entry:
    """Read the entry's type while the directory is open, because later it cannot be resolved."""
    if found.is_symlink():
        return _Entry(found.name, "link")
    if found.is_dir(follow_symlinks=False):
        return _Entry(found.name, "directory")
    return _Entry(found.name, "file" if found.is_file(follow_symlinks=False) else "other")


def _is_excluded(rules: tuple[IgnoreRules, ...] | None, path: str, *, is_directory: bool) -> bool:
    """Apply the nearest .gitignore that mentions the path."""
    for rule in rules or ():
        verdict = rule.verdict(path, is_directory=is_directory)
        if verdict is not None:
            return verdict
    return False


# ---------------------------------------------------------------- .gitignore


def rules_above(top: str) -> tuple[IgnoreRules, ...] | None:
    """Return the rules of the directories above `top`, nearest first, up to the root of its
    repository.

    Empty outside a repository, and if the rules exclude `top` itself: naming an excluded directory
    means searching it.
    """
    directories = [PurePath(top), *PurePath(top).parents]
    root = next(
        (i for i, directory in enumerate(directories) if os.path.lexists(directory / ".git")), None
    )
    if root is None:
        return None
    rules: list[IgnoreRules] = []
    for directory in directories[1 : root + 1]:
        spec = _spec_at(os.fspath(directory))
        if spec is not None:
            rules.append(
                IgnoreRules(spec, above=f"{PurePath(top).relative_to(directory).as_posix()}/")
            )
    return None if any(rule.spec.check_file(rule.above).include for rule in rules) else tuple(rules)


def _spec_at(directory: str) -> GitIgnoreSpec | None:
    try:
        with OpenFolder.at(directory) as folder:
            return _spec_in(folder)
    except OSError:
        return None


def _spec_in(folder: OpenFolder) -> GitIgnoreSpec | None:
    """Parse the directory's .gitignore. None if there is none or it is unreadable."""
    try:
        with os.fdopen(folder.open_file(".gitignore"), "rb") as file:
            lines = file.read(_MAX_RULES_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    try:
        from pathspec import GitIgnoreSpec  # noqa: PLC0415  70 ms, and many folders lack the file
    except ModuleNotFoundError as e:
        raise AgentError(
            "invalid", "reading .gitignore needs pathspec: pip install 'treadle[coding]'"
        ) from e

    return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  as above

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
