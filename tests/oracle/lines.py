"""All lines of one seed: the corpora, the grammar, mutants of what was allowed before. Entry:

`chunk`.
"""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.oracle.grammar import Grammar
from tests.oracle.mutants import mutant
from tests.oracle.spelling import Speller

CHUNK = 2_000
"""Lines that follow from one number: what came before them does not count."""
CORPUS = Path(__file__).parents[2] / "../shared/attacks/shell.jsonl"
_TABLES = ("policy/shell", "policy")
MOST_CHARACTERS = 40_000


@cache
def corpus() -> tuple[str, ...]:
    """The command lines of the attack corpus beside the checkout; none where it is absent."""
    return (
        tuple(json.loads(line)["input"] for line in CORPUS.read_text().splitlines())
        if CORPUS.exists()
        else ()
    )


@cache
def tables() -> tuple[str, ...]:
    """The strings of the policy's own tests, in so far as they may be command lines."""
    found: dict[str, None] = {}
    for folder in _TABLES:
        for path in sorted((Path(__file__).parents[1] / folder).glob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found |= dict.fromkeys(
                        [node.value, *node.value.split("\n")]
                        if "\n" in node.value
                        else [node.value]
                    )
    return tuple(text for text in found if text and "\0" not in text and len(text) < 2_000)


class Chunk:
    """The lines of one number. Tell it which of them were allowed: they are the parents of mutants."""

    def __init__(self, seed: int, number: int) -> None:
        self._speller = Speller(random.Random(f"{seed}:{number}"))
        self._grammar = Grammar(self._speller)
        self._allowed: list[str] = []

    def allowed(self, line: str) -> None:
        if len(line) < 1_000:
            self._allowed.append(line)

    def __iter__(self) -> Iterator[str]:
        chance, one = self._speller.chance, self._speller.one
        old = (*corpus(), *tables())
        for _ in range(CHUNK):
            at = chance.random()
            if at < 0.03 and old:
                line = one(old)
            elif at < 0.1 and old:
                line = mutant(self._speller, one(old), old)
            elif at < 0.5 and self._allowed:
                line = mutant(self._speller, one(self._allowed), self._allowed)
            else:
                line = self._grammar.line()
            yield line.replace("\0", "")[:MOST_CHARACTERS]
