"""Path checks of a call: resolve its paths, and find those outside the workspace, guarded, or
covered by a rule.

The same checks apply to file tools and commands. Links are resolved as the kernel resolves them at
the time of the check; when a tool opens the file, it verifies that they still lead to the same
place. Entry point: `Reach`.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from treadle.config.rule import PermissionRule
from treadle.config.rules import NO_RULES, Rules
from treadle.policy.decision import CallFinding, FindingKind
from treadle.policy.guarded_paths import PathGuard, guard_of, is_secret
from treadle.policy.secrets_below import secret_below, shown

DISCARDED = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"})
"""Files that discard writes, by their literal names. They are not resolved, because the result
differs for each process.
"""
MAX_FOLLOWED = 1_000
"""Maximum number of paths of one command line that are resolved."""

READS = CallFinding(FindingKind.READS)


@dataclass(frozen=True)
class Reach:
    """Checks of the paths of one decision.

    Only reads the disk, and caches the results.
    """

    workspace: str
    """Absolute path; links in it are resolved here."""
    home: str = ""
    rules: Rules = NO_RULES
    readable: tuple[str, ...] = ()
    """Files and directories outside the workspace that may be read, such as stored long outputs."""
    sealed: Callable[[], tuple[str, ...]] = tuple
    """Function that returns read-only directories, such as Treadle's own. Called when a write is
    checked.
    """
    _seen: dict[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    _work: Counter[str] = field(default_factory=Counter[str], compare=False, repr=False)
    """Work done for this decision, which limits further work."""

    @cached_property
    def root(self) -> str:
        return os.path.realpath(self.workspace)

    # ------------------------------------------------------------ locations

    def places(self, path: str, cwd: str = "", *, follow: bool = True) -> tuple[str, ...]:
        """Return the path's resolved location and its literal one, either of which a rule may name.

        Raises ValueError for an impossible path.
        """
        if "\0" in path:
            raise ValueError(path)
        joined = os.path.join(self.root, cwd, path)
        seeming = os.path.normpath(joined)
        real = self._seen.get(joined)
        if real is None:
            real = self._seen[joined] = _real(joined) if follow else seeming
        seeming = seeming[1:] if seeming.startswith("//") else seeming
        return (real, seeming) if seeming != real else (real,)

    def is_inside(self, place: str) -> bool:
        return place == self.root or place.startswith(self.root.rstrip("/") + "/")

    # ------------------------------------------------------------ checks

    def read(self, path: str, cwd: str = "", *, names_only: bool = False) -> CallFinding:
        """Check a read. `names_only`: file names are read, not contents."""
        try:
            places = self.places(path, cwd)
        except (ValueError, OSError):
            return CallFinding(FindingKind.READS_BEYOND, f"{shown(path)} is not a valid path")
        if denied := self._rule("deny", "read", places):
            return CallFinding(
                FindingKind.FORBIDDEN, f"the rule {denied.text!r} denies reading {shown(path)}"
            )
        if asked := self._rule("ask", "read", places):
            return CallFinding(
                FindingKind.NEEDS_A_PERSON,
                f"the rule {asked.text!r} asks before {shown(path)} is read",
            )
        if set(places) == {"/dev/null"} or self._rule("allow", "read", places[:1]):
            return READS
        if not self.is_inside(places[0]):
            if any(places[0] == r or places[0].startswith(r + "/") for r in self.readable):
                return READS
            return CallFinding(FindingKind.READS_BEYOND, f"{shown(path)} is outside the workspace")
        if not names_only and any(map(is_secret, self._below_root(places))):
            return CallFinding(
                FindingKind.READS_BEYOND, f"{shown(path)} probably contains a secret"
            )
        return (
            CallFinding(FindingKind.READS_BEYOND, f"{shown(path)} looks like a path elsewhere")
            if looks_expanded(path)
            else READS
        )

    def read_below(self, path: str, cwd: str = "") -> CallFinding:
        """Check reading everything below a directory, including contents."""
        top = self.read(path, cwd)
        ruled = self.ruled_below(path, cwd)
        if ruled is not None and top.kind is FindingKind.READS_BEYOND:
            return beyond_too(ruled)
        if top.kind is not FindingKind.READS:
            return top
        if ruled is not None:
            return ruled
        real = self.places(path, cwd)[0]
        if (why := secret_below(real, self.root, self._work)) is not None:
            return CallFinding(FindingKind.HELD, why)
        return READS

    def ruled_below(self, path: str, cwd: str = "") -> CallFinding | None:
        """Apply rules for reading to files below a directory; None if no rule concerns them."""
        try:
            real = self.places(path, cwd)[0]
        except (ValueError, OSError):
            return None
        for kind, rules in (
            (FindingKind.PARTLY_DENIED, self.rules.deny),
            (FindingKind.PARTLY_ASKED, self.rules.ask),
        ):
            if (
                rule := next((rule for rule in rules if self._is_below(rule, real)), None)
            ) is not None:
                what = "denies reading" if kind is FindingKind.PARTLY_DENIED else "asks before"
                return CallFinding(kind, f"the rule {rule.text!r} {what} files below {shown(path)}")
        return None

    def write(
        self, path: str, cwd: str = "", *, by_shell: bool = False, follow: bool = True
    ) -> CallFinding:
        """Check writing a path. With `follow=False`, links in it are not resolved."""
        try:
            places = self.places(path, cwd, follow=follow)
        except (ValueError, OSError):
            return CallFinding(FindingKind.UNSURE, f"{shown(path)} is not a valid path")
        if denied := self._rule("deny", "write", places):
            return CallFinding(
                FindingKind.FORBIDDEN, f"the rule {denied.text!r} denies writing {shown(path)}"
            )
        if by_shell and places[-1] in DISCARDED:
            return READS
        guard = self._guard(places)
        if guard is PathGuard.SEALED or (guard is not None and by_shell):
            by = (
                "an agent"
                if guard is PathGuard.SEALED
                else "a command; use the write or edit tool, which shows you the change"
            )
            return CallFinding(
                FindingKind.FORBIDDEN,
                f"{shown(path)} decides what runs here later, and cannot be changed by {by}",
            )
        if asked := self._rule("ask", "write", places):
            return CallFinding(
                FindingKind.NEEDS_A_PERSON,
                f"the rule {asked.text!r} asks before {shown(path)} is written",
            )
        if follow and os.path.islink(places[0]):
            return CallFinding(FindingKind.UNSURE, f"{shown(path)} is a link that leads to itself")
        if self._rule("allow", "write", places[:1]):
            return CallFinding(
                FindingKind.PERMITTED if by_shell else FindingKind.GRANTED, "a rule allows it"
            )
        if guard is PathGuard.INSTRUCTS:
            return CallFinding(
                FindingKind.NEEDS_A_PERSON,
                (
                    f"{shown(path)} instructs agents, or runs on this machine later: a person "
                    "must review each change"
                ),
            )
        if guard is PathGuard.REVIEWED:
            return CallFinding(FindingKind.UNSURE, f"{shown(path)} runs elsewhere later")
        return self._plain_write(path, places[0], by_shell=by_shell)

    def _plain_write(self, path: str, place: str, *, by_shell: bool) -> CallFinding:
        """Check writing a path that no rule or guard covers."""
        if not self.is_inside(place):
            return CallFinding(FindingKind.UNSURE, f"{shown(path)} is outside the workspace")
        if looks_expanded(path):
            return CallFinding(
                FindingKind.UNSURE,
                f"{shown(path)} looks like a path elsewhere, but would be one here",
            )
        return (
            CallFinding(FindingKind.SHELL_EDITS, f"{shown(path)} is written")
            if by_shell
            else CallFinding(FindingKind.EDITS)
        )

    @cached_property
    def denies_paths(self) -> bool:
        return any(rule.about in ("read", "write") for rule in self.rules.deny)

    def denied(self, path: str, cwd: str = "", *, writes: bool = True) -> CallFinding:
        """Apply deny rules for reading and for writing, to the literal path and to its resolved
        location.
        """
        try:
            places = self.places(path, cwd, follow=len(self._seen) < MAX_FOLLOWED)
        except (ValueError, OSError):
            return READS
        rule = self._rule("deny", "read", places) or (
            self._rule("deny", "write", places) if writes else None
        )
        return (
            READS
            if rule is None
            else CallFinding(FindingKind.FORBIDDEN, f"the rule {rule.text!r} denies {shown(path)}")
        )

    # ------------------------------------------------------------ within the workspace

    def _rule(
        self,
        what: Literal["allow", "ask", "deny"],
        about: Literal["read", "write"],
        places: tuple[str, ...],
    ) -> PermissionRule | None:
        rules: tuple[PermissionRule, ...] = getattr(self.rules, what)
        return self.rules.of_path(rules, about, places, self.root, self.home) if rules else None

    def _guard(self, places: tuple[str, ...]) -> PathGuard | None:
        if any(
            place == own or place.startswith(own + "/") for own in self.sealed() for place in places
        ):
            return PathGuard.SEALED
        order = [PathGuard.REVIEWED, PathGuard.INSTRUCTS, PathGuard.SEALED]
        found = [
            guard for place in self._below_root(places) if (guard := guard_of(place)) is not None
        ]
        return max(found, key=order.index, default=None)

    def _below_root(self, places: tuple[str, ...]) -> Iterator[str]:
        """Yield the path components below the workspace. Those above it say nothing about the
        file.
        """
        for place in places:
            yield (
                place[len(self.root.rstrip("/")) :]
                if self.is_inside(place) and place != self.root and self.root != "/"
                else place
                if place != self.root
                else "/"
            )

    def _is_below(self, rule: PermissionRule, folder: str) -> bool:
        """Return True if files that `rule` denies may be below `folder`, judging by the fixed
        beginning of its pattern.
        """
        if rule.about != "read":
            return False
        fixed = (
            re.split(r"[*?]", rule.pattern)[0].rpartition("/")[0]
            if re.search(r"[*?]", rule.pattern)
            else rule.pattern
        )
        place = os.path.normpath(
            os.path.join(
                self.root,
                os.path.expanduser(fixed) if not self.home else fixed.replace("~", self.home, 1),
            )
        )
        prefix = (folder.rstrip("/") + "/").casefold()
        places = {place.casefold(), os.path.realpath(place).casefold()}
        return any(
            (each + "/").startswith(prefix) or prefix.startswith(each + "/") for each in places
        )


def beyond_too(finding: CallFinding) -> CallFinding:
    """Return the stricter finding for a read that also leaves the workspace or is not fully known,
    for which hiding the ruled files is not enough.
    """
    match finding.kind:
        case FindingKind.PARTLY_DENIED:
            return CallFinding(FindingKind.FORBIDDEN, finding.why)
        case FindingKind.PARTLY_ASKED:
            return CallFinding(FindingKind.NEEDS_A_PERSON, finding.why)
        case _:
            return finding


def _real(path: str) -> str:
    """Resolve all links. Before Python 3.13, raises OSError for a chain of a thousand links; later
    versions resolve a chain of any length, although the kernel follows 40.
    """
    try:
        return os.path.realpath(path)
    except RecursionError as e:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from e


_EXPANDED = re.compile(r"~|\$\w+(?:/|$)|\$\{")
_SLASHES = re.compile("[\\\\\u2044\u2215\u29f5\u29f8\uff0f\uff3c\ufe68]")


def looks_expanded(path: str) -> bool:
    """Return True if a shell or another system would interpret the path differently: `~/x`,
    `$HOME/x`, or dots and backslashes.
    """
    return _EXPANDED.match(path) is not None or (".." in path and _SLASHES.search(path) is not None)
