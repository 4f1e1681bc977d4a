"""Detection of user rules that match no tool and no program, usually because of a misspelt name.

config/rules.py defines the rules. Entry points: `vain_rules`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from treadle.config import Config
from treadle.config.rule import PermissionRule, parse_rule

_ALIKE = 0.75
"""Similarity cutoff that finds misspellings without matching other short names: `gerp` matches
`grep`, `ed` does not match `edit`.
"""
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
"""Builtins of bash that do not also exist as programs."""


def vain_rules(config: Config, tools: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each rule that matches nothing.

    `tools`: names of the available tools. A program that is missing here may exist on another
    machine with the same configuration, so a rule from a file is reported only if it resembles the
    name of a tool.
    """
    for key in ("allow", "ask", "deny"):
        origin = config.origin("permissions", key)
        for text in getattr(config.permissions, key):
            rule = parse_rule(text)
            if not _is_vain(rule, config, tools):
                continue
            named = (
                "matches no tool"
                if rule.about == "tool"
                else "matches no tool and no installed program"
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
        return not config.mcp_servers
    if rule.about != "command" or rule.any_more or rule.words[1:] or "/" in rule.words[0]:
        return False
    return rule.words[0] not in _OF_THE_SHELL and shutil.which(rule.words[0]) is None


def _nearest(rule: PermissionRule, tools: Sequence[str]) -> str | None:
    import difflib  # noqa: PLC0415  only for a message

    name = rule.words[0] if rule.about == "command" else rule.pattern
    return next(iter(difflib.get_close_matches(name.lower(), tools, n=1, cutoff=_ALIKE)), None)
