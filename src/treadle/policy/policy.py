"""Decisions about calls: one for file tools and commands, from the mode, the user's rules and the
call's effects.

paths.py and shell/ judge paths and commands; the loop asks people, and the sandbox confines
commands. Entry point: `decide`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from treadle.config.rules import NO_RULES, BadRule, PermissionRule, Rules
from treadle.errors import AgentError
from treadle.policy.decision import LOOKING, CallFinding, FindingKind, Verdict, reasons, settle
from treadle.policy.paths import Reach
from treadle.tools.tool import Tool, Touched
from treadle.types import Mode

MAX_REASONS = 8
"""Number of reasons that a person sees for one command line."""
_ANYTHING = CallFinding(FindingKind.UNSURE)
"""Finding for a tool that does not declare its effects."""


def _nothing() -> Sequence[Path]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Rules for a run's calls, besides its mode."""

    rules: Rules = NO_RULES
    home: str = ""
    """The user's home folder; empty if unknown, and `~` stands for nothing."""
    readable: Callable[[], Sequence[Path]] = _nothing
    """Folders outside the workspace that may be read: stored long outputs and skills."""
    sealed: Callable[[], tuple[str, ...]] = tuple
    """Folders that nothing may write: Treadle's own."""

    def also_reading(self, readable: Callable[[], Sequence[Path]]) -> Permissions:
        """Return a copy for one run in which these folders may be read too."""
        return Permissions(
            rules=self.rules,
            home=self.home,
            readable=lambda: (*readable(), *self.readable()),
            sealed=self.sealed,
        )


NO_PERMISSIONS = Permissions()


class _Own:
    """Treadle's own folder and the paths it is known by."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._names = (self._folder,)
        self.names()

    def names(self) -> tuple[str, ...]:
        """Return every path the folder has led to: earlier targets stay sealed, and the current one
        is added.
        """
        if (real := os.path.realpath(self._folder)) not in self._names:
            self._names = (*self._names, real)
        return self._names


def permissions_of(
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
    own: str | None = None,
    withheld: Container[str] = (),
) -> Permissions:
    """Build permissions from a configuration. `own`: Treadle's own folder, which only Treadle
    writes, and from which skills are read. `withheld`: rules whose text is not quoted in reasons,
    since a model reads reasons.

    Raises AgentError(invalid) for an invalid rule.
    """
    try:
        rules = Rules.read(allow=allow, ask=ask, deny=deny).withholding(withheld)
    except BadRule as e:
        raise AgentError("invalid", f"permissions: {e.text!r} is no rule; a rule is one {e}") from e
    home = os.path.expanduser("~")
    if own is None:
        return Permissions(rules=rules, home=home)
    skills = (Path(own) / "skills",)
    return Permissions(rules=rules, home=home, readable=lambda: skills, sealed=_Own(own).names)


@dataclass(frozen=True, slots=True)
class JudgedCommand:
    """Judgement of one of the commands in a command line."""

    argv: tuple[str, ...]
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    """`contained` runs without asking inside a sandbox, and asks where none works."""
    reason: str = ""
    pattern: tuple[str, ...] | None = None
    """Rules that would allow this call and similar ones, for a session or always, to be shown
    before they are accepted. None if only this one call can be approved.
    """
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Paths as the call names them -> where they led when judged. Tools open these."""
    commands: tuple[JudgedCommand, ...] = ()
    looks_only: bool = False
    """True for a command that, as far as analysis shows, changes nothing. It runs without write
    access or network in every mode.
    """
    partly: Verdict = "allow"
    """The stricter of `ask` and `deny` in rules about files below a folder that the command reads.
    Only the sandbox can hide these files: without one this is the verdict, and with one a command
    with `deny` stays confined even after approval.
    """


ALLOW = Decision("allow")


