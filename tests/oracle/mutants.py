"""Mutants of lines: characters and words inserted, removed, doubled and replaced, and two lines
spliced. Entry: `mutant`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.oracle.grammar import REDIRECTIONS, SEPARATORS, SOUP
from tests.oracle.languages import BAIT
from tests.oracle.programs import PAYLOADS
from tests.oracle.spelling import Speller

_CHARACTERS = "#;|&<>(){}[]$`'\"\\!*?~= \n\t-,:%@^+/.0123aex\r\x00\x01\x0b\x0c\x7f\x1b"
_STRANGE = (
    "\u00a0",
    "\u2028",
    "\u200b",
    "\udcff",
    "\udc80",
    "\udcc3",
    "\ufeff",
    "\u3000",
    "\x85",
    "\u0660",
    "é",
    "\ud800",
    "\u202e",
    "\U0001f600",
    "\uff04",
)
_TOKENS = re.compile(r"\s+|[\w./-]+|.", re.DOTALL)


def mutant(speller: Speller, line: str, others: Sequence[str]) -> str:
    """`line` after one to three changes; never with a null byte."""
    for _ in range(speller.one((1, 1, 1, 2, 2, 3))):
        line = _changed(speller, line, others)
    return line.replace("\0", "")


def _changed(speller: Speller, line: str, others: Sequence[str]) -> str:
    chance, one = speller.chance, speller.one
    at, kind = int(chance.random() * (len(line) + 1)), chance.random()
    if kind < 0.25:
        return line[:at] + one(_CHARACTERS) + line[at:]
    if kind < 0.35:
        return line[:at] + line[at + 1 + int(chance.random() * 2) :]
    if kind < 0.45:
        return line[:at] + one(_CHARACTERS) + line[at + 1 :]
    if kind < 0.49:
        return line[:at] + one(_STRANGE) + line[at:]
    if kind < 0.55:
        return line + one(SOUP) + one(SEPARATORS) + one(PAYLOADS)
    if kind < 0.6:
        return line[:at] + one(SOUP) + line[at:]
    if kind < 0.66:
        other = one(others)
        return line[:at] + other[int(chance.random() * (len(other) + 1)) :]
    tokens = _TOKENS.findall(line) or [""]
    i = int(chance.random() * len(tokens))
    if kind < 0.72:
        tokens.insert(i, tokens[i])
    elif kind < 0.77:
        del tokens[i]
    elif kind < 0.82:
        j = int(chance.random() * len(tokens))
        tokens[i], tokens[j] = tokens[j], tokens[i]
    elif kind < 0.9:
        tokens[i] = (
            speller.word(tokens[i])
            if not tokens[i].isspace()
            else one((" ", "\t", "\n", "", "\\\n"))
        )
    elif kind < 0.96:
        tokens.insert(
            i, f" {speller.usual(one(BAIT)) if speller.maybe(0.6) else speller.word(one(BAIT))} "
        )
    else:
        tokens.insert(i, f" {one(REDIRECTIONS)} ")
    return "".join(tokens)
