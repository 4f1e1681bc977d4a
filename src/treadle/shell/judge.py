"""What a command line would do, as findings: each simple command in it is looked at, and whatever is not known to be harmless asks.

Denying rules and dangers are looked for in every command anywhere in the text, through wrappers and `sh -c`, and before any limit of
size. Nothing is run. Entry: `judge`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from treadle.reach import Reach
from treadle.rules import Rule, program_of
from treadle.shell import dangers
from treadle.shell.conditions import judge_test
from treadle.shell.find import read_find
from treadle.shell.git import git_runs
from treadle.shell.ground import Ground
from treadle.shell.lexical import TooMany, commands_in, targets_in
from treadle.shell.programs import PROGRAMS
from treadle.shell.runners import pattern_of
from treadle.shell.simple import Simple, paths_in
from treadle.shell.syntax import Command, Redirect, parse
from treadle.shell.wrappers import Unwrapped, is_harmless_setting, unwrap, words_of
from treadle.shell.writers import written_by
from treadle.verdicts import Finding, Kind

MAX_INNER = 5
"""Wrappers in wrappers, scripts in scripts."""
MAX_SCRIPTS = 12
"""Texts that shells inside would read, in one command line."""
MAX_COMMANDS = 400
MAX_WORDS = 400
"""Of one command; where it has more, it is only looked through for what is denied."""

_LOOKS_ONLY = Finding(Kind.READS)


@dataclass(frozen=True, slots=True)
class Judged:
    """One simple command, and what was found about it."""

    argv: tuple[str, ...]
    findings: tuple[Finding, ...]
    pattern: str | None = None
    """The rule that would allow it and its like; None where none is offered."""


@dataclass(slots=True)
class Judgement:
    commands: list[Judged] = field(default_factory=list[Judged])
    findings: list[Finding] = field(default_factory=list[Finding])
    """About the whole line, beside those of its commands."""

    def all(self) -> list[Finding]:
        return [*self.findings, *(finding for command in self.commands for finding in command.findings)]

    @property
    def patterns(self) -> list[str] | None:
        """Rules that together would allow the line; None where no rules can."""
        wanting = [c for c in self.commands if any(f.kind not in _UNASKED for f in c.findings)]
        if any(f.kind not in _UNASKED for f in self.findings) or not wanting or any(c.pattern is None for c in wanting):
            return None
        return list(dict.fromkeys(c.pattern for c in wanting if c.pattern is not None))


_UNASKED = frozenset({Kind.READS, Kind.HELD, Kind.PERMITTED})


def judge(text: str, reach: Reach) -> Judgement:
    """Never raises, and takes milliseconds: at most a tenth of a second, whatever the text."""
    line = _Line(Ground(reach), {})
    line.judge(text)
    if (strange := invisible_in(text)) is not None:
        line.whole(Kind.UNSURE, f"it holds a character that does not show ({strange})")
    if SPLICED.search(text):
        line.whole(Kind.UNSURE, "a line break splits a word of it")
        line.judgement.findings += line.lexically(text)
    return line.judgement


SPLICED = re.compile(r"[^\s\\]\\\n\S|\\\\\n")


def invisible_in(text: str) -> str | None:
    """The first character that a person does not see, or sees as a blank that is none, by its code."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return None
    for c in text:
        if c in "\n\t " or (c.isascii() and c.isprintable()):
            continue
        if (
            unicodedata.category(c) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
            or c in "\u115f\u1160\u3164\uffa0\u2800\u034f"
            or "\ufe00" <= c <= "\ufe0e"
        ):
            return f"U+{ord(c):04X}"
    return None


