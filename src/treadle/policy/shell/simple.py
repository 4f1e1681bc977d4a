"""Judgement of one command of literal words, by the tables of programs and the user's rules.

denials.py searches for denials. Entry point: `SimpleCommand.judged`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from treadle.config.command_matching import program_of
from treadle.policy.decision import LOOKING, CallFinding, FindingKind
from treadle.policy.shell.conditions import judge_plain_test, judge_test
from treadle.policy.shell.effects import effect_of
from treadle.policy.shell.filters import AWK, SED, awk_acts, sed_writes
from treadle.policy.shell.find import read_find
from treadle.policy.shell.git import read_git
from treadle.policy.shell.ground import Ground
from treadle.policy.shell.lookup import doubt_about
from treadle.policy.shell.options import Options, Program, read_options
from treadle.policy.shell.programs import CHOSEN_BY_THE_FOLDER, PROGRAMS, VERSION_ONLY
from treadle.policy.shell.runners import beyond
from treadle.policy.shell.words import ShellWord
from treadle.policy.shell.wrappers import MAX_INNER, Unwrapped, unwrap
from treadle.policy.shell.writers import written_by

_PLAIN_WRAPPERS = frozenset({"timeout", "nice", "command"})
"""Needed by: `timeout 5 ls` (allow)."""
_LOOKS_ONLY = CallFinding(FindingKind.READS)


class SimpleCommand:
    def __init__(self, ground: Ground, script: Callable[[str], list[CallFinding]]) -> None:
        """Create a simple command. `script`: judges a text that an inner shell reads."""
        self.ground = ground
        self.reach = ground.reach
        self._script = script
        self._depth = 0
        self._doubt = lru_cache(partial(doubt_about, root=self.reach.root))
        """Cached `doubt_about`, for each program of the line."""

    def judged(self, argv: list[str], *, has_input: bool) -> list[CallFinding]:
        """Judge a command of literal words. `has_input`: its standard input is redirected."""
        name = argv[0]
        if not name or not re.fullmatch(r"[\w.+:\[/@~-]+", name, re.ASCII):
            return [CallFinding(FindingKind.UNSURE, f"{name[:40]!r} is not known")]
        asked = self.reach.rules.asking(argv)
        if asked is not None:
            known = self._known(argv, name, has_input=has_input)
            return [
                CallFinding(FindingKind.NEEDS_A_PERSON, f"the rule {asked.text!r} asks before it"),
                *known,
            ]
        found = self._known(
            argv,
            name.removeprefix("/usr/bin/").removeprefix("/bin/") if name.startswith("/") else name,
            has_input=has_input,
        )
        if (
            all(f.kind is FindingKind.READS for f in found)
            and (doubt := self._doubt(name)) is not None
        ):
            found = [*found, CallFinding(FindingKind.HELD, doubt)]
        if all(f.kind in LOOKING - {FindingKind.READS_BEYOND} for f in found) or any(
            f.kind is FindingKind.FORBIDDEN for f in found
        ):
            return found
        return self._permitted(argv, found)

    def _known(self, argv: list[str], name: str, *, has_input: bool) -> list[CallFinding]:
        if len(argv) == 2 and name in VERSION_ONLY.get(argv[1], ()):
            return (
                [CallFinding(FindingKind.HELD, f"files here may choose which {name} that is")]
                if name in CHOSEN_BY_THE_FOLDER
                else [_LOOKS_ONLY]
            )
        if name == "cd":
            return self._cd(argv)
        if name in ("[", "test"):
            return [self._test(argv)]
        if name == "set":
            return self._set(argv)
        if name == "find":
            return self._find(argv[1:])
        if name == "sed":
            return self._filter(argv, SED, sed_writes, FindingKind.READS)
        if name in ("awk", "gawk", "mawk", "nawk"):
            return self._filter(argv, AWK, awk_acts, FindingKind.HELD)
        if name == "git":
            return self._git(argv[1:])
        if (wrapped := unwrap(argv, name)) is not None:
            return self._wrapped(wrapped, name, has_input=has_input)
        if (program := PROGRAMS.get(name)) is not None:
            return self._reader(program, argv, has_input=has_input)
        return self._writer(argv, name)

    def _reader(self, program: Program, argv: list[str], *, has_input: bool) -> list[CallFinding]:
        if program.takes_anything:
            parsed = read_options([], program.options)
            parsed.operands = argv[1:]
        else:
            parsed = read_options(argv[1:], program.options)
        if parsed.unknown is not None:
            return [
                CallFinding(
                    FindingKind.UNSURE,
                    f"{argv[0]}'s {parsed.unknown} may write a file or run a program",
                ),
                *self._writes_of(argv),
            ]
        why = program.check(parsed) if program.check is not None else None
        if why is None and program.operands == "none" and parsed.operands:
            why = f"{argv[0]} with {parsed.operands[0]!r} may change something"
        if why is None and program.most is not None and len(parsed.operands) > program.most:
            why = f"{argv[0]} writes to its last argument"
        if why is not None:
            return [CallFinding(FindingKind.UNSURE, why), *self._writes_of(argv)]
        found = [
            CallFinding(
                program.kind,
                f"{argv[0]} does not end on its own, or shows other processes"
                if program.kind is FindingKind.HELD
                else "",
            )
        ]
        is_endless = program.held_alone and not (parsed.operands or has_input)
        if is_endless or parsed.has_any(program.held_with):
            found.append(
                CallFinding(FindingKind.HELD, "it ends only when it is stopped, or follows links")
            )
        operands = parsed.operands
        if program.operands == "pattern" and not parsed.has_any(
            f"{program.pattern_options} files type-list"
        ):
            operands = operands[1:]
        found += [self.ground.reads(path) for path in parsed.paths]
        found += [self.ground.reads(value) for value in parsed.values if self.ground.is_file(value)]
        if program.operands == "names":
            found += [self.ground.reads_names(path) for path in operands or ["."]]
        elif program.operands in ("contents", "pattern"):
            is_recursive = program.always_recursive or parsed.has_any(program.recursive)
            found += self._contents(argv[0], operands, recursive=is_recursive)
        return found

    def _contents(self, name: str, operands: list[str], *, recursive: bool) -> list[CallFinding]:
        if not recursive:
            found = [self.ground.reads(path) for path in operands if path != "-"]
            folders = (
                [path for path in operands if self.ground.is_folder(path)] if name == "diff" else []
            )
            if folders:
                found += [
                    CallFinding(FindingKind.HELD, "it follows links in a folder"),
                    *map(self.ground.reads_below, folders),
                ]
            return found
        return [self.ground.reads_below(path) for path in operands or ["."] if path != "-"]

    def _filter(
        self,
        argv: list[str],
        table: Options,
        judged: Callable[[str], str | None],
        kind: FindingKind,
    ) -> list[CallFinding]:
        """Judge sed or awk: options, then a program, then files."""
        parsed = read_options(argv[1:], table)
        if parsed.unknown is not None:
            why = (
                effect_of(argv)
                if table is SED
                else f"{argv[0]}'s {parsed.unknown} may write a file or run a program"
            )
            return [CallFinding(FindingKind.UNSURE, why), *self._writes_of(argv)]
        # GNU sed ends a command at the end of each -e and --expression
        given = parsed.values if table is SED else []
        programs, files = (
            (given, parsed.operands) if given else (parsed.operands[:1], parsed.operands[1:])
        )
        if not programs:
            return [CallFinding(FindingKind.UNSURE, f"{argv[0]} without a program")]
        for program in programs:
            if (why := judged(program)) is not None:
                return [CallFinding(FindingKind.UNSURE, why)]
        why = (
            ""
            if kind is FindingKind.READS
            else f"{argv[0]} is a programming language, so its programs cannot be checked fully"
        )
        return [
            CallFinding(kind, why),
            *(
                self.ground.reads(path)
                for path in files
                if path != "-" and not (table is AWK and re.match(r"\w+=", path))
            ),
        ]

    def _find(self, words: list[str]) -> list[CallFinding]:
        found = read_find(words)
        findings = [self.ground.reads_names(path) for path in (*found.starts, *found.paths)]
        if found.unknown is not None:
            findings.append(CallFinding(FindingKind.UNSURE, effect_of(["find", *words])))
        return findings or [_LOOKS_ONLY]

    def _git(self, words: list[str]) -> list[CallFinding]:
        git = read_git(words)
        if git.form == "looks":
            findings = [
                CallFinding(
                    FindingKind.HELD, "git runs programs that the repository's configuration names"
                )
            ]
        else:
            findings = [
                CallFinding(
                    FindingKind.UNSURE,
                    git.why
                    if not git.command or git.command.startswith("-")
                    else effect_of(["git", *words]),
                )
            ]
        findings += [
            self.ground.reads(part)
            for word in git.operands
            for part in {word, word.rpartition(":")[2]}
            if part and not part.startswith("-")
        ]
        return findings

    def _test(self, argv: list[str]) -> CallFinding:
        found = judge_plain_test(argv, self.ground.reads_names)
        if found is None:
            found = judge_test([ShellWord(word) for word in argv], self.ground.reads_names)
            return (
                CallFinding(FindingKind.HELD, "it is a test of many parts")
                if found.kind is FindingKind.READS
                else found
            )
        return found

    def _set(self, argv: list[str]) -> list[CallFinding]:
        known = re.fullmatch(r"set( [-+](?:[eu]+|[eu]*o pipefail))+", " ".join(argv)) is not None
        return [
            _LOOKS_ONLY
            if known
            else CallFinding(FindingKind.UNSURE, "set shows or changes the shell's state")
        ]

    def _wrapped(self, wrapped: Unwrapped, name: str, *, has_input: bool) -> list[CallFinding]:
        """Judge the wrapped command like a separate one. denials.py covers its denials."""
        found: list[CallFinding] = []
        if wrapped.adds is not None or not wrapped.is_sure:
            found.append(
                CallFinding(FindingKind.UNSURE, wrapped.adds or f"what {name} runs is not certain")
            )
        if name == "nohup":
            found.append(CallFinding(FindingKind.HELD, "nohup may leave it running"))
        if self._depth >= MAX_INNER:
            return [*found, CallFinding(FindingKind.UNSURE, "its commands are nested too deeply")]
        if name not in _PLAIN_WRAPPERS:
            found.append(CallFinding(FindingKind.HELD, f"{name} runs another program"))
        self._depth += 1
        for argv in wrapped.commands:
            found += (
                self.judged(argv, has_input=has_input)
                if argv[0] != "cd"
                else [CallFinding(FindingKind.UNSURE, "it changes where later paths start")]
            )
        self._depth -= 1
        for text in wrapped.scripts:
            found += self._script(text)
        if not wrapped.commands and not wrapped.scripts and not found:
            found.append(
                CallFinding(FindingKind.UNSURE, f"{name} alone changes or shows the shell's state")
            )
        return found

    def _writer(self, argv: list[str], name: str) -> list[CallFinding]:
        writes = self._writes_of(argv)
        written = written_by(argv, name)
        if (
            written is not None
            and written.is_plain
            and writes
            and all(f.kind in (FindingKind.SHELL_EDITS, FindingKind.PERMITTED) for f in writes)
        ):
            return [*writes, *(self.ground.reads(path) for path in written.reads)]
        return [CallFinding(FindingKind.UNSURE, effect_of(argv)), *writes]

    def unknown(self, name: str) -> str:
        """Return the reason for approval of a command with an unknown argument."""
        why = "an argument is unknown before it runs"
        return why if name in PROGRAMS else f"{effect_of([name])}; {why}"

    def _writes_of(self, argv: list[str]) -> list[CallFinding]:
        """Judge the files that a command writes, even if the rest of it is unknown, to find guarded
        files.
        """
        written = written_by(argv, program_of(argv[0]))
        if written is None:
            return []
        return self.ground.write_all(written.writes)

    def _permitted(self, argv: list[str], found: list[CallFinding]) -> list[CallFinding]:
        """Apply the user's rule that allows the command, if the rule covers all of it."""
        rule = self.reach.rules.allowing(argv)
        if rule is None or any(
            f.kind in (FindingKind.READS_BEYOND, FindingKind.NEEDS_A_PERSON) for f in found
        ):
            return found
        if (why := beyond(rule, argv, self.ground)) is not None:
            effects = [f.why for f in found if f.kind is FindingKind.UNSURE and f.why]
            return [CallFinding(FindingKind.UNSURE, "; ".join([*effects[:1], why]))]
        return [
            CallFinding(FindingKind.PERMITTED, f"the rule {rule.text!r} allows it"),
            *(f for f in found if f.kind in LOOKING),
        ]

    def _cd(self, argv: list[str]) -> list[CallFinding]:
        words = [word for word in argv[1:] if word not in ("-P", "-L", "--", "-e")]
        if len(words) != 1 or words[0].startswith("-"):
            return [
                CallFinding(
                    FindingKind.READS_BEYOND, "where it goes is not known, or is the home folder"
                )
            ]
        return [self.ground.reads_names(words[0])]
