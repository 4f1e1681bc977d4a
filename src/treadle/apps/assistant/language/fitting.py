"""Which of the tasks that a look has shown a sentence speaks of, where it does not name one in the
words of its title.

"I bought the milk" is about "buy milk", "get milk" and "milk", but not about "drink milk". Entry:
`fitting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from treadle.apps.assistant.language.phrases import known
from treadle.apps.assistant.language.verbs import ACTIONS
from treadle.apps.assistant.language.wishes import Named
from treadle.apps.assistant.matching import folded, meant
from treadle.apps.assistant.stems import stem

_ALIKE = tuple(
    frozenset(map(stem, words.split()))
    for words in (
        "buy get grab order purchase pick fetch collect bring",
        "call phone ring dial",
        "email mail write message text send contact",
        "do finish complete make handle sort",
        "clean wash tidy wipe mop hoover vacuum sweep scrub dust",
        "repair fix mend",
        "see meet visit",
        "hand submit send deliver",
    )
)
"""Verbs that say the same of one thing."""
_ANY = frozenset(
    map(stem, known("do finish complete handle sort deal take go manage tackle settle"))
)
"""Verbs that say no more than that something is done."""


class Titled(Protocol):
    @property
    def title(self) -> str: ...


T = TypeVar("T", bound=Titled)


def fitting(named: Named, tasks: Sequence[T]) -> list[T]:
    """Those that are meant: all that fit equally well."""
    titles = [task.title for task in tasks]
    whole = meant(named.whole, titles)
    if whole or not named.verb:
        return [tasks[at] for at in whole]
    about = {stem(word) for word in folded(named.words)}
    return [
        tasks[at] for at in meant(named.words, titles) if _of_verb(named.verb, titles[at], about)
    ]


def _of_verb(verb: str, title: str, about: set[str]) -> bool:
    """Whether what the title says to do with the thing is what was done."""
    done = stem(folded(verb)[0])
    first = folded(title)[:1]
    if not first or stem(first[0]) in about or first[0] not in ACTIONS or done in _ANY:
        return True
    return any(done in alike and stem(first[0]) in alike for alike in _ALIKE)
