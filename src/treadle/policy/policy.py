"""Decisions about calls of file tools and commands, from the mode, the user's rules and the call's
effects.

paths.py and shell/ check paths and commands; the loop requests approval, and the sandbox confines
commands. Entry point: `decide`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from treadle.config.rule import PermissionRule
from treadle.config.rules import Rules
from treadle.policy.decision import LOOKING, CallFinding, FindingKind, Verdict, reasons, settle
from treadle.policy.paths import Reach
from treadle.policy.permissions import NO_PERMISSIONS, Permissions
from treadle.tools.tool import Tool, Touched
from treadle.types import Mode

MAX_REASONS = 8
"""Maximum number of reasons shown for one command line."""
_ANYTHING = CallFinding(FindingKind.UNSURE)
"""Finding for a tool that does not declare its effects."""


@dataclass(frozen=True, slots=True)
class JudgedCommand:
    """Decision about one command of a command line."""

    argv: tuple[str, ...]
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    """`contained` runs without approval inside a sandbox, and needs approval without one."""
    reason: str = ""
    pattern: tuple[str, ...] | None = None
    """Rules that would allow this call and similar ones, for a session or always, to be shown
    before the user accepts them. None if only this one call can be approved.
    """
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Paths in the call -> their locations when checked. Tools open these."""
    commands: tuple[JudgedCommand, ...] = ()
    looks_only: bool = False
    """True for a command that, as far as analysis shows, changes nothing. It runs without write
    access or network in every mode.
    """
    partly: Verdict = "allow"
    """The stricter of `ask` and `deny` in rules about files below a directory that the command
    reads. Only the sandbox can hide these files: without one this is the verdict, and with one a
    command with `deny` stays confined even after approval.
    """


ALLOW = Decision("allow")


def decide(
    mode: Mode,
    tool: Tool[Any],
    arguments: Any,
    cwd: Path,
    permissions: Permissions = NO_PERMISSIONS,
) -> Decision:
    """Return the decision about a call: the strictest of the built-in denials, the user's `deny`
    and `ask` rules, and the findings about it. The user's `allow` rules loosen the findings, but
    override no denial and, for a command, do not remove the sandbox.

    Modes: plan allows only reads; ask allows reads inside the workspace; accept-edits also allows
    writes to unguarded files there; full allows everything not denied. `needs_approval` requires
    approval in every mode. Reads the disk, changes nothing, never raises.
    """
    touched = _touched(tool, arguments, cwd)
    findings = _by_name(tool, permissions.rules)
    if touched is not None and touched.command is not None:
        beside = _of_paths(touched, reach_of(cwd, permissions)) + [
            _of_host(host, permissions.rules) for host in touched.hosts
        ]
        return _of_command(mode, touched.command, [*findings, *beside], cwd, permissions)
    if mode == "plan" and tool.effect != "pure" and not delegates(tool):
        return Decision(
            "deny",
            (
                f"{tool.name} can change things, and this run only plans (mode plan): describe the "
                "change instead"
            ),
        )
    places: dict[str, str] = {}
    found: list[CallFinding] = []
    if touched is not None and not touched.is_nothing:
        reach = reach_of(cwd, permissions)
        found = [
            *_of_paths(touched, reach),
            *(_of_host(host, permissions.rules) for host in touched.hosts),
        ]
        places = _places(touched, reach)
    elif tool.effect != "pure":
        found = [_ANYTHING]
    if found and _first(permissions.rules.allow, tool.name) is not None:
        found = [
            CallFinding(FindingKind.GRANTED)
            if finding.kind in (FindingKind.EDITS, FindingKind.CONNECTS) or finding is _ANYTHING
            else finding
            for finding in found
        ]
    if not findings and not found:
        return ALLOW
    settled = settle([*findings, *found], mode)
    if settled.verdict == "allow":
        return Decision("allow", places=places) if places else ALLOW
    pattern = _tool_pattern(tool, found) if settled.verdict == "ask" and not findings else None
    is_edit = any(finding.kind is FindingKind.EDITS for finding in found)
    why = settled.why or (
        f"{'edits need' if is_edit else f'{tool.name} can change things, and needs'} "
        f"approval in mode {mode}"
    )
    return Decision(settled.verdict, why, pattern, places)


