"""Judgement of sed and awk programs, which can also write files and run commands.

Entry points: `sed_writes`, `awk_acts`.
"""

from __future__ import annotations

import re

from treadle.policy.shell.options import Options

SED = Options(
    short="nrEsuzb",
    short_values="e",
    long=(
        "quiet silent regexp-extended expression= separate unbuffered null-data posix sandbox "
        "debug help version"
    ),
)
"""Options of sed except -i, which writes; -f, which reads a program from a file; and -l, which
takes a value only in some versions. Needed by: `sed -n 3p a.txt` (allow).
"""

AWK = Options(short_values="Fv", long="field-separator= assign= posix sandbox help version")
"""Needed by: `awk -F: '{print $1}' a.txt` (contained)."""

_BRACKETS = r"\[\^?(?:\[:[a-z]+:\]|[^][/\\\n^])(?:\[:[a-z]+:\]|[^][/\\\n])*\]"
"""A set of characters whose end all versions of sed agree on."""
_SET = re.compile(r"\[\^?(?:\[:[a-z]+:\]|[^][\\\n^])(?:\[:[a-z]+:\]|[^][\\\n])*\]")
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/(?:[^][/\\\n]|\\[^\n]|{_BRACKETS})*/[IM]*)"
_ADDRESSES = re.compile(rf"\s*(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS}))?)?\s*!*\s*")
_DELIMITERS = frozenset("/|,#@:%!_~+=;")
"""Needed by: `sed s/a/b/ a.txt` (allow)."""
_SIMPLE = re.compile(r"[pPdDgGhHnNxzl=]\d*|[qQ]\d*|[{}]")
_SUBSTITUTE_FLAGS = re.compile(r"[gpiImM0-9]*")
_END = re.compile(r"[ \t]*(?:[;\n}]|$|#[^\n]*)")
MAX_CHARS = 4_000


def sed_writes(program: str) -> str | None:
    """Return the reason why a sed program may do more than print; None if all its commands are
    known to be harmless.
    """
    if len(program) > MAX_CHARS:
        return "the sed program is too long to be judged"
    at = 0
    while at < len(program):
        if program[at] in " \t\n;":
            at += 1
            continue
        if program[at] == "#":
            at = (program + "\n").index("\n", at)
            continue
        found = _ADDRESSES.match(program, at)
        at = found.end() if found else at
        if at >= len(program):
            return "the sed program is not understood"
        end = _command_end(program, at)
        if end is None:
            return f"sed's {program[at]!r} may write a file or run a command"
        at = end
    return None


def _command_end(program: str, at: int) -> int | None:
    """Return the end of the command at `at`; None if the command may not be harmless."""
    c = program[at]
    if c in "sy":
        return _substitution_end(program, at)
    found = _SIMPLE.match(program, at)
    if found is None:
        return None
    if c in "{}":
        return found.end()
    end = _END.match(program, found.end())
    return None if end is None else found.end()


def _substitution_end(program: str, at: int) -> int | None:
    if at + 1 >= len(program) or program[at + 1] not in _DELIMITERS:
        return None
    delimiter, seen, i = program[at + 1], 0, at + 2
    while i < len(program) and seen < 2:
        c = program[i]
        if c == "\\":
            i += 2
            continue
        if c == "\n" and seen == 0:
            return None
        if c == "[" and seen == 0:
            brackets = _SET.match(program, i)
            if brackets is None or delimiter in brackets[0]:
                return None  # versions of sed disagree on its end
            i = brackets.end()
            continue
        if c == delimiter:
            seen += 1
        i += 1
    if seen < 2:
        return None
    flags = _SUBSTITUTE_FLAGS.match(program, i)
    end = flags.end() if flags and program[at] == "s" else i
    return end if _END.match(program, end) else None


_AWK_ACTS = re.compile(
    r"\bsystem\b|\bgetline\b|\bclose\b|\bfflush\b|@\s*\w|\bENVIRON\b|\bPROCINFO\b|\bARGV\b|\bextension\b|\|&?|\bSYMTAB\b"
)


def awk_acts(program: str) -> str | None:
    """Return the reason why an awk program may do more than print; None if it cannot. Searches
    strings and patterns like code.
    """
    if len(program) > MAX_CHARS:
        return "the awk program is too long to be judged"
    if (found := _AWK_ACTS.search(program.replace("||", " "))) is not None:
        return f"awk's {found[0]!r} may run a command, or read and write other files"
    if ">" in program.partition("print")[2] or ">>" in program:
        return "awk's print may write a file"
    return None