def decide(
    mode: Mode,
    tool: Tool[Any],
    arguments: Any,
    cwd: Path,
    permissions: Permissions = NO_PERMISSIONS,
) -> Decision:
    """Return the strictest of the built-in denials, the user's `deny` and `ask` rules, and the
    findings about the call. The user's `allow` rules loosen the findings, but lift no denial and,
    for a command, do not lift the sandbox.

    Modes: plan allows only reads; ask allows reads inside the workspace; accept-edits also allows
    writes to unguarded files there; full allows everything not denied. `needs_approval` asks in
    every mode. Reads the disk, changes nothing, never raises.
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
    if _first(permissions.rules.allow, tool.name) is not None:
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
    """Return True if the tool only starts runs, whose calls are judged one by one. Any tool may
    declare so.
    """
    return getattr(tool, "delegates", False) is True


def acts_as(tool: Tool[Any]) -> tuple[str, ...]:
    """Return the names of tools whose `ask` and `deny` rules apply to this tool too."""
    return getattr(tool, "acts_as", ())


def _touched(tool: Tool[Any], arguments: Any, cwd: Path) -> Touched | None:
    """Return what the call touches; None if that cannot be determined."""
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
    names = (tool.name, *acts_as(tool))
    if (
        denied := next(filter(None, (_first(rules.deny, name) for name in names)), None)
    ) is not None:
        findings.append(
            CallFinding(FindingKind.FORBIDDEN, f"the rule {denied.text!r} denies {tool.name}")
        )
    if (asked := next(filter(None, (_first(rules.ask, name) for name in names)), None)) is not None:
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


def _first(rules: Iterable[PermissionRule], name: str) -> PermissionRule | None:
    for rule in rules:
        if rule.is_of_tool(name):
            return rule
    return None


# ---------------------------------------------------------------- by what it touches


def _of_paths(touched: Touched, reach: Reach) -> list[CallFinding]:
    return [
        *(reach.read(path) for path in touched.reads),
        *(reach.read(path, names_only=True) for path in touched.lists),
        *(reach.write(path) for path in touched.writes),
    ]


def _places(touched: Touched, reach: Reach) -> dict[str, str]:
    """Return the places of paths that were judged just now, without looking them up again."""
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
    """Return a rule for this tool if only its name is in question, else None."""
    return (
        (f"tool({tool.name})",)
        if all(finding.kind is FindingKind.READS or finding is _ANYTHING for finding in found)
        else None
    )


# ---------------------------------------------------------------- commands


def decide_command(
    mode: Mode, command: str, cwd: Path, permissions: Permissions = NO_PERMISSIONS
) -> Decision:
    """Apply `decide` to a command line on its own."""
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
    return (
        "deny"
        if FindingKind.PARTLY_DENIED in kinds
        else "ask"
        if FindingKind.PARTLY_ASKED in kinds
        else "allow"
    )


def _judged(argv: tuple[str, ...], findings: Sequence[CallFinding], mode: Mode) -> JudgedCommand:
    settled = settle(findings, mode)
    return JudgedCommand(argv, settled.verdict, settled.why)


def _asking_words(found: Sequence[CallFinding], mode: Mode) -> str:
    """Join all reasons for asking about a line: its second half may be the dangerous one."""
    why = reasons(found, "ask", mode)
    more = [f"{len(why) - MAX_REASONS} more reasons"] if len(why) > MAX_REASONS else []
    return "; ".join([*why[:MAX_REASONS], *more])


def withholds(permissions: Permissions, cwd: Path) -> Callable[[str], bool] | None:
    """Return a predicate that is true if a rule denies reading a file or asks before it; None if no
    rule concerns reading.

    Used by searches, which are judged by their folder alone, to leave such files out. Paths are
    absolute, without links.
    """
    rules = permissions.rules
    if not rules.deny and not rules.ask:
        return None
    about = tuple(rule for rule in (*rules.deny, *rules.ask) if rule.about == "read")
    root = str(cwd)
    return (
        (lambda path: rules.of_path(about, "read", (path,), root, permissions.home) is not None)
        if about
        else None
    )


def granted(permissions: Permissions, cwd: Path) -> Callable[[str], bool]:
    """Return a predicate that is true if a rule allows reading a file that likely holds a secret.
    Paths are absolute, without links.
    """
    rules, root = permissions.rules, os.path.realpath(cwd)
    return lambda path: (
        rules.of_path(rules.allow, "read", (path,), root, permissions.home) is not None
    )


# ---------------------------------------------------------------- reasons


def without_sandbox(decision: Decision) -> Decision:
    """Return the decision for a machine where no sandbox works."""
    if decision.partly == "deny" and decision.verdict != "deny":
        why = (
            decision.reason
            if decision.verdict == "contained"
            else "a rule denies reading some of what lies below a folder that it reads"
        )
        return replace(
            decision,
            verdict="deny",
            reason=f"{why}, and only a sandbox could hide them: none works here",
            pattern=None,
        )
    if decision.verdict != "contained":
        return decision
    why = f"{decision.reason}, so that it runs unasked only inside a sandbox, and none works here"
    return replace(decision, verdict="ask", reason=why)


def headless_denial(decision: Decision) -> str:
    """Return the model's reason for a refusal without an approver."""
    return (
        f"Not run: {decision.reason}. Nobody is here to approve it: go on without this call, or "
        "say what you would need."
    )
