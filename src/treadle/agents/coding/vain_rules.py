"""Rules of the user that match nothing here, most likely because a name is misspelt.

What rules mean is rules.py's. Entry: `vain_rules`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from treadle.config import Config
from treadle.config.rules import PermissionRule, parse_rule

_ALIKE = 0.75
"""A misspelt name, and not another short one: `ed` is not `edit`, `gerp` is `grep`."""
_OF_THE_SHELL = frozenset(
    {
        *(
            ".",
            ":",
            "alias",
            "bg",
            "builtin",
            "cd",
            "command",
            "declare",
            "dirs",
            "disown",
            "eval",
            "exec",
            "exit",
            "export",
            "fg",
            "hash",
            "help",
        ),
        *(
            "history",
            "jobs",
            "let",
            "local",
            "mapfile",
            "popd",
            "pushd",
            "read",
            "return",
            "set",
            "shopt",
            "source",
            "times",
            "trap",
            "type",
        ),
        *("ulimit", "umask", "unalias", "unset", "wait"),
    }
)
"""Builtins of bash, as far as they are no programs as well."""


def vain_rules(config: Config, tools: Sequence[str]) -> Iterator[str]:
    """A warning for each. A program that is not here may well be elsewhere, where the same file is
    read: without a tool of nearly that name it is only spoken of where a rule was just typed.
    `tools`: their names.
    """
    for key in ("allow", "ask", "deny"):
        origin = config.origin("permissions", key)
        for text in getattr(config.permissions, key):
            rule = parse_rule(text)
            if not _is_vain(rule, config, tools):
                continue
            named = (
                "names no tool"
                if rule.about == "tool"
                else "names no tool, and no program that is here"
            )
            near = _nearest(rule, tools)
            if near or origin.source == "flag":
                yield f"{origin}: the rule {text!r} {named}: " + (
                    f"did you mean {near!r}?" if near else f"tools are {', '.join(tools)}"
                )


def _is_vain(rule: PermissionRule, config: Config, tools: Sequence[str]) -> bool:
    if any(rule.is_of_tool(name) for name in tools):
        return False
    if rule.about == "tool":
        return not config.mcp_servers  # what those have is not known before they are asked
    if rule.about != "command" or rule.any_more or rule.words[1:] or "/" in rule.words[0]:
        return False
    return rule.words[0] not in _OF_THE_SHELL and shutil.which(rule.words[0]) is None


def _nearest(rule: PermissionRule, tools: Sequence[str]) -> str | None:
    import difflib  # noqa: PLC0415  only for a message

    name = rule.words[0] if rule.about == "command" else rule.pattern
    return next(iter(difflib.get_close_matches(name.lower(), tools, n=1, cutoff=_ALIKE)), None)
