"""Hidden commands: programs that a line could run although no command in it names them, through
expansions, evaluated text, or input from other programs.

The contents of scripts and of interpreters' code are not examined. Entry points: `may_run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from treadle.config.command_matching import may_be_meant_by, program_of
from treadle.config.rule import PermissionRule
from treadle.policy.shell.find import read_find
from treadle.policy.shell.git import read_git, renames
from treadle.policy.shell.options import read_options
from treadle.policy.shell.programs import PROGRAMS
from treadle.policy.shell.script import ParsedCommand, Script
from treadle.policy.shell.words import ShellWord
from treadle.policy.shell.wrappers import MAX_INNER, SHELLS, unwrap

_READ_TEXT = SHELLS | {"eval", "source", "."}
"""Needed by: `cat f | ROW` (ask in mode full, deny `rm`)."""
_COPY = frozenset({"cp", "ln", "link", "install", "mv"})
"""Needed by: `ROW /bin/rm q` (ask in mode full, deny `rm`)."""
_WRITE = _COPY | {"touch", "mkdir", "tee", "truncate", "rm", "rmdir", "cd", "sed"}
"""Needed by: `ROW curl:x` (allow in mode full, deny `curl`)."""
_FEEDS = frozenset({"xargs", "parallel"})
"""Needed by: `ROW -I{} {} x` (ask in mode full, deny `rm`)."""
_QUOTES = str.maketrans("", "", "'\"\\")
_EXPANDS = re.compile(r"[$`*?\[{~]")


def may_run(rule: PermissionRule, text: str, script: Script) -> bool:
    """Return True if `text` could run a command that `rule` matches and that no command in `script`
    shows.
    """
    program = program_of(rule.words[0])
    mention = re.compile(rf"(?<![\w.-]){re.escape(program)}(?![\w-])", re.IGNORECASE)
    mentions = len(mention.findall(text.translate(_QUOTES)))
    if not script.is_whole:
        return mentions > 0 or _EXPANDS.search(text) is not None
    shown = sum(
        len(mention.findall(each.translate(_QUOTES)))
        for command in script.commands
        for each in _data(command, program)
    )
    return mentions > shown or any(_may_be(command, rule, program) for command in script.commands)


def _data(command: ParsedCommand, program: str) -> Iterator[str]:
    """Yield the texts of a command that are only data: no program runs or evaluates them."""
    argv = command.argv
    name = program_of(argv[0]) if argv else ""
    if _holds_data(argv, name) and not (
        name in _COPY and any(program_of(word) == program for word in argv)
    ):
        yield " ".join(argv)
    elif name == program:
        yield argv[0]
    if command.body is not None and name not in _READ_TEXT:
        yield command.body
    for redirect in command.redirects:
        if redirect.operator not in ("<<", "<<<"):
            yield redirect.target.value


def _holds_data(argv: list[str], name: str) -> bool:
    """Return True if the program is known to use its arguments only as data or paths."""
    if name == "printf" or name in _READ_TEXT:  # printf -v evaluates the name of a variable
        return False
    if name == "git":
        return read_git(argv[1:]).form != "unknown"
    if name == "find":
        return not read_find(argv[1:]).runs
    table = PROGRAMS.get(name)
    if table is None:
        return name in _WRITE
    return table.takes_anything or read_options(argv[1:], table.options).unknown is None


def _may_be(command: ParsedCommand, rule: PermissionRule, program: str) -> bool:
    words = command.words
    if not words:
        return False
    if not words[0].is_fixed:
        return True
    name = program_of(words[0].value)
    if program == "git" and name.startswith("git-"):
        return True
    if name == program:
        return (not _are_fixed(words) and may_be_meant_by(rule, _known(words))) or _renames(
            command.argv, rule
        )
    if name == "find":
        return any("{}" in run[0] for run in read_find(command.argv[1:]).runs if run)
    if name in _READ_TEXT:
        return (
            not _are_fixed(words)
            or any(r.operator == "<<" and not r.target.is_literal for r in command.redirects)
            or _reads_what_is_fed(command)
        )
    wrapped = unwrap(command.argv, name)
    if wrapped is None:
        return False
    if name in _FEEDS:
        return not wrapped.commands or any(
            _may_be_fed(inner, command.argv, program) for inner in wrapped.commands
        )
    return not _are_fixed(words) or any(_inner_may_be(inner, rule, 0) for inner in wrapped.commands)


def _inner_may_be(argv: list[str], rule: PermissionRule, depth: int) -> bool:
    """Apply `_may_be` to a command of known words that a wrapper runs."""
    if depth > MAX_INNER or _renames(argv, rule):
        return True
    wrapped = unwrap(argv, program_of(argv[0]))
    return wrapped is not None and any(
        inner and _inner_may_be(inner, rule, depth + 1) for inner in wrapped.commands
    )


def _renames(argv: list[str], rule: PermissionRule) -> bool:
    """Return True if git could run a command that `rule` matches under another name, or through
    another command.
    """
    if not (program_of(argv[0]) == "git" == program_of(rule.words[0])) or len(rule.words) < 2:
        return False
    return renames(argv[1:]) or (
        read_git(argv[1:]).form == "unknown" and any(rule.words[1] in word for word in argv[2:])
    )


def _may_be_fed(inner: list[str], argv: list[str], program: str) -> bool:
    """Return True if xargs could run `program` by combining `inner` with its input."""
    name = program_of(inner[0])
    replaced = (
        any(word.startswith(("-I", "-i", "-J", "--replace")) for word in argv)
        or argv[0] == "parallel"
    )
    return (
        name in _READ_TEXT | {program}
        or unwrap(inner, name) is not None
        or (replaced and not name.isalnum())
        or f"-I{inner[0]}" in "".join(argv)
    )


def _reads_what_is_fed(command: ParsedCommand) -> bool:
    """Return True if a shell without a script reads commands from a pipe, unless the input is an
    `echo` of literal words.
    """
    source = command.fed_by
    if source is None or any(not word.value.startswith("-") for word in command.words[1:]):
        return False
    return not (source.words and source.words[0].value == "echo" and _are_fixed(source.words))


def _are_fixed(words: list[ShellWord]) -> bool:
    return all(word.is_fixed for word in words)


def _known(words: list[ShellWord]) -> list[str]:
    """Return the words before the first unknown one."""
    known: list[str] = []
    for word in words:
        if not word.is_fixed:
            break
        known.append(word.value)
    return known
