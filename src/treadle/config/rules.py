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

import os
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

from treadle._internal.wildcards import wildcards

About: TypeAlias = Literal["command", "read", "write", "host", "tool"]

_KINDS: dict[str, About] = {
    "bash": "command",
    "read": "read",
    "write": "write",
    "edit": "write",
    "fetch": "host",
    "tool": "tool",
}
_FORM = re.compile(r"\s*([\w-]+)\((.*)\)\s*", re.DOTALL)
_LONGEST = 1_000


class BadRule(ValueError):
    """Raised for an invalid rule. The message completes a sentence that begins with "a rule"."""

    text: str = ""
    """The invalid rule, if it was one of several."""


@dataclass(frozen=True)
class PermissionRule:
    """A parsed permission rule."""

    text: str
    about: About
    words: tuple[str, ...] = ()
    """Words of a command."""
    any_more: bool = False
    """True if the command may have any further arguments: the rule ends with `*`."""
    pattern: str = ""
    """Pattern of a path, host or tool."""

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Compiled `pattern` for hosts and tools."""
        return re.compile(wildcards(self.pattern.casefold(), "."))

    def is_of_tool(self, name: str) -> bool:
        if self.about == "tool":
            return self.names.fullmatch(name.casefold()) is not None
        return self.about == "command" and not self.any_more and self.words == (name,)

    def path_pattern(self, workspace: str, home: str, *, through_links: bool) -> re.Pattern[str]:
        """Compile the path pattern.

        `through_links`: also match the target of the pattern's fixed prefix if it is a link.
        """
        return _path_pattern(self.pattern, workspace, home, through_links=through_links)


def parse_rule(text: str) -> PermissionRule:
    """Parse a rule. Raises BadRule."""
    text = text.strip()
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise BadRule("like git status, read(docs/**) or tool(github_*)")
    if (form := _FORM.fullmatch(text)) is not None and form[1] in _KINDS:
        about, inner = _KINDS[form[1]], form[2].strip()
        if not inner:
            raise BadRule(f"with something between the brackets of {form[1]}(…)")
        return _command(text, inner) if about == "command" else _named(text, about, inner)
    if form is not None:
        raise BadRule(f"with one of {', '.join(_KINDS)} before the bracket")
    return _command(text, text)


def _named(text: str, about: About, pattern: str) -> PermissionRule:
    if about in ("host", "tool") and not re.fullmatch(r"[\w.*:\[\]-]+", pattern):
        raise BadRule("with a name between the brackets, in which * stands for anything")
    parts = pattern.split("/")
    if about in ("read", "write") and (
        parts.count("**") > 3 or any(part.count("*") > 3 for part in parts)
    ):
        raise BadRule(
            "with a path between the brackets, at most three ** in it and three * in a name"
        )
    return PermissionRule(text, about, pattern=pattern)


def _command(text: str, inner: str) -> PermissionRule:
    import shlex  # noqa: PLC0415  most starts read no rule

    try:
        words = shlex.split(inner)
    except ValueError as e:
        raise BadRule("of words whose quotes are closed") from e
    any_more = len(words) > 1 and words[-1] == "*"
    words = words[:-1] if any_more else words
    if not words or not words[0] or words[0].startswith("-"):
        raise BadRule("of words that begin with the name of a program")
    strange = next((word for word in words if re.search(r"[;&|<>()$`\n]", word)), None)
    if strange is not None:
        raise BadRule(f"of the words of one command, without {strange[:20]!r}")
    if "*" in words[0] or "?" in words[0]:
        raise BadRule("of words that begin with the name of a program, not with a pattern")
    return PermissionRule(text, "command", words=tuple(words), any_more=any_more)


# ---------------------------------------------------------------- paths


def _path_pattern(
    pattern: str, workspace: str, home: str, *, through_links: bool
) -> re.Pattern[str]:
    if pattern == "~" or pattern.startswith("~/"):
        pattern = home + pattern[1:]
    elif not pattern.startswith("/"):
        pattern = f"{workspace}/{pattern.removeprefix('./')}"
    spelled = os.path.normpath(pattern)
    parts = spelled.split("/")
    fixed = next((i for i, part in enumerate(parts) if set(part) & set("*?")), len(parts))
    if not through_links or spelled.startswith(("/dev/", "/proc/")):
        return re.compile(_expression(spelled), re.DOTALL)
    real = "/".join([os.path.realpath("/".join(parts[:fixed]) or "/").rstrip("/"), *parts[fixed:]])
    return re.compile("|".join(dict.fromkeys(map(_expression, (spelled, real)))), re.DOTALL)


def _expression(path: str) -> str:
    """Return an expression that matches a path of names and patterns, and everything below it."""
    runs = [[""]]
    for part in path.lstrip("/").split("/"):
        runs.append([""]) if part == "**" else runs[-1].append(wildcards(part, "[^/]"))
    first, *others = ("/".join(run) for run in runs)
    # the first match of a segment is as good as any other
    out = "".join([first, *(rf"(?>(?:/[^/]+)*?{run}(?=/|\Z))" for run in others)])
    return f"(?:{out}(?:/.*)?)"


# ---------------------------------------------------------------- commands


def begins_with(rule: PermissionRule, argv: Sequence[str]) -> bool:
    """True if the command begins with the rule's words exactly, as allow rules require."""
    return tuple(argv[: len(rule.words)]) == rule.words


