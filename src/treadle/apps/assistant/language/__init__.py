"""Rule-based parsing of English task talk: a message and its conversation become wishes.

    understanding.py   a whole message and one clause of it; wishes.py: the results as values
    conversation.py    earlier messages, and small talk
    wording.py         tokens, tables of phrases, typing errors
    verbs.py           words that begin commands, splitting into commands
    grammar.py         table of the sentences that change tasks
    changing.py        the meanings of these sentences, and answers to questions
    adding.py          new tasks, with a day, a priority or a text next to the title; dates.py: days
    targets.py         references to tasks, filters and requests for lists
    acting.py          wishes as calls of the tools, resolved by the list

Contains no tasks, tools or models, only tables of words and the order in which they apply. Entry
point: `understood`.
"""

from __future__ import annotations

from treadle.apps.assistant.language.understanding import understood as understood
from treadle.apps.assistant.language.wishes import Wish as Wish
