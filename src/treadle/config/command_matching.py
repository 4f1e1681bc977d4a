"""Matching of commands by rules, in any spelling. Entry points: `begins_with`, `is_meant_by`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.config.rule import PermissionRule


def begins_with(rule: PermissionRule, argv: Sequence[str]) -> bool:
    """Return True if the command begins with the rule's exact words, as allow rules require."""
    return tuple(argv[: len(rule.words)]) == rule.words


_SAME: dict[str, dict[str, str]] = {
    "rm": {"--recursive": "r", "--force": "f", "R": "r"},
    "cp": {"--recursive": "r", "--force": "f", "R": "r", "a": "r", "--archive": "r"},
    "mv": {"--force": "f"},
    "chmod": {"--recursive": "R"},
    "chown": {"--recursive": "R"},
    "git": {"--force": "f"},
    "kill": {"--signal": "s"},
    "docker": {"--force": "f"},
    "find": {},
}
"""Alternative spellings of options, by program."""

_ABBREVIATE = frozenset({"npm", "pnpm"})
"""Programs that accept abbreviated commands."""
_PLUMBING = {"send-pack": "push", "http-push": "push", "fetch-pack": "fetch", "http-fetch": "fetch"}
"""Git commands that do the work of another command."""


def is_meant_by(rule: PermissionRule, argv: Sequence[str]) -> bool:
    """Return True if the command matches the rule in any spelling and order, as deny and ask rules
    require.

    Prefers false positives, which only deny or ask.
    """
    program = program_of(argv[0]) if argv else ""
    if program != program_of(rule.words[0]):
        return False
    wanted_options, wanted = _sorted_out(program, rule.words[1:])
    words = [_PLUMBING.get(word, word) for word in argv[1:]] if program == "git" else argv[1:]
    if program in _ABBREVIATE:
        words = [
            next((full for full in wanted if full.startswith(word) and len(word) > 2), word)
            for word in words
        ]
    options, _ = _sorted_out(program, words)
    return wanted_options <= options and _followed(wanted, words) == len(wanted)


def may_be_meant_by(rule: PermissionRule, known: Sequence[str]) -> bool:
    """Return True if the rule could match a command that starts with the words `known`."""
    _, wanted = _sorted_out(program_of(rule.words[0]), rule.words[1:])
    return _followed(wanted, known[1:]) is not None


def program_of(word: str) -> str:
    """Return the normalized name of a program: /usr/bin/Curl is curl."""
    return word.rstrip("/").rsplit("/", 1)[-1].casefold().removesuffix(".exe")


def _sorted_out(program: str, words: Iterable[str]) -> tuple[frozenset[str], list[str]]:
    same = _SAME.get(program, {})
    options: set[str] = set()
    operands: list[str] = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name = word.split("=", 1)[0]
            spelled = next(
                (
                    full
                    for full in same
                    if full.startswith(name) and len(name) > (2 if program == "rm" else 3)
                ),
                name,
            )
            options.update(
                (same.get(spelled, spelled), word) if "=" in word else (same.get(spelled, spelled),)
            )
        elif word.startswith("-") and len(word) > 1:
            options.update(
                (same.get(c, c) for c in word[1:])
                if not _is_long_with_one_dash(program, word)
                else (word,)
            )
        else:
            operands.append(word)
    return frozenset(options), operands


def _is_long_with_one_dash(program: str, word: str) -> bool:
    return program in ("find", "java", "go", "terraform", "openssl") and len(word) > 2


def _followed(wanted: Sequence[str], words: Sequence[str]) -> int | None:
    """Return the number of the rule's operands with which the command begins; None if another
    operand comes first. Options, and words that may be their values, are ignored.
    """
    i, after_option = 0, False
    for word in words:
        if i == len(wanted):
            break
        if word == wanted[i]:
            i, after_option = i + 1, False
        elif word.startswith("-") and len(word) > 1:
            after_option = True
        elif after_option:
            after_option = False
        else:
            return None
    return i
