"""Approvals that cover more than one call: rules added for the session or to the user's
configuration.

An approval of a single call is bound to that call by its id (`runs resume --approve`). The front
ends ask. Entry points: `for_session`, `for_always`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from treadle.config.rule import BadRule, PermissionRule, parse_rule
from treadle.errors import AgentError
from treadle.policy.permissions import Permissions


def for_session(permissions: Permissions, pattern: Sequence[str]) -> Permissions:
    """Return the permissions after the user has approved `pattern`, a `Decision.pattern`, for the
    rest of a session.

    Raises AgentError(invalid) for a rule that is never offered.
    """
    return replace(permissions, rules=permissions.rules.also_allowing(*_offered(pattern)))


def for_always(file: Path, pattern: Sequence[str]) -> None:
    """Add the rules of `pattern` (a `Decision.pattern`) to permissions.allow in the user's own
    configuration. Comments and order are kept.

    Raises AgentError(invalid) for a rule that is never offered, and if the file cannot be read,
    edited safely or written.
    """
    from treadle.config.document import parse  # noqa: PLC0415  it brings the YAML library
    from treadle.config.editing import edited  # noqa: PLC0415  it brings the YAML library
    from treadle.config.file import Broken, read_text, write_text  # noqa: PLC0415

    rules = _offered(pattern)
    try:
        opened = read_text(file.resolve(), own=True)
        text = opened.text if opened is not None else ""
        root = parse(text).root
        plain = root.plain() if root is not None else None
        said = plain.get("permissions") if isinstance(plain, dict) else None
        allowed = said.get("allow") if isinstance(said, dict) else None
        now = list(allowed) if isinstance(allowed, list) else []
        write_text(
            file,
            edited(
                text, ("permissions", "allow"), [*now, *(rule for rule in rules if rule not in now)]
            ),
        )
    except Broken as e:
        raise AgentError("invalid", f"{file}:{e.line}: {e.text}") from e


def _offered(pattern: Sequence[str]) -> list[str]:
    """Return the rules if the policy could have offered them. Handwritten ones are excluded: no
    interpreter, no git, no wrapper, no path outside the workspace.
    """
    from treadle.policy.shell.runners import pattern_of  # noqa: PLC0415  tables that only a command needs
    from treadle.policy.shell.wrappers import unwrap  # noqa: PLC0415

    for text in pattern:
        try:
            rule: PermissionRule = parse_rule(text)
        except BadRule as e:
            raise AgentError("invalid", f"{text!r} is not a rule: write one {e}") from e
        if rule.about == "tool" and "*" not in rule.pattern:
            continue
        if (
            rule.about != "command"
            or rule.any_more
            or pattern_of(rule.words) != text
            or unwrap(rule.words, rule.words[0]) is not None
        ):
            raise AgentError(
                "invalid",
                (
                    f"{text!r} can be approved for single calls only: to allow it always, write it "
                    "into your configuration yourself"
                ),
            )
    return list(pattern)