def delegates(tool: Tool[Any]) -> bool:
    """Return True if the tool only starts runs, whose calls are checked individually. Any tool may
    declare this.
    """
    return getattr(tool, "delegates", False) is True


def acts_as(tool: Tool[Any]) -> tuple[str, ...]:
    """Return the names of tools whose `ask` and `deny` rules also apply to this tool."""
    return getattr(tool, "acts_as", ())


def _touched(tool: Tool[Any], arguments: Any, cwd: Path) -> Touched | None:
    """Return the resources that the call touches; None if they cannot be determined."""
    try:
        touched: object = tool.touches(arguments, cwd)
    except Exception:  # noqa: BLE001  a tool may be anybody's code
        return None
    if not isinstance(touched, Touched):
        return None
    named = cast(
        "tuple[object, ...]", (touched.reads, touched.lists, touched.writes, touched.hosts)
    )
    return (
        touched
        if all(
            isinstance(each, tuple)
            and all(isinstance(path, str) for path in cast("tuple[object, ...]", each))
            for each in named
        )
        else None
    )


def reach_of(cwd: Path, permissions: Permissions) -> Reach:
    readable = tuple(str(path) for path in permissions.readable())
    return Reach(str(cwd), permissions.home, permissions.rules, readable, permissions.sealed)


# ---------------------------------------------------------------- by name


def _by_name(tool: Tool[Any], rules: Rules) -> list[CallFinding]:
    """Return the findings that do not depend on the arguments."""
    findings: list[CallFinding] = []
    if not (rules.deny or rules.ask or tool.needs_approval):
        return findings
    names = (tool.name, *acts_as(tool))
    if (denied := _first(rules.deny, *names)) is not None:
        findings.append(
            CallFinding(FindingKind.FORBIDDEN, f"the rule {denied.text!r} denies {tool.name}")
        )
    if (asked := _first(rules.ask, *names)) is not None:
        findings.append(
            CallFinding(
                FindingKind.NEEDS_A_PERSON, f"the rule {asked.text!r} asks before {tool.name}"
            )
        )
    if tool.needs_approval:
        findings.append(
            CallFinding(
                FindingKind.NEEDS_A_PERSON,
                f"{tool.name} asks for a person's approval in every mode",
            )
        )
    return findings


def _first(rules: Sequence[PermissionRule], *names: str) -> PermissionRule | None:
    """Return the first matching rule, in the order of these tools."""
    for name in names:
        for rule in rules:
            if rule.is_of_tool(name):
                return rule
    return None


# ---------------------------------------------------------------- by touched resources


def _of_paths(touched: Touched, reach: Reach) -> list[CallFinding]:
    return [
        *(reach.read(path) for path in touched.reads),
        *(reach.read(path, names_only=True) for path in touched.lists),
        *(reach.write(path) for path in touched.writes),
    ]


def _places(touched: Touched, reach: Reach) -> dict[str, str]:
    """Return the locations of paths that were just checked, without resolving them again."""
    found: dict[str, str] = {}
    for path in (*touched.reads, *touched.lists, *touched.writes):
        try:
            found[path] = reach.places(path)[0]
        except (ValueError, OSError):
            continue
    return found


def _of_host(host: str, rules: Rules) -> CallFinding:
    def said(among: Iterable[PermissionRule]) -> PermissionRule | None:
        return next(
            (
                rule
                for rule in among
                if rule.about == "host" and rule.names.fullmatch(host.casefold().removesuffix("."))
            ),
            None,
        )

    if (denied := said(rules.deny)) is not None:
        return CallFinding(FindingKind.FORBIDDEN, f"the rule {denied.text!r} denies {host}")
    if (asked := said(rules.ask)) is not None:
        return CallFinding(
            FindingKind.NEEDS_A_PERSON, f"the rule {asked.text!r} asks before {host}"
        )
    return (
        CallFinding(FindingKind.READS)
        if said(rules.allow) is not None
        else CallFinding(FindingKind.CONNECTS, f"it connects to {host}, which can carry data there")
    )


