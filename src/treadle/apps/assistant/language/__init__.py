"""Rule-based parsing of English task talk: a message and its conversation become wishes.

    understanding.py   the whole message, command by command; clauses.py: splitting into commands;
                       wishes.py: the results as values
    wording.py         tokens, tables of phrases, typing errors; verbs.py: words that begin commands
    reading.py         one clause: small talk, a command, a statement, a new task
    grammar.py         table of the sentences that change tasks; changing.py: their meanings
    adding.py          new tasks; fields.py, dates.py: a day, a priority, a text next to a title
    listing.py         requests for lists, and filters
    targets.py         references to tasks; acting.py: resolution by the list; conversation.py: by
                       the conversation; answers.py: by an answer
    acting.py          wishes as calls of the tools; talk.py: replies without calls

Contains no tasks, tools or models, only tables of words and the order in which they apply. Entry
point: `understood`.
"""

from __future__ import annotations

from treadle.apps.assistant.language.understanding import understood as understood
from treadle.apps.assistant.language.wishes import Understood as Understood
from treadle.apps.assistant.language.wishes import Wish as Wish
