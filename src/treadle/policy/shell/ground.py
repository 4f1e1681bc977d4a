"""Paths of one command line: the possible working directories, and findings about reads and writes.

paths.py judges single paths. Entry point: `Ground`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from treadle.policy.decision import CallFinding, FindingKind
from treadle.policy.guarded_paths import first_guarded
from treadle.policy.paths import Reach, beyond_too
from treadle.policy.shell.script import Redirect
from treadle.policy.shell.words import ShellWord

MAX_PATHS = 300
"""Maximum number of paths of one command line whose links are followed."""
MAX_CWDS = 4
MAX_NAMES = 2_000
"""Maximum number of words of one command line after expansion."""


class Ground:
    """Checks of the paths of one line. A relative path may start in any of `cwds`; the strictest
    finding counts.
    """

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.cwds: list[str] = [reach.root]
        self.is_known = True
        """True if `cwds` contains all possible working directories."""
        self._looked_up = 0
        self._written: dict[tuple[str, tuple[str, ...]], CallFinding] = {}
        self._below: dict[tuple[str, tuple[str, ...]], CallFinding] = {}
        self.names_left = MAX_NAMES

    def copy(self) -> Ground:
        other = Ground(self.reach)
        other.cwds, other.is_known = list(self.cwds), self.is_known
        other.names_left = self.names_left
        return other

    def _may_look_up(self) -> bool:
        """Return True while links may still be followed. The literal path is always checked."""
        self._looked_up += 1
        return self._looked_up <= MAX_PATHS

    def reads(self, path: str, *, names_only: bool = False) -> CallFinding:
        if _is_network(path):
            return CallFinding(FindingKind.UNSURE, f"{path[:60]!r} is a connection")
        if not self._may_look_up():
            denied = self.denied(path)
            return denied if denied.kind is FindingKind.FORBIDDEN else _TOO_MANY
        if not self.is_known and not path.startswith("/"):
            return CallFinding(FindingKind.READS_BEYOND, "its working directory is unknown")
        return _strictest([self.reach.read(path, cwd, names_only=names_only) for cwd in self.cwds])

    def reads_names(self, path: str) -> CallFinding:
        return self.reads(path, names_only=True)

    def is_file(self, path: str) -> bool:
        """Return True if a text, such as an option's value, is the path of an existing file."""
        return "\0" not in path and any(
            os.path.lexists(place := os.path.join(cwd, path)) and not os.path.isdir(place)
            for cwd in self.cwds
        )

    def is_folder(self, path: str) -> bool:
        return "\0" not in path and any(os.path.isdir(os.path.join(cwd, path)) for cwd in self.cwds)

    def reads_below(self, path: str) -> CallFinding:
        key = (path, tuple(self.cwds))
        if key not in self._below:
            self._below[key] = self._reads_below(path)
        return self._below[key]

    def _reads_below(self, path: str) -> CallFinding:
        top = self.reads(path)
        if top.kind not in (FindingKind.READS, FindingKind.READS_BEYOND):
            return top
        if not self.is_known and not path.startswith("/"):
            return beyond_too(ruled) if (ruled := self.reach.ruled_below("/")) is not None else top
        found = [self.reach.read_below(path, cwd) for cwd in self.cwds]
        strictest = _strictest(found)
        return (
            beyond_too(strictest)
            if any(finding.kind is FindingKind.READS_BEYOND for finding in found)
            else strictest
        )

    def ruled_below(self, paths: Sequence[str]) -> list[CallFinding]:
        """Return findings of rules for reading about files below the folders among `paths`."""
        if not any(
            rule.about == "read" for rule in (*self.reach.rules.deny, *self.reach.rules.ask)
        ):
            return []
        folders = [
            (path, cwd)
            for path in dict.fromkeys(paths)
            for cwd in self.cwds
            if "\0" not in path and os.path.isdir(os.path.join(cwd, path))
        ]
        return [
            found
            for path, cwd in folders
            if (found := self.reach.ruled_below(path, cwd)) is not None
        ]

    def writes(self, path: str) -> CallFinding:
        if _is_network(path):
            return CallFinding(FindingKind.UNSURE, f"{path[:60]!r} is a connection")
        key = (path, tuple(self.cwds))
        if key not in self._written:
            self._written[key] = self._write(path)
        return self._written[key]

    def write_all(self, paths: Sequence[str]) -> list[CallFinding]:
        """Check writes to many paths. Paths beyond `MAX_PATHS` are checked together, and only by
        their names.
        """
        found = [self.writes(path) for path in paths[:MAX_PATHS]]
        rest = paths[MAX_PATHS:]
        if rest:
            guarded = next(
                (
                    g
                    for cwd in self.cwds
                    if (g := first_guarded(os.path.join(cwd, path) for path in rest)) is not None
                ),
                None,
            )
            found.append(
                _TOO_MANY
                if guarded is None
                else CallFinding(
                    FindingKind.FORBIDDEN, f"{guarded[-60:]!r} decides what runs here later"
                )
            )
        return found

    def _write(self, path: str) -> CallFinding:
        follow = self._may_look_up()
        found = [self.reach.write(path, cwd, by_shell=True, follow=follow) for cwd in self.cwds]
        if not self.is_known:
            found.append(CallFinding(FindingKind.UNSURE, "its working directory is unknown"))
        return _strictest(found if follow else [*found, _TOO_MANY])

    def redirects(self, redirect: Redirect) -> list[CallFinding]:
        """Check a redirection of a command."""
        target, operator = redirect.target, redirect.operator
        if operator in ("<<", "<<<"):
            return (
                []
                if target.is_literal
                else [CallFinding(FindingKind.UNSURE, "its input text is unknown before it runs")]
            )
        if operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", target.value) and target.is_fixed:
            return []
        if operator not in ("<", ">", ">>", ">|", "&>", "&>>", ">&", "<>"):
            return [CallFinding(FindingKind.UNSURE, f"the redirection {operator!r} is not judged")]
        findings = (
            []
            if target.is_fixed
            else [
                CallFinding(
                    FindingKind.UNSURE,
                    "the files that it uses are unknown before it runs",
                )
            ]
        )
        if operator == "<":
            return findings or [self.reads(target.value)]
        written = (
            self.writes(target.value)
            if target.value
            else CallFinding(FindingKind.UNSURE, "the files that it writes are unknown")
        )
        return [*findings, written]

    def denied(self, path: str, *, writes: bool = False) -> CallFinding:
        """Check a path only against the rules that deny reads, and with `writes` also against those
        that deny writes.
        """
        return _strictest([self.reach.denied(path, cwd, writes=writes) for cwd in self.cwds])

    def change_directory(self, operands: Sequence[ShellWord]) -> None:
        """Apply a `cd`. It may fail or run in a subshell, so old and new directories count."""
        words = [word for word in operands if not re.fullmatch(r"--|-[PLe@]+", word.value)]
        target = words[0] if words else ShellWord(self.reach.home or "/", bool(self.reach.home))
        if len(words) > 1 or not target.is_fixed or target.value.startswith("-"):
            self.is_known = False
            return
        for cwd in list(self.cwds):
            joined = os.path.join(cwd, target.value)
            for place in (os.path.realpath(joined), os.path.normpath(joined)):
                if place not in self.cwds:
                    self.cwds.append(place)
        if len(self.cwds) > MAX_CWDS:
            self.is_known = False
            del self.cwds[MAX_CWDS:]


def _strictest(findings: list[CallFinding]) -> CallFinding:
    return max(findings, key=lambda finding: _ORDER.index(finding.kind))


_ORDER = list(FindingKind)
_TOO_MANY = CallFinding(FindingKind.UNSURE, f"it names more than {MAX_PATHS} files")


def _is_network(path: str) -> bool:
    return re.match(r"/+dev/+(?:tcp|udp)(?:/|$)", path) is not None
