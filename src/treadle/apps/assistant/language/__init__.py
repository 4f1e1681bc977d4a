"""Rule-based parsing of English task talk: a message and its conversation become wishes.

    understanding.py   the whole message, command by command; clauses.py: splitting into commands;
                       wishes.py: the results as values
    wording.py         tokenization; phrases.py, verbs.py: tables of phrases; spelling.py: typing
                       errors
    commands.py        one clause that begins with a verb of command
    adding.py          new tasks; asides.py: fields next to a title; values.py, dates.py,
                       written_dates.py: a day, a priority, a text
    changing.py        changes by command; field_changes.py: their fields; stating.py, telling.py,
                       afterthoughts.py: changes without a command
    questions.py       requests for lists; listing.py, periods.py: filters
    targets.py         references to tasks; acting.py: resolution by the list; conversation.py: by
                       the conversation; answers.py: by an answer
    acting.py          wishes as calls of the tools; talk.py: replies without calls
    ordering.py        normalization of the word order of a clause

Contains no tasks, tools or models, only tables of words and the order in which they apply. Entry
point: `understood`.
"""

from __future__ import annotations

from treadle.apps.assistant.language.understanding import understood as understood
from treadle.apps.assistant.language.wishes import Understood as Understood
from treadle.apps.assistant.language.wishes import Wish as Wish