def _tool_pattern(tool: Tool[Any], found: Sequence[CallFinding]) -> tuple[str, ...] | None:
    """Return a rule for this tool if only its name matters, else None."""
    return (
        (f"tool({tool.name})",)
        if all(finding.kind is FindingKind.READS or finding is _ANYTHING for finding in found)
        else None
    )


# ---------------------------------------------------------------- commands


def decide_command(
    mode: Mode, command: str, cwd: Path, permissions: Permissions = NO_PERMISSIONS
) -> Decision:
    """Return the decision about a command line, as `decide` does."""
    return _of_command(mode, command, [], cwd, permissions)


def _of_command(
    mode: Mode, command: str, findings: list[CallFinding], cwd: Path, permissions: Permissions
) -> Decision:
    from treadle.policy.shell.judge import judge  # noqa: PLC0415  its tables are read where there is a command

    judgement = judge(command, reach_of(cwd, permissions))
    found = [*findings, *judgement.all()]
    settled = settle(found, mode)
    commands = tuple(_judged(found.argv, found.findings, mode) for found in judgement.commands)
    looks_only, partly = all(finding.kind in LOOKING for finding in found), _partly(found)
    if settled.verdict == "allow":
        return Decision("allow", commands=commands, looks_only=looks_only, partly=partly)
    offered = judgement.patterns if settled.verdict == "ask" and not findings else None
    why = (
        _asking_words(
            [*(each for one in judgement.commands for each in one.findings), *found], mode
        )
        if settled.verdict == "ask"
        else settled.why
    )
    if settled.verdict == "deny" and mode == "plan":
        why = f"{why}, and this run only plans (mode plan): describe the change instead"
    return Decision(
        settled.verdict,
        why,
        None if offered is None else tuple(offered),
        {},
        commands,
        looks_only,
        partly,
    )


def _partly(found: Iterable[CallFinding]) -> Verdict:
    kinds = {finding.kind for finding in found}
    if FindingKind.PARTLY_DENIED in kinds:
        return "deny"
    return "ask" if FindingKind.PARTLY_ASKED in kinds else "allow"


def _judged(argv: tuple[str, ...], findings: Sequence[CallFinding], mode: Mode) -> JudgedCommand:
    settled = settle(findings, mode)
    return JudgedCommand(argv, settled.verdict, settled.why)


def _asking_words(found: Sequence[CallFinding], mode: Mode) -> str:
    """Join all reasons for requiring approval, because the second half of a line may be the
    dangerous one.
    """
    why = reasons(found, "ask", mode)
    more = [f"{len(why) - MAX_REASONS} more reasons"] if len(why) > MAX_REASONS else []
    return "; ".join([*why[:MAX_REASONS], *more])


# ---------------------------------------------------------------- reasons


def without_sandbox(decision: Decision) -> Decision:
    """Return the decision for a machine without a working sandbox."""
    if decision.partly == "deny" and decision.verdict != "deny":
        why = (
            decision.reason
            if decision.verdict == "contained"
            else "a rule denies reading files below a folder that it reads"
        )
        return replace(
            decision,
            verdict="deny",
            reason=f"{why}, and only a sandbox could hide them: none works here",
            pattern=None,
        )
    if decision.verdict != "contained":
        return decision
    why = f"{decision.reason}, so it runs without approval only in a sandbox, and none works here"
    return replace(decision, verdict="ask", reason=why)


def headless_denial(decision: Decision) -> str:
    """Return the reason, for the model, of a denial that is due to a missing approver."""
    return (
        f"Not run: {decision.reason}. No one can approve it: continue without this call, or "
        "say what you would need."
    )
