"""Judgement of a command line: findings about the line and each simple command in it. A command
that is not known to be harmless needs approval.

Denials and dangers are searched for everywhere in the text, including wrappers and `sh -c`, and
regardless of size limits. Nothing is executed. Entry point: `judge`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from treadle.config.command_matching import program_of
from treadle.config.rule import PermissionRule
from treadle.policy.decision import CallFinding, FindingKind
from treadle.policy.paths import Reach
from treadle.policy.shell import dangers
from treadle.policy.shell.agreement import Differ, agreed
from treadle.policy.shell.conditions import judge_test, redirections_of
from treadle.policy.shell.denials import MAX_WORDS, Denials
from treadle.policy.shell.find import read_find
from treadle.policy.shell.globs import expanded
from treadle.policy.shell.ground import Ground
from treadle.policy.shell.hiding import may_run
from treadle.policy.shell.judgement import JudgedWords, Judgement
from treadle.policy.shell.lexical import SPLICED, invisible_in, names_one_of
from treadle.policy.shell.plain_line import OutsideLanguage
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.runners import beyond, pattern_of
from treadle.policy.shell.script import ParsedCommand, Script
from treadle.policy.shell.simple import SimpleCommand
from treadle.policy.shell.syntax import LEAVES_RUNNING, parse
from treadle.policy.shell.wrappers import MAX_INNER, is_free_of_order, is_harmless_setting, unwrap

MAX_SCRIPTS = 12
"""Maximum number of texts in one command line that inner shells read."""
MAX_COMMANDS = 400

_REACHES_MORE = frozenset(
    {FindingKind.HELD, FindingKind.PERMITTED, FindingKind.READS_BEYOND, FindingKind.UNSURE}
)
"""Findings about commands that may read or write other files too. Needed by: `python3 x.py`
(contained in mode full, deny `read(private/**)`).
"""
_TAKE_NUMBERS = frozenset({"echo", "printf", "test", "[", "exit"})
"""Programs to which `$?` may be passed. Needed by: `echo $?` (allow)."""
_LOOKS_ONLY = CallFinding(FindingKind.READS)


def judge(text: str, reach: Reach) -> Judgement:
    """Judge a command line. Never raises. Takes milliseconds, and at most a tenth of a second."""
    line = _Line(Ground(reach), {})
    if re.search("[\0\ud800-\udfff]", text):
        line.whole(FindingKind.UNSURE, "it contains an invalid character")
        text = re.sub("[\0\ud800-\udfff]", "\ufffd", text)
    try:
        line.judge(text)
    except (OSError, ValueError, RecursionError):  # a path cannot be looked up
        line.judgement = Judgement(
            findings=[
                CallFinding(
                    FindingKind.NEEDS_A_PERSON,
                    "a path in it has too many links, or is invalid",
                )
            ]
        )
        line.judgement.findings += line.denials.lexically(text)
    if (strange := invisible_in(text)) is not None:
        line.whole(FindingKind.UNSURE, f"it contains an invisible character ({strange})")
    if SPLICED.search(text):
        line.whole(FindingKind.UNSURE, "a line break splits one of its words")
        line.judgement.findings += line.denials.lexically(text)
    return line.judgement


class _Line:
    """Judgement of one text that a shell reads."""

    def __init__(
        self,
        ground: Ground,
        scripts: dict[tuple[str, tuple[str, ...]], list[CallFinding]],
        depth: int = 0,
    ) -> None:
        """Create a judge of one line. `scripts`: findings about inner texts, by text and working
        directories. `depth`: number of enclosing texts.
        """
        self.ground, self.reach = ground, ground.reach
        self.judgement = Judgement()
        self._scripts, self._depth = scripts, depth
        self.denials = Denials(ground, self._script)
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
        """Return the commands of a line in the small language. For any other line, add a finding
        with the reason and return None.
        """
        try:
            found = agreed(text, script, self.reach.home)
        except Differ:
            self.whole(FindingKind.UNSURE, "two parsers read it differently")
            return None
        if isinstance(found, OutsideLanguage):
            self.whole(
                FindingKind.UNSURE if found.is_beyond else FindingKind.HELD, f"it has {found.why}"
            )
            return None
        return found

    def _in_full(self, text: str, script: Script) -> None:
        """Judge a line outside the language, as far as the grammar can read it."""
        self._leaves_running = LEAVES_RUNNING in script.problems
        for problem in script.problems:
            self.whole(FindingKind.UNSURE, problem)
        if not script.is_whole:
            self.judgement.findings += self.denials.lexically(text)
            if names_one_of(dangers.REMOVES, text):
                self.whole(
                    FindingKind.NEEDS_A_PERSON,
                    "it cannot be parsed with certainty, and may remove files",
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
        """Add findings about hidden effects that concern the user's rules or vital places."""
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
                f"it may run a command that the rule {rule.text!r} covers",
            )
        has_paths = any(rule.about in ("read", "write") for rule in (*rules.deny, *rules.ask))
        if has_paths and any(finding.kind in _REACHES_MORE for finding in self.judgement.all()):
            self.whole(
                FindingKind.PARTLY_ASKED,
                "it may access files that a rule covers",
            )
        unknown = [
            command.words
            for command in script.commands[:MAX_COMMANDS]
            if not all(word.is_literal for word in command.words)
        ]
        if unknown and any(
            self.denials.is_danger([word.value if word.is_literal else place for word in words])
            for place in self.denials.vital_in(text)
            for words in unknown
        ):
            self.whole(
                FindingKind.NEEDS_A_PERSON,
                (
                    "the files that it changes are unknown, and the line names a place that the "
                    "machine or its user needs"
                ),
            )

    # ------------------------------------------------------------ one command

    def _command(self, command: ParsedCommand, *, in_full: bool) -> None:
        found: list[CallFinding] = []
        argv = command.argv
        argvs = expanded(command, self.ground, MAX_WORDS)
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
            found += self.denials.inside(each, fed=_fed(command), is_sure=is_sure, unknown=unknown)
            found += self.denials.below(each)
        for redirect in command.redirects:
            found += self.ground.redirects(redirect)
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
        """Update the working directories after a command."""
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
                CallFinding(FindingKind.UNSURE, "the program that it runs is unknown in advance")
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
                        "a pattern in it matches too many names, a name that looks like an "
                        "option, or files elsewhere"
                    ),
                )
            ]
        if not is_free_of_order(command.argv, frozenset(word.value for word in words if word.wild)):
            return [
                CallFinding(
                    FindingKind.UNSURE,
                    "it has a pattern in place of a program, a format or a pattern",
                )
            ]
        return [
            finding
            for argv in argvs or [command.argv]
            for finding in self._simple.judged(argv, has_input=command.has_input)
        ]

    def _given(self, command: ParsedCommand) -> list[CallFinding]:
        """Judge input that a wrapper or shell reads from a here-document or a preceding echo."""
        if not command.argv or unwrap(command.argv[:1], program_of(command.argv[0])) is None:
            return []
        texts = [
            source.body
            for source in (command, command.fed_by)
            if source is not None and source.body
        ]
        if command.fed_by is not None and command.fed_by.argv[:1] in (["echo"], ["printf"]):
            texts.append(" ".join(command.fed_by.argv[1:]))
        return [finding for text in texts for finding in self.denials.ruled_in(text)]

    def _script(self, text: str) -> list[CallFinding]:
        """Return the findings about a text that an inner shell reads."""
        key = (text, tuple(self.ground.cwds))
        if key not in self._scripts:
            if self._depth >= MAX_INNER or len(self._scripts) >= MAX_SCRIPTS:
                return [
                    CallFinding(FindingKind.UNSURE, "its commands are nested too deeply"),
                    *self.denials.lexically(text),
                ]
            self._scripts[key] = []
            inner = _Line(self.ground.copy(), self._scripts, self._depth + 1)
            inner.judge(text)
            self._scripts[key] = inner.judgement.all()
        return self._scripts[key]

    # ------------------------------------------------------------ offered rules

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
            and beyond(
                PermissionRule(pattern, "command", words=tuple(pattern.split())), argv, self.ground
            )
            is None
        )
        return pattern if is_enough else None


_OFFERED = frozenset(
    {FindingKind.UNSURE, FindingKind.READS, FindingKind.HELD, FindingKind.SHELL_EDITS}
)
"""Needed by: `npm test` (ask, "a rule for 'npm test' would allow it")."""


def _fed(command: ParsedCommand) -> list[str]:
    """Return the words that a preceding echo or find passes to xargs."""
    source = command.fed_by
    if source is not None and source.argv[:1] == ["find"]:
        return read_find(source.argv[1:]).starts
    if source is None or source.argv[:1] not in (["echo"], ["printf"]):
        return []
    return [piece for word in source.argv[1:] for piece in re.split(r"\s+|\\[nt0]", word) if piece]
