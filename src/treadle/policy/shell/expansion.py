"""Arguments of a command after the expansion of patterns to file names. Entry point: `expanded`."""

from __future__ import annotations

import os
import re

from treadle.policy.guarded_paths import may_name_a_secret
from treadle.policy.shell.globs import TooManyNames, expand
from treadle.policy.shell.ground import MAX_PATHS, Ground
from treadle.policy.shell.script import ParsedCommand
from treadle.policy.shell.words import ShellWord


def expanded(command: ParsedCommand, ground: Ground, most: int) -> list[list[str]]:
    """Return the argument lists that the program may receive, one for each possible working
    directory; empty if they are unknown.

    `most`: maximum number of words; longer commands are not expanded.
    """
    if (
        not command.words
        or len(command.words) > most
        or not all(word.is_literal for word in command.words)
    ):
        return []
    if not any(word.has_glob for word in command.words):
        return [command.argv]
    if ground.names_left < 0:
        return []
    found: list[list[str]] = []
    try:
        for cwd in ground.cwds:
            names = [
                [word.value] if not word.has_glob else _names(word, cwd, ground)
                for word in command.words
            ]
            found.append([name for each in names for name in each])
            ground.names_left -= len(found[-1])
            if ground.names_left < 0:
                return []
    except TooManyNames:
        return []
    return found


def _names(word: ShellWord, cwd: str, ground: Ground) -> list[str]:
    if word.wild is None:
        if (others := _matched(word.value, ground)) is None:
            raise TooManyNames
        return others
    names = expand(word.value, word.wild, cwd, ground.reach.is_inside)
    if any(name.startswith("-") for name in names) and names != [word.value]:
        # the name would act as an option, at a position that depends on bash's sort order
        raise TooManyNames
    return names


def _matched(pattern: str, ground: Ground) -> list[str] | None:
    import glob  # noqa: PLC0415  needed only for patterns

    if (
        may_name_a_secret(pattern)
        or pattern.count("*") > 4
        or pattern.startswith(("-", "*-"))
        or "**" in pattern
    ):
        return None
    found: list[str] = []
    for cwd in ground.cwds:
        at = os.path.join(cwd, pattern)
        if not ground.reach.is_inside(
            os.path.realpath(os.path.dirname(re.split(r"[*?\[]", at)[0] + "x"))
        ) or not _few_entries(at):
            return None
        found += [
            os.path.relpath(place, cwd) if not pattern.startswith("/") else place
            for place in glob.iglob(at)
        ]
        if len(found) > MAX_PATHS:
            return None
    names = [
        name if name.startswith(("/", "./", "../")) or not name.startswith("-") else f"-{name}"
        for name in dict.fromkeys(found)
    ]
    return names or [pattern]


def _few_entries(pattern: str) -> bool:
    """Return True if the first folder that a pattern searches is small."""
    top = os.path.dirname(re.split(r"[*?\[]", pattern)[0] + "x")
    deep = "/" in pattern[len(top) + 1 :]
    try:
        with os.scandir(top) as entries:
            return sum(1 for _ in zip(entries, range(401), strict=False)) <= (40 if deep else 400)
    except OSError:
        return True
