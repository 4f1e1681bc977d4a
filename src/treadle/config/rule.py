"""One permission rule as text, and the paths, hosts and tools that it matches. Entry point:
`parse_rule`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
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
            raise BadRule(f"with a pattern in the parentheses of {form[1]}(…)")
        return _command(text, inner) if about == "command" else _named(text, about, inner)
    if form is not None:
        raise BadRule(f"with one of {', '.join(_KINDS)} before the parenthesis")
    return _command(text, text)


def _named(text: str, about: About, pattern: str) -> PermissionRule:
    if about in ("host", "tool") and not re.fullmatch(r"[\w.*:\[\]-]+", pattern):
        raise BadRule("with a name in the parentheses, where * matches any text")
    parts = pattern.split("/")
    if about in ("read", "write") and (
        parts.count("**") > 3 or any(part.count("*") > 3 for part in parts)
    ):
        raise BadRule(
            "with a path in the parentheses that has at most three ** and three * per name"
        )
    return PermissionRule(text, about, pattern=pattern)


def _command(text: str, inner: str) -> PermissionRule:
    import shlex  # noqa: PLC0415  most starts read no rule

    try:
        words = shlex.split(inner)
    except ValueError as e:
        raise BadRule("with balanced quotes") from e
    any_more = len(words) > 1 and words[-1] == "*"
    words = words[:-1] if any_more else words
    if not words or not words[0] or words[0].startswith("-"):
        raise BadRule("that begins with the name of a program")
    strange = next((word for word in words if re.search(r"[;&|<>()$`\n]", word)), None)
    if strange is not None:
        raise BadRule(f"for a single command, without {strange[:20]!r}")
    if "*" in words[0] or "?" in words[0]:
        raise BadRule("that begins with the name of a program, not with a pattern")
    return PermissionRule(text, "command", words=tuple(words), any_more=any_more)


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
    leads_to_this_process = spelled.startswith(("/dev/", "/proc/")) and not spelled.startswith(
        "/dev/shm/"
    )
    if not through_links or leads_to_this_process:
        return re.compile(_expression(spelled), re.DOTALL)
    real = "/".join([os.path.realpath("/".join(parts[:fixed]) or "/").rstrip("/"), *parts[fixed:]])
    return re.compile("|".join(dict.fromkeys(map(_expression, (spelled, real)))), re.DOTALL)


def _expression(path: str) -> str:
    """Return an expression that matches a path of names and patterns, and everything below it."""
    runs = [[""]]
    for part in path.lstrip("/").split("/"):
        runs.append([""]) if part == "**" else runs[-1].append(wildcards(part, "[^/]"))
    first, *others = ("/".join(run) for run in runs)
    # the first match of a segment is sufficient
    out = "".join([first, *(rf"(?>(?:/[^/]+)*?{run}(?=/|\Z))" for run in others)])
    return f"(?:{out}(?:/.*)?)"