class _Line:
    """One text that a shell reads."""

    def __init__(self, ground: Ground, scripts: dict[tuple[str, tuple[str, ...]], list[Finding]], depth: int = 0) -> None:
        """`scripts`: texts inside that were judged already, by where they begin."""
        self.ground, self.reach = ground, ground.reach
        self.judgement = Judgement()
        self._scripts, self._depth = scripts, depth
        self._simple = Simple(ground, self._script)

    def whole(self, kind: Kind, why: str) -> None:
        self.judgement.findings.append(Finding(kind, why))

    def judge(self, text: str) -> None:
        script = parse(text, self.reach.home)
        for problem in script.problems:
            self.whole(Kind.UNSURE, problem)
        if not script.is_whole:
            self.judgement.findings += self.lexically(text)
        if len(script.commands) > MAX_COMMANDS:
            self.whole(Kind.UNSURE, f"it has more than {MAX_COMMANDS} commands")
        for i, command in enumerate(script.commands):
            self._command(command, in_full=i < MAX_COMMANDS)
        for test in script.tests[:MAX_COMMANDS]:
            self.judgement.commands.append(Judged(tuple(word.value for word in test), (judge_test(test, self.ground.reads_names),)))

    # ------------------------------------------------------------ one command

    def _command(self, command: Command, *, in_full: bool) -> None:
        found: list[Finding] = []
        argv = command.argv
        if command.in_function and argv and argv[0] == command.in_function and (command.feeds or command.fed_by):
            found.append(Finding(Kind.FORBIDDEN, "a function that starts itself again and again stops the machine"))
        found += self._inside(argv, fed=_fed(command), is_sure=all(word.is_fixed for word in command.words))
        for redirect in command.redirects:
            found += self._redirect(redirect)
        if in_full:
            found += [
                Finding(Kind.UNSURE, f"{name} before a command may change what code runs")
                for name, value in command.assignments
                if not (value.is_fixed and is_harmless_setting(name, value.value))
            ]
        if command.words and in_full:
            found += self._words(command)
        found += self._given(command)
        self.judgement.commands.append(Judged(tuple(argv), tuple(found) or (_LOOKS_ONLY,), self._pattern(command, found)))
        if argv and argv[0] == "cd":
            self.ground.change_directory(command.words[1:])

    def _words(self, command: Command) -> list[Finding]:
        if not command.words[0].is_fixed:
            return [Finding(Kind.UNSURE, "which program it runs is not known before it runs")]
        if len(command.words) > MAX_WORDS:
            return [Finding(Kind.UNSURE, f"it has more than {MAX_WORDS} words")]
        if not all(word.is_literal for word in command.words):
            return [Finding(Kind.UNSURE, "an argument of it is not known before it runs")]
        argv: list[str] = []
        for word in command.words:
            names = self._simple.expanded(word.value) if word.has_glob else [word.value]
            if names is None:
                return [Finding(Kind.UNSURE, f"{word.value[:60]!r} stands for more files than are looked at, or for files elsewhere")]
            argv += names
        return self._simple.judged(argv, has_input=_has_input(command))

    def _redirect(self, redirect: Redirect) -> list[Finding]:
        target, operator = redirect.target, redirect.operator
        if operator in ("<<", "<<<"):
            return [] if target.is_literal else [Finding(Kind.UNSURE, "the text it is given is not known before it runs")]
        if operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", target.value) and target.is_fixed:
            return []
        if operator not in ("<", ">", ">>", ">|", "&>", "&>>", ">&", "<>"):
            return [Finding(Kind.UNSURE, f"the redirection {operator!r} is not judged")]
        findings = [] if target.is_fixed else [Finding(Kind.UNSURE, "where it reads or writes is not known before it runs")]
        if operator == "<":
            return findings or [self.ground.reads(target.value)]
        written = self.ground.writes(target.value) if target.value else Finding(Kind.UNSURE, "where it writes is not known")
        return [*findings, written]

    # ------------------------------------------------------------ what is denied, anywhere inside

    def _forbidden(self, argv: Sequence[str]) -> Finding | None:
        """Of one command, whatever else is in it: a rule that denies it, a danger, a guarded file that it writes."""
        if not argv or not argv[0]:
            return None
        if (rule := self.reach.rules.denying(argv)) is not None:
            return Finding(Kind.FORBIDDEN, f"the rule {rule.text!r} denies it")
        if (danger := dangers.danger_of(argv, cwds=self.ground.cwds, workspace=self.reach.root, home=self.reach.home)) is not None:
            return Finding(Kind.FORBIDDEN, f"{' '.join(argv)[:60]!r} is never run: {danger}")
        written = written_by(argv, program_of(argv[0]))
        findings = self.ground.write_all(written.writes) if written is not None else []
        if self.reach.denies_paths:
            writes = program_of(argv[0]) not in PROGRAMS
            findings += [self.ground.denied(part, writes=writes) for word in argv[1:] for part in (word, *paths_in(word))]
        return next((finding for finding in findings if finding.kind is Kind.FORBIDDEN), None)

    def _ruled(self, argv: Sequence[str]) -> list[Finding]:
        """What denies it, or what wants to be asked about it."""
        if (found := self._forbidden(argv)) is not None:
            return [found]
        asking = self.reach.rules.asking(argv) if argv else None
        return [] if asking is None else [Finding(Kind.NEEDS_A_PERSON, f"the rule {asking.text!r} asks before it")]

    def _inside(self, argv: Sequence[str], *, fed: Sequence[str], is_sure: bool, depth: int = 0) -> list[Finding]:
        """The same of all that it would run."""
        if argv and argv[0] in ("!", "{", "("):
            argv = argv[1:]
        if not argv or not argv[0]:
            return self._ruled(argv[1:])
        all_found = self._ruled(argv)
        program = program_of(argv[0])
        wrapped = _runs_of(argv[:MAX_WORDS], program)
        if wrapped is None or any(finding.kind is Kind.FORBIDDEN for finding in all_found):
            return all_found
        if depth >= MAX_INNER or len(argv) > MAX_WORDS:
            return [*all_found, Finding(Kind.UNSURE, "too many programs run one another"), *self.lexically(" ".join(argv))]
        for inner in wrapped.commands:
            words = [*inner, *fed] if program in ("xargs", "parallel") else inner
            all_found += self._inside(words, fed=(), is_sure=is_sure, depth=depth + 1)
        for text in wrapped.scripts:
            all_found += self._ruled_in(text)
        if not wrapped.is_sure or not is_sure or program in _LOOKED_THROUGH:
            all_found += [found for i in range(1, min(len(argv), 40)) for found in self._ruled(argv[i:])]
        return all_found

    def _given(self, command: Command) -> list[Finding]:
        """What a shell reads from a here-document, or from an echo before it."""
        if not command.argv or unwrap(command.argv[:1], program_of(command.argv[0])) is None:
            return []
        texts = [source.body for source in (command, command.fed_by) if source is not None and source.body]
        if command.fed_by is not None and command.fed_by.argv[:1] in (["echo"], ["printf"]):
            texts.append(" ".join(command.fed_by.argv[1:]))
        return [finding for text in texts for finding in self._ruled_in(text)]

    def _ruled_in(self, text: str) -> list[Finding]:
        found = [finding for finding in self._script(text) if finding.kind in (Kind.FORBIDDEN, Kind.NEEDS_A_PERSON)]
        return found or self._ruled(words_of(text))

    def _script(self, text: str) -> list[Finding]:
        """All about a text that a shell inside this one would read."""
        key = (text, tuple(self.ground.cwds))
        if key not in self._scripts:
            if self._depth >= MAX_INNER or len(self._scripts) >= MAX_SCRIPTS:
                return [Finding(Kind.UNSURE, "too many programs run one another"), *self.lexically(text)]
            self._scripts[key] = []
            inner = _Line(self.ground.copy(), self._scripts, self._depth + 1)
            inner.judge(text)
            self._scripts[key] = inner.judgement.all()
        return self._scripts[key]

    def lexically(self, text: str) -> list[Finding]:
        """What of a text is denied that was not parsed: it is searched."""
        rules = [rule for rule in (*self.reach.rules.deny, *self.reach.rules.ask) if rule.about == "command"]
        programs = {program_of(rule.words[0]) for rule in rules} | set(dangers.PROGRAMS)
        asked: list[Finding] = []
        try:
            for argv in commands_in(text, programs):
                found = self._ruled(argv)
                if any(finding.kind is Kind.FORBIDDEN for finding in found):
                    return found
                asked += found if not asked else []
            written = (self.ground.writes(target) for target in targets_in(text))
            sealed = next((finding for finding in written if finding.kind is Kind.FORBIDDEN), None)
            return asked if sealed is None else [sealed]
        except TooMany:
            return [Finding(Kind.FORBIDDEN, "it is too long to be judged, and names what may be denied again and again")]

    # ------------------------------------------------------------ what is offered

    def _pattern(self, command: Command, found: Sequence[Finding]) -> str | None:
        argv = command.argv
        if not argv or command.assignments or command.redirects or not all(word.is_fixed for word in command.words):
            return None
        if argv[0] in PROGRAMS or unwrap(argv, argv[0]) is not None or not all(finding.kind in _OFFERED for finding in found):
            return None
        pattern = pattern_of(argv)
        is_enough = pattern is not None and self._simple.beyond(Rule(pattern, "command", words=tuple(pattern.split())), argv) is None
        return pattern if is_enough else None


_OFFERED = frozenset({Kind.UNSURE, Kind.READS, Kind.HELD, Kind.SHELL_EDITS})


def _runs_of(argv: Sequence[str], program: str) -> Unwrapped | None:
    if program == "find":
        return Unwrapped(commands=[run for run in read_find(argv[1:]).runs if run])
    if program == "git":
        commands, scripts = git_runs(argv[1:])
        return Unwrapped(commands, scripts)
    return unwrap(argv, program)


_LOOKED_THROUGH = frozenset({"docker", "podman", "kubectl", "busybox", "toybox", "sudo", "ssh", "npx", "capsh", "bwrap", "firejail", "gdb"})
"""How these find what they run is not known in full: each of their words may begin it."""


def _fed(command: Command) -> list[str]:
    """Words that an echo hands to xargs."""
    source = command.fed_by
    if source is None or source.argv[:1] not in (["echo"], ["printf"]):
        return []
    return [piece for word in source.argv[1:] for piece in word.split()]


def _has_input(command: Command) -> bool:
    return command.fed_by is not None or any(r.operator in ("<", "<<", "<<<", "<>") for r in command.redirects)
