"""Judgement of a command line as findings: each simple command in it is checked, and anything not
known to be harmless asks.

Denials and dangers are searched in every command anywhere in the text, through wrappers and `sh
-c`, and before any limit of size. Nothing is run. Entry point: `judge`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from treadle.config.rules import PermissionRule, program_of
from treadle.policy.decision import CallFinding, FindingKind
from treadle.policy.paths import Reach
from treadle.policy.shell import dangers
from treadle.policy.shell.agreement import Differ, agreed
from treadle.policy.shell.conditions import judge_test, redirections_of
from treadle.policy.shell.expansion import expanded
from treadle.policy.shell.find import read_find
from treadle.policy.shell.ground import Ground
from treadle.policy.shell.hiding import may_run
from treadle.policy.shell.judgement import JudgedWords, Judgement
from treadle.policy.shell.language import OutsideLanguage
from treadle.policy.shell.lexical import (
    SPLICED,
    TooManyMentions,
    commands_in,
    invisible_in,
    names_one_of,
    places_in,
    targets_in,
)
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.runners import pattern_of
from treadle.policy.shell.simple import SimpleCommand, paths_in
from treadle.policy.shell.syntax import LEAVES_RUNNING, ParsedCommand, Redirect, Script, parse
from treadle.policy.shell.wrappers import (
    LOOKED_THROUGH,
    is_free_of_order,
    is_harmless_setting,
    runs_of,
    unwrap,
    words_of,
)
from treadle.policy.shell.writers import written_by

MAX_INNER = 5
"""Wrappers in wrappers, scripts in scripts."""
MAX_SCRIPTS = 12
"""Texts that shells inside would read, in one command line."""
MAX_COMMANDS = 400
MAX_WORDS = 400
"""Words of one command; a longer one is only searched for denials."""

MAX_PLACES = 100
"""Places of a line that are compared with those that are never removed."""

_REACHES_MORE = frozenset(
    {FindingKind.HELD, FindingKind.PERMITTED, FindingKind.READS_BEYOND, FindingKind.UNSURE}
)
"""Findings on commands of which it is not known to the last file what they read and write."""
_TAKE_NUMBERS = frozenset({"echo", "printf", "test", "[", "exit"})
"""Programs that may be given `$?`."""
_LOOKS_ONLY = CallFinding(FindingKind.READS)


def judge(text: str, reach: Reach) -> Judgement:
    """Never raises, and takes milliseconds: at most a tenth of a second, whatever the text."""
    line = _Line(Ground(reach), {})
    if re.search("[\0\ud800-\udfff]", text):
        line.whole(FindingKind.UNSURE, "it holds a byte that is no character")
        text = re.sub("[\0\ud800-\udfff]", "\ufffd", text)
    try:
        line.judge(text)
    except (OSError, ValueError, RecursionError):  # a path in it cannot be looked up
        line.judgement = Judgement(
            findings=[
                CallFinding(
                    FindingKind.NEEDS_A_PERSON,
                    "a path in it leads through too many links, or is none",
                )
            ]
        )
        line.judgement.findings += line.lexically(text)
    if (strange := invisible_in(text)) is not None:
        line.whole(FindingKind.UNSURE, f"it holds a character that does not show ({strange})")
    if SPLICED.search(text):
        line.whole(FindingKind.UNSURE, "a line break splits a word of it")
        line.judgement.findings += line.lexically(text)
    return line.judgement


class _Line:
    """A text that a shell reads."""

    def __init__(
        self,
        ground: Ground,
        scripts: dict[tuple[str, tuple[str, ...]], list[CallFinding]],
        depth: int = 0,
    ) -> None:
        """`scripts`: texts inside that were judged already, by where they begin."""
        self.ground, self.reach = ground, ground.reach
        self.judgement = Judgement()
        self._scripts, self._depth = scripts, depth
        self._simple = SimpleCommand(ground, self._script)
        self._leaves_running = False

    def whole(self, kind: FindingKind, why: str) -> None:
        self.judgement.findings.append(CallFinding(kind, why))

    def judge(self, text: str) -> None:
        script = parse(text, self.reach.home)
        if (plain := self._plain(text, script)) is not None:
            for command in plain:
                self._command(command, in_full=True)
        else:
            self._in_full(text, script)
        self._hidden(text, script)

    def _plain(self, text: str, script: Script) -> list[ParsedCommand] | None:
        """The commands of a line of the small language; None for any other line, with a finding
        that says why.
        """
        try:
            found = agreed(text, script, self.reach.home)
        except Differ:
            self.whole(FindingKind.UNSURE, "two readings of it differ")
            return None
        if isinstance(found, OutsideLanguage):
            self.whole(
                FindingKind.UNSURE if found.is_beyond else FindingKind.HELD, f"it has {found.why}"
            )
            return None
        return found

    def _in_full(self, text: str, script: Script) -> None:
        """Judge a line outside the language, as far as the grammar reads it."""
        self._leaves_running = LEAVES_RUNNING in script.problems
        for problem in script.problems:
            self.whole(FindingKind.UNSURE, problem)
        if not script.is_whole:
            self.judgement.findings += self.lexically(text)
            if names_one_of(dangers.REMOVES, text):
                self.whole(
                    FindingKind.NEEDS_A_PERSON,
                    "it cannot be read without doubt, and may remove files",
                )
        if len(script.commands) > MAX_COMMANDS:
            self.whole(FindingKind.UNSURE, f"it has more than {MAX_COMMANDS} commands")
        for i, command in enumerate(script.commands):
            self._command(command, in_full=i < MAX_COMMANDS)
        if len(script.tests) > MAX_COMMANDS:
            self.whole(FindingKind.UNSURE, f"it has more than {MAX_COMMANDS} tests")
        for test in script.tests[:MAX_COMMANDS]:
            written = [self.ground.writes(target.value) for target in redirections_of(test)]
            self.judgement.commands.append(
                JudgedWords(
                    tuple(word.value for word in test),
                    (judge_test(test, self.ground.reads_names), *written),
                )
            )

    def _hidden(self, text: str, script: Script) -> None:
        """Put down what a user's rules are about and this line may do without showing it."""
        rules = self.reach.rules
        if (
            rule := next(
                (
                    rule
                    for rule in (*rules.deny, *rules.ask)
                    if rule.about == "command" and may_run(rule, text, script)
                ),
                None,
            )
        ) is not None:
            self.whole(
                FindingKind.NEEDS_A_PERSON,
                f"it could run what the rule {rule.text!r} is about, and this policy cannot tell",
            )
        has_paths = any(rule.about in ("read", "write") for rule in (*rules.deny, *rules.ask))
        if has_paths and any(finding.kind in _REACHES_MORE for finding in self.judgement.all()):
            self.whole(
                FindingKind.PARTLY_ASKED,
                "it could reach files that a rule is about, and this policy cannot tell",
            )
        unknown = [
            command
            for command in script.commands[:MAX_COMMANDS]
            if not all(word.is_literal for word in command.words)
        ]
        if unknown and any(
            self._is_danger([word.value if word.is_literal else place for word in each.words])
            for place in self._vital_in(text)
            for each in unknown
        ):
            self.whole(
                FindingKind.NEEDS_A_PERSON,
                (
                    "what it removes or changes is not known, and the line names a place that the "
                    "machine or its user needs"
                ),
            )

    def _vital_in(self, text: str) -> list[str]:
        """Return the places in a text of which nothing may be removed recursively; the root where
        there are too many to look at.
        """
        places = places_in(text, self.reach.home)
        return (
            ["/"]
            if len(places) > MAX_PLACES
            else [place for place in places if self._is_danger(["rm", "-r", place])]
        )

    def _is_danger(self, words: list[str]) -> bool:
        """Return True if a program among the words is never run with those behind it, if one of
        them turns out to be an option.
        """
        start = next(
            (i for i, word in enumerate(words[:40]) if program_of(word) in dangers.PROGRAMS),
            len(words),
        )
        found = dangers.danger_of(
            words[start:],
            cwds=self.ground.cwds,
            workspace=self.reach.root,
            home=self.reach.home,
            is_sure=False,
        )
        return found is not None

    # ------------------------------------------------------------ one command

    def _command(self, command: ParsedCommand, *, in_full: bool) -> None:
        found: list[CallFinding] = []
        argv = command.argv
        argvs = expanded(command, self.ground, self._simple, MAX_WORDS)
        if (
            command.in_function
            and argv
            and argv[0] == command.in_function
            and (command.feeds or command.fed_by or self._leaves_running)
        ):
            found.append(
                CallFinding(
                    FindingKind.FORBIDDEN,
                    "a function that starts itself again and again stops the machine",
                )
            )
        is_sure = all(word.is_fixed or (word.wild is not None and argvs) for word in command.words)
        others = [other for word in command.words for other in word.others]
        unknown = frozenset(word.value for word in command.words if not word.is_fixed)
        for each in argvs or [[*argv, *others]]:
            found += self._inside(each, fed=_fed(command), is_sure=is_sure, unknown=unknown)
            found += self._below(each)
        for redirect in command.redirects:
            found += self._redirect(redirect)
        if in_full:
            found += [
                CallFinding(
                    FindingKind.UNSURE, f"{name} before a command may change what code runs"
                )
                for name, value in command.assignments
                if not (value.is_fixed and is_harmless_setting(name, value.value))
            ]
        if command.words and in_full:
            found += self._words(command, argvs)
        found += self._given(command)
        self.judgement.commands.append(
            JudgedWords(tuple(argv), tuple(found) or (_LOOKS_ONLY,), self._pattern(command, found))
        )
        self._follow(command)

    def _follow(self, command: ParsedCommand) -> None:
        """Take account of a change of directory."""
        words = command.words
        while len(words) > 1 and words[0].value in ("command", "builtin", "\\cd"):
            words = words[1:]
        if words and words[0].value in ("cd", "pushd"):
            self.ground.change_directory(words[1:])
        elif words and words[0].value == "popd":
            self.ground.is_known = False

    def _words(self, command: ParsedCommand, argvs: list[list[str]]) -> list[CallFinding]:
        words = command.words
        if not words[0].is_fixed:
            return [
                CallFinding(FindingKind.UNSURE, "which program it runs is not known before it runs")
            ]
        if len(words) > MAX_WORDS:
            return [CallFinding(FindingKind.UNSURE, f"it has more than {MAX_WORDS} words")]
        if not all(word.is_literal for word in words) and not (
            words[0].value in _TAKE_NUMBERS and all(word.wild is not None for word in words)
        ):
            return [CallFinding(FindingKind.UNSURE, self._simple.unknown(words[0].value))]
        if not argvs and any(word.has_glob for word in words):
            return [
                CallFinding(
                    FindingKind.UNSURE,
                    (
                        "a pattern in it stands for too many names, for one that looks like an "
                        "option, or for files elsewhere"
                    ),
                )
            ]
        if not is_free_of_order(command.argv, frozenset(word.value for word in words if word.wild)):
            return [
                CallFinding(
                    FindingKind.UNSURE,
                    "a pattern in it stands where a program, a format or a pattern is expected",
                )
            ]
        return [
            finding
            for argv in argvs or [command.argv]
            for finding in self._simple.judged(argv, has_input=_has_input(command))
        ]

    def _redirect(self, redirect: Redirect) -> list[CallFinding]:
        target, operator = redirect.target, redirect.operator
        if operator in ("<<", "<<<"):
            return (
                []
                if target.is_literal
                else [
                    CallFinding(
                        FindingKind.UNSURE, "the text it is given is not known before it runs"
                    )
                ]
            )
        if operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", target.value) and target.is_fixed:
            return []
        if operator not in ("<", ">", ">>", ">|", "&>", "&>>", ">&", "<>"):
            return [CallFinding(FindingKind.UNSURE, f"the redirection {operator!r} is not judged")]
        findings = (
            []
            if target.is_fixed
            else [
                CallFinding(
                    FindingKind.UNSURE, "where it reads or writes is not known before it runs"
                )
            ]
        )
        if operator == "<":
            return findings or [self.ground.reads(target.value)]
        written = (
            self.ground.writes(target.value)
            if target.value
            else CallFinding(FindingKind.UNSURE, "where it writes is not known")
        )
        return [*findings, written]

    # ------------------------------------------------------------ what is denied, anywhere inside

    def _forbidden(self, argv: Sequence[str], *, is_sure: bool = True) -> CallFinding | None:
        """Return what forbids a command, whatever else is in it: a rule, a danger, a guarded file
        that it writes.
        """
        if not argv or not argv[0]:
            return None
        if (rule := self.reach.rules.denying(argv)) is not None:
            return CallFinding(FindingKind.FORBIDDEN, f"the rule {rule.text!r} denies it")
        if (
            not self.ground.is_known
            and program_of(argv[0]) in dangers.REMOVES
            and any(not word.startswith(("/", "-")) for word in argv[1:])
        ):
            return CallFinding(
                FindingKind.FORBIDDEN,
                f"where {' '.join(argv)[:60]!r} would remove files is not known",
            )
        danger = dangers.danger_of(
            argv,
            cwds=self.ground.cwds,
            workspace=self.reach.root,
            home=self.reach.home,
            is_sure=is_sure,
        )
        if danger is not None:
            return CallFinding(
                FindingKind.FORBIDDEN, f"{' '.join(argv)[:60]!r} is never run: {danger}"
            )
        written = written_by(argv, program_of(argv[0]))
        findings = self.ground.write_all(written.writes) if written is not None else []
        if self.reach.denies_paths:
            writes = program_of(argv[0]) not in PROGRAMS
            findings += [
                self.ground.denied(part, writes=writes)
                for word in argv[1:]
                for part in (word, *paths_in(word))
            ]
        return next(
            (finding for finding in findings if finding.kind is FindingKind.FORBIDDEN), None
        )

    def _below(self, argv: Sequence[str]) -> list[CallFinding]:
        """Return findings of rules about files below the folders that a program is given, if it may
        read them.
        """
        program = PROGRAMS.get(program_of(argv[0])) if argv else None
        if (
            not argv
            or argv[0] in ("find", "cd")
            or (program is not None and program.operands in ("names", "words", "none"))
        ):
            return []
        given = [part for word in argv[1:MAX_WORDS] for part in (word, *paths_in(word))]
        return self.ground.ruled_below(given)

    def _endangering(self, argv: Sequence[str]) -> CallFinding | None:
        """Return the danger, if an unknown program may run these words."""
        if program_of(argv[0]) not in dangers.REMOVES:
            return None
        found = self._forbidden(argv)
        return found if found is not None and "is never run" in found.why else None

    def _ruled(self, argv: Sequence[str], *, is_sure: bool = True) -> list[CallFinding]:
        """Return the rules that deny it, or that ask about it."""
        if (found := self._forbidden(argv, is_sure=is_sure)) is not None:
            return [found]
        asking = self.reach.rules.asking(argv) if argv else None
        return (
            []
            if asking is None
            else [
                CallFinding(FindingKind.NEEDS_A_PERSON, f"the rule {asking.text!r} asks before it")
            ]
        )

    def _inside(
        self,
        argv: Sequence[str],
        *,
        fed: Sequence[str],
        is_sure: bool,
        unknown: frozenset[str] = frozenset(),
        depth: int = 0,
    ) -> list[CallFinding]:
        """The same of all that it would run.

        `unknown`: words that stand for others, which are not known before it runs.
        """
        if argv and argv[0] in ("!", "{", "("):
            argv = argv[1:]
        all_found: list[CallFinding] = []
        if (
            argv
            and argv[0] in unknown
            and (
                program := dangers.dangerous_with(
                    argv[1:], self.ground.cwds, self.reach.root, self.reach.home
                )
            )
            is not None
        ):
            all_found.append(
                CallFinding(
                    FindingKind.NEEDS_A_PERSON,
                    (
                        f"which program it runs is not known, and {program} is never run with such "
                        "arguments"
                    ),
                )
            )
        if not argv or not argv[0]:
            return all_found + self._ruled(argv[1:])
        all_found += self._ruled(argv, is_sure=is_sure)
        program = program_of(argv[0])
        wrapped = runs_of(argv[:MAX_WORDS], program)
        # it may run what its words name
        if wrapped is None and program not in PROGRAMS and program != "git":
            all_found += [
                found
                for i in range(1, min(len(argv), 40))
                if (found := self._endangering(argv[i:])) is not None
            ]
        if wrapped is None or any(finding.kind is FindingKind.FORBIDDEN for finding in all_found):
            return all_found
        if depth >= MAX_INNER or len(argv) > MAX_WORDS:
            return [
                *all_found,
                CallFinding(FindingKind.UNSURE, "too many programs run one another"),
                *self.lexically(" ".join(argv)),
            ]
        for inner in wrapped.commands:
            is_fed = program in ("xargs", "parallel")
            all_found += self._inside(
                [*inner, *fed] if is_fed else inner,
                fed=(),
                is_sure=is_sure and not is_fed,
                unknown=unknown,
                depth=depth + 1,
            )
        for text in wrapped.scripts:
            all_found += self._ruled_in(text)
        if not wrapped.is_sure or not is_sure or program in LOOKED_THROUGH:
            all_found += [
                found for i in range(1, min(len(argv), 40)) for found in self._ruled(argv[i:])
            ]
        return all_found

    def _given(self, command: ParsedCommand) -> list[CallFinding]:
        """Judge the input that a shell reads from a here-document, or from an echo before it."""
        if not command.argv or unwrap(command.argv[:1], program_of(command.argv[0])) is None:
            return []
        texts = [
            source.body
            for source in (command, command.fed_by)
            if source is not None and source.body
        ]
        if command.fed_by is not None and command.fed_by.argv[:1] in (["echo"], ["printf"]):
            texts.append(" ".join(command.fed_by.argv[1:]))
        return [finding for text in texts for finding in self._ruled_in(text)]

    def _ruled_in(self, text: str) -> list[CallFinding]:
        found = [
            finding
            for finding in self._script(text)
            if finding.kind in (FindingKind.FORBIDDEN, FindingKind.NEEDS_A_PERSON)
        ]
        return found or self._ruled(words_of(text))

    def _script(self, text: str) -> list[CallFinding]:
        """All about a text that a shell inside this one would read."""
        key = (text, tuple(self.ground.cwds))
        if key not in self._scripts:
            if self._depth >= MAX_INNER or len(self._scripts) >= MAX_SCRIPTS:
                return [
                    CallFinding(FindingKind.UNSURE, "too many programs run one another"),
                    *self.lexically(text),
                ]
            self._scripts[key] = []
            inner = _Line(self.ground.copy(), self._scripts, self._depth + 1)
            inner.judge(text)
            self._scripts[key] = inner.judgement.all()
        return self._scripts[key]

    def lexically(self, text: str) -> list[CallFinding]:
        """Search a text that was not parsed for denials."""
        rules = [
            rule
            for rule in (*self.reach.rules.deny, *self.reach.rules.ask)
            if rule.about == "command"
        ]
        programs = {program_of(rule.words[0]) for rule in rules} | set(dangers.PROGRAMS)
        asked: list[CallFinding] = []
        try:
            for argv in commands_in(text, programs):
                found = self._ruled(
                    [
                        re.sub(
                            r"^(?:~(?=/|$)|\$HOME\b|\$\{HOME\})", lambda _: self.reach.home, word
                        )
                        for word in argv
                    ]
                )
                if any(finding.kind is FindingKind.FORBIDDEN for finding in found):
                    return found
                asked += found if not asked else []
            written = (self.ground.writes(target) for target in targets_in(text))
            sealed = next(
                (finding for finding in written if finding.kind is FindingKind.FORBIDDEN), None
            )
            return asked if sealed is None else [sealed]
        except TooManyMentions:
            return [
                CallFinding(
                    FindingKind.FORBIDDEN,
                    "it is too long to be judged, and names what may be denied again and again",
                )
            ]

    # ------------------------------------------------------------ what is offered

    def _pattern(self, command: ParsedCommand, found: Sequence[CallFinding]) -> str | None:
        argv = command.argv
        if (
            not argv
            or command.assignments
            or command.redirects
            or not all(word.is_fixed for word in command.words)
        ):
            return None
        if (
            argv[0] in PROGRAMS
            or unwrap(argv, argv[0]) is not None
            or not all(finding.kind in _OFFERED for finding in found)
        ):
            return None
        pattern = pattern_of(argv)
        is_enough = (
            pattern is not None
            and self._simple.beyond(
                PermissionRule(pattern, "command", words=tuple(pattern.split())), argv
            )
            is None
        )
        return pattern if is_enough else None


_OFFERED = frozenset(
    {FindingKind.UNSURE, FindingKind.READS, FindingKind.HELD, FindingKind.SHELL_EDITS}
)


def _fed(command: ParsedCommand) -> list[str]:
    """Words that an echo, or find, hands to xargs."""
    source = command.fed_by
    if source is not None and source.argv[:1] == ["find"]:
        return read_find(source.argv[1:]).starts
    if source is None or source.argv[:1] not in (["echo"], ["printf"]):
        return []
    return [piece for word in source.argv[1:] for piece in re.split(r"\s+|\\[nt0]", word) if piece]


def _has_input(command: ParsedCommand) -> bool:
    return command.fed_by is not None or any(
        r.operator in ("<", "<<", "<<<", "<>") for r in command.redirects
    )
