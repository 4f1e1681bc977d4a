"""Normalization of a clause to command order: without bullets and pictures, with leading phrases
moved behind the command.

Entry points: `without_bullet`, `without_symbols`, `job_last`, `day_last`.
"""

from __future__ import annotations

from datetime import date

from treadle.apps.assistant.language.asides import PRIORITY
from treadle.apps.assistant.language.clauses import Clause
from treadle.apps.assistant.language.dates import day_at
from treadle.apps.assistant.language.phrases import known
from treadle.apps.assistant.language.verbs import ACTIONS, closed, head_at, opened
from treadle.apps.assistant.language.wording import Token, Words, keys_of

_BULLETS = known("+ - * • \u2013 — >")


def without_bullet(clause: Clause) -> Clause:
    """Convert "+ milk" to "add milk"."""
    if clause.words[0].key not in _BULLETS or len(clause.words) < 2:
        return clause
    added = [clause.words[1]._replace(text="add", key="add")] if clause.words[0].key == "+" else []
    return Clause([*added, *clause.words[1:]], None)


def job_last(words: Words) -> list[Token]:
    """Convert "my task for tonight is to pack" to "remind me to pack for tonight"."""
    keys = keys_of(words[:10])
    job = (
        len(keys) > 4
        and keys[0] in ("my", "our", "the")
        and any(key in ("task", "job", "plan", "goal", "todo", "mission") for key in keys[1:3])
    )
    to = (
        next((i for i in range(2, len(keys) - 1) if keys[i : i + 2] == ["is", "to"]), None)
        if job
        else None
    )
    if to is None:
        return list(words)
    when = next(
        (i for i in range(1, to) if keys[i] in ("for", "on", "today", "tonight", "tomorrow")), to
    )
    return [words[0]._replace(text="add", key="add"), *words[to + 2 :], *words[when:to]]


def without_symbols(words: Words) -> list[Token]:
    """Remove pictures after a command, except those in titles and those that mean "done"."""
    kept, head = list(words), head_at(keys_of(words), 0)
    if head is None or head.kind in ("add", "remind", "update"):
        return kept
    end = max(closed(keys_of(kept)), 1)
    return kept[:end]


def day_last(words: Words, today: date) -> list[Token]:
    """Move a leading phrase behind the command: "Tomorrow I need to call mum", "high priority: call
    mum".
    """
    keys = keys_of(words[:16])
    skipped = 1 if keys[0] in ("on", "by", "for", "before", "due") else 0
    day = day_at(keys, skipped, today) if head_at(keys, 0) is None else None
    ahead = skipped + day[0] if day is not None else 0
    if ahead == 0 and (level := PRIORITY.at(keys)) is not None and words[level[0] - 1].stop == ":":
        ahead = level[0]
    if ahead == 0 or ahead >= len(words):
        return list(words)
    start = ahead + opened(keys[ahead:])
    head = head_at(keys, start)
    if (
        (head is None or head.kind not in ("add", "remind"))
        and keys[start : start + 1] != []
        and keys[start] not in ACTIONS
    ):
        return list(words)
    moved = [*words[start:], *words[:ahead]]
    moved[-1] = moved[-1]._replace(stop="")
    return moved