_SAME: dict[str, dict[str, str]] = {
    "rm": {"--recursive": "r", "--force": "f", "R": "r"},
    "cp": {"--recursive": "r", "--force": "f", "R": "r", "a": "r", "--archive": "r"},
    "mv": {"--force": "f"},
    "chmod": {"--recursive": "R"},
    "chown": {"--recursive": "R"},
    "git": {"--force": "f"},
    "kill": {"--signal": "s"},
    "docker": {"--force": "f"},
    "find": {},
}
"""Alternative spellings of options, by program."""


_ABBREVIATE = frozenset({"npm", "pnpm"})
"""Programs that accept abbreviated commands."""
_PLUMBING = {"send-pack": "push", "http-push": "push", "fetch-pack": "fetch", "http-fetch": "fetch"}
"""Git commands that do the work of another command."""


def is_meant_by(rule: PermissionRule, argv: Sequence[str]) -> bool:
    """True if the command matches the rule in any spelling and order, as deny and ask rules
    require.

    Prefers false positives over false negatives.
    """
    program = program_of(argv[0]) if argv else ""
    if program != program_of(rule.words[0]):
        return False
    wanted_options, wanted = _sorted_out(program, rule.words[1:])
    words = [_PLUMBING.get(word, word) for word in argv[1:]] if program == "git" else argv[1:]
    if program in _ABBREVIATE:
        words = [
            next((full for full in wanted if full.startswith(word) and len(word) > 2), word)
            for word in words
        ]
    options, _ = _sorted_out(program, words)
    return wanted_options <= options and _follow(wanted, words)


def may_be_meant_by(rule: PermissionRule, known: Sequence[str]) -> bool:
    """True if the rule could match a command of which only the leading words `known` are known."""
    _, wanted = _sorted_out(program_of(rule.words[0]), rule.words[1:])
    i, after_option = 0, False
    for word in known[1:]:
        if i == len(wanted):
            return True
        if word == wanted[i]:
            i, after_option = i + 1, False
        elif word.startswith("-") and len(word) > 1:
            after_option = True
        elif after_option:
            after_option = False
        else:
            return False
    return True


def program_of(word: str) -> str:
    """Return the normalized name of a program: /usr/bin/Curl is curl."""
    return word.rstrip("/").rsplit("/", 1)[-1].casefold().removesuffix(".exe")


def _sorted_out(program: str, words: Iterable[str]) -> tuple[frozenset[str], list[str]]:
    same = _SAME.get(program, {})
    options: set[str] = set()
    operands: list[str] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name = word.split("=", 1)[0]
            spelled = next(
                (
                    full
                    for full in same
                    if full.startswith(name) and len(name) > (2 if program == "rm" else 3)
                ),
                name,
            )
            options.update(
                (same.get(spelled, spelled), word) if "=" in word else (same.get(spelled, spelled),)
            )
        elif word.startswith("-") and len(word) > 1:
            options.update(
                (same.get(c, c) for c in word[1:])
                if not _is_long_with_one_dash(program, word)
                else (word,)
            )
        else:
            operands.append(word)
    return frozenset(options), operands


def _is_long_with_one_dash(program: str, word: str) -> bool:
    return program in ("find", "java", "go", "terraform", "openssl") and len(word) > 2


def _follow(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """True if the operands of a rule come first among the words, ignoring options and their
    possible values.
    """
    i, after_option = 0, False
    for word in words:
        if i == len(wanted):
            break
        if word == wanted[i]:
            i, after_option = i + 1, False
        elif word.startswith("-") and len(word) > 1:
            after_option = True
        elif after_option:
            after_option = False
        else:
            return False
    return i == len(wanted)


# ---------------------------------------------------------------- all rules of a run


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
        """Replace the text of rules from an untrusted project, so that no reason quotes it."""
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
            if len(self._patterns) == PATTERNS_KEPT:  # of workspaces whose runs are over
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
