"""Permission rules (allow, ask, deny) as text, and their matching.

The policy decides precedence; shell/ parses command lines. Entry points: `parse_rule`, `Rules`.

    git status              a command that begins with these words; `npm *` takes any further words
    bash(git status)        the same, written in full
    read(docs/**)           paths that are read; relative to the working directory, or from / or ~/;
                            everything below a match matches too
    write(src)              paths that are written or edited
    fetch(*.python.org)     hosts
    tool(github_*)          tools by name; a single word that is a tool's name matches that tool
                            as well
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from treadle.config.command_matching import begins_with, is_meant_by
from treadle.config.rule import BadRule, PermissionRule, parse_rule

PATTERNS_KEPT = 1_000
WITHHELD = "(one of this project's)"
"""Placeholder for the text of a withheld rule."""


@dataclass(frozen=True)
class Rules:
    """Permission rules of a run. Deny takes precedence over ask, and ask over allow."""

    allow: tuple[PermissionRule, ...] = ()
    ask: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    _patterns: dict[tuple[PermissionRule, str, str], re.Pattern[str]] = field(
        default_factory=dict[tuple[PermissionRule, str, str], re.Pattern[str]],
        compare=False,
        repr=False,
    )

    @classmethod
    def read(
        cls, *, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Rules:
        """Parse rules. Raises BadRule."""
        return cls(tuple(map(_parsed, allow)), tuple(map(_parsed, ask)), tuple(map(_parsed, deny)))

    def also_allowing(self, *texts: str) -> Rules:
        """Return these rules plus those approved for a session. Raises BadRule."""
        return Rules((*self.allow, *map(parse_rule, texts)), self.ask, self.deny)

    def withholding(self, texts: Container[str]) -> Rules:
        """Hide the text of rules from an untrusted project, so that no reason quotes it."""
        ask, deny = (
            tuple(replace(rule, text=WITHHELD) if rule.text in texts else rule for rule in rules)
            for rules in (self.ask, self.deny)
        )
        return replace(self, ask=ask, deny=deny)

    def denying(self, argv: Sequence[str]) -> PermissionRule | None:
        return next((r for r in self.deny if r.about == "command" and is_meant_by(r, argv)), None)

    def asking(self, argv: Sequence[str]) -> PermissionRule | None:
        return next((r for r in self.ask if r.about == "command" and is_meant_by(r, argv)), None)

    def allowing(self, argv: Sequence[str]) -> PermissionRule | None:
        """Return the longest matching rule, which leaves the fewest words to judge."""
        found = [r for r in self.allow if r.about == "command" and begins_with(r, argv)]
        return max(found, key=lambda r: (r.any_more, len(r.words)), default=None)

    def of_path(
        self,
        rules: Iterable[PermissionRule],
        about: Literal["read", "write"],
        paths: Iterable[str],
        workspace: str,
        home: str,
    ) -> PermissionRule | None:
        """Return the first of `rules` that matches one of `paths`, absolute and normalized.

        Only allow rules are case-sensitive.
        """
        paths = list(paths)
        for rule in rules:
            if rule.about == about and any(
                self._pattern(rule, workspace, home).fullmatch(path) for path in paths
            ):
                return rule
        return None

    def _pattern(self, rule: PermissionRule, workspace: str, home: str) -> re.Pattern[str]:
        key = (rule, workspace, home)
        found = self._patterns.get(key)
        if found is None:
            # caches mostly for workspaces whose runs have ended
            if len(self._patterns) == PATTERNS_KEPT:
                self._patterns.clear()
            found = rule.path_pattern(workspace, home, through_links=rule not in self.allow)
            if rule not in self.allow:
                found = re.compile(found.pattern, found.flags | re.IGNORECASE)
            self._patterns[key] = found
        return found


def _parsed(text: str) -> PermissionRule:
    try:
        return parse_rule(text)
    except BadRule as e:
        e.text = text
        raise


NO_RULES = Rules()
