"""Search for denied and dangerous commands everywhere in a line: in wrappers, in `sh -c`, and in
text that cannot be parsed.

Entry point: `Denials`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from treadle.config.command_matching import program_of
from treadle.policy.decision import CallFinding, FindingKind
from treadle.policy.shell import dangers
from treadle.policy.shell.ground import Ground
from treadle.policy.shell.lexical import (
    TooManyMentions,
    commands_in,
    places_in,
    targets_in,
)
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.runners import paths_in
from treadle.policy.shell.wrappers import (
    LOOKED_THROUGH,
    MAX_INNER,
    runs_of,
    words_of,
)
from treadle.policy.shell.writers import written_by

MAX_WORDS = 400
"""Maximum number of words of a command. A longer one is only searched for denials."""
MAX_PLACES = 100
"""Maximum number of places in a line that are compared with vital ones."""


class Denials:
    """Check for findings that apply regardless of the rest of the line: rules, dangers, writes to
    guarded files.
    """

    def __init__(self, ground: Ground, script: Callable[[str], list[CallFinding]]) -> None:
        """Create a check of denials. `script`: judges a text that an inner shell reads."""
        self.ground, self.reach = ground, ground.reach
        self._script = script

    def vital_in(self, text: str) -> list[str]:
        """Return the places in a text that must not be removed recursively; the root if there are
        too many places to check.
        """
        places = places_in(text, self.reach.home)
        return (
            ["/"]
            if len(places) > MAX_PLACES
            else [place for place in places if self.is_danger(["rm", "-r", place])]
        )

    def is_danger(self, words: list[str]) -> bool:
        """Return True if one of the words is a program that could be dangerous with the words after
        it, should an unknown word be an option.
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

    def _forbidden(self, argv: Sequence[str], *, is_sure: bool = True) -> CallFinding | None:
        """Return the finding that forbids a command: a rule, a danger, or a write to a guarded
        file.
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

    def below(self, argv: Sequence[str]) -> list[CallFinding]:
        """Return findings of rules about files below the folders among a program's arguments, if
        the program may read them.
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

    def _endangering(self, argv: Sequence[str]) -> list[CallFinding]:
        """Return the dangers of an unknown program, which may run its arguments as a command."""
        found = [
            self._forbidden(argv[i:])
            for i in range(1, min(len(argv), 40))
            if program_of(argv[i]) in dangers.REMOVES
        ]
        return [each for each in found if each is not None and "is never run" in each.why]

    def _by_another(self, argv: Sequence[str], unknown: frozenset[str]) -> list[CallFinding]:
        """Return a finding if the program is unknown, and could be one that never runs with these
        arguments.
        """
        if not argv or argv[0] not in unknown:
            return []
        reach = self.reach
        program = dangers.dangerous_with(argv[1:], self.ground.cwds, reach.root, reach.home)
        if program is None:
            return []
        why = f"the program that it runs is unknown, and {program} is never run with such arguments"
        return [CallFinding(FindingKind.NEEDS_A_PERSON, why)]

    def ruled(self, argv: Sequence[str], *, is_sure: bool = True) -> list[CallFinding]:
        """Return the denial or danger of a command, else the rule that requires approval."""
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

    def inside(
        self,
        argv: Sequence[str],
        *,
        fed: Sequence[str],
        is_sure: bool,
        unknown: frozenset[str] = frozenset(),
        depth: int = 0,
    ) -> list[CallFinding]:
        """Return denials of a command and of every command that it runs.

        `fed`: words that it receives from a pipe. `is_sure`: False if words are missing. `unknown`:
        words whose values are unknown before the command runs.
        """
        if argv and argv[0] in ("!", "{", "("):
            argv = argv[1:]
        all_found = self._by_another(argv, unknown)
        if not argv or not argv[0]:
            return all_found + self.ruled(argv[1:])
        all_found += self.ruled(argv, is_sure=is_sure)
        program = program_of(argv[0])
        wrapped = runs_of(argv[:MAX_WORDS], program)
        if wrapped is None and program not in PROGRAMS and program != "git":
            all_found += self._endangering(argv)
        if wrapped is None or any(finding.kind is FindingKind.FORBIDDEN for finding in all_found):
            return all_found
        if depth >= MAX_INNER or len(argv) > MAX_WORDS:
            return [
                *all_found,
                CallFinding(FindingKind.UNSURE, "its commands are nested too deeply"),
                *self.lexically(" ".join(argv)),
            ]
        for inner in wrapped.commands:
            is_fed = program in ("xargs", "parallel")
            all_found += self.inside(
                [*inner, *fed] if is_fed else inner,
                fed=(),
                is_sure=is_sure and not is_fed,
                unknown=unknown,
                depth=depth + 1,
            )
        for text in wrapped.scripts:
            all_found += self.ruled_in(text)
        if program in LOOKED_THROUGH:
            all_found += self._anywhere(argv, is_sure=is_sure, unknown=unknown)
        elif not (wrapped.is_sure and is_sure):
            all_found += self._anywhere(argv, is_sure=True)
        return all_found

    def _anywhere(
        self, argv: Sequence[str], *, is_sure: bool, unknown: frozenset[str] = frozenset()
    ) -> list[CallFinding]:
        """Return denials of a command that may begin at any word after the first."""
        found: list[CallFinding] = []
        for i in range(1, min(len(argv), 40)):
            found += self._by_another(argv[i:], unknown) + self.ruled(argv[i:], is_sure=is_sure)
        return found if len(argv) <= 40 else found + self.lexically(" ".join(argv))

    def ruled_in(self, text: str) -> list[CallFinding]:
        found = [
            finding
            for finding in self._script(text)
            if finding.kind in (FindingKind.FORBIDDEN, FindingKind.NEEDS_A_PERSON)
        ]
        return found or self.ruled(words_of(text))

    def lexically(self, text: str) -> list[CallFinding]:
        """Return findings about denied and dangerous commands in an unparsed text."""
        rules = [
            rule
            for rule in (*self.reach.rules.deny, *self.reach.rules.ask)
            if rule.about == "command"
        ]
        programs = {program_of(rule.words[0]) for rule in rules} | set(dangers.PROGRAMS)
        asked: list[CallFinding] = []
        try:
            for argv in commands_in(text, programs):
                found = self.ruled(
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
                    "it is too long to check, and mentions commands that may be denied too often",
                )
            ]
