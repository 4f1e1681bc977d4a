"""Arguments of a program after bash has expanded patterns to names of files. Entry point:
`expanded`.
"""

from __future__ import annotations

from treadle.policy.shell.globs import TooManyNames, expand
from treadle.policy.shell.ground import Ground
from treadle.policy.shell.simple import SimpleCommand
from treadle.policy.shell.syntax import ParsedCommand
from treadle.policy.shell.words import ShellWord


def expanded(
    command: ParsedCommand, ground: Ground, simple: SimpleCommand, most: int
) -> list[list[str]]:
    """List the words that the program is given, for each folder that the command may run in;
    nothing where that is not known.

    `most`: words of a command; one with more is not looked at.
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
                [word.value] if not word.has_glob else _names(word, cwd, ground, simple)
                for word in command.words
            ]
            found.append([name for each in names for name in each])
            ground.names_left -= len(found[-1])
            if ground.names_left < 0:
                return []
    except TooManyNames:
        return []
    return found


def _names(word: ShellWord, cwd: str, ground: Ground, simple: SimpleCommand) -> list[str]:
    if word.wild is None:
        if (others := simple.expanded(word.value)) is None:
            raise TooManyNames
        return others
    names = expand(word.value, word.wild, cwd, ground.reach.is_inside)
    if any(name.startswith("-") for name in names) and names != [word.value]:
        # it would be an option, and where it stands among the others is for bash to say
        raise TooManyNames
    return names
