"""English task talk, understood by rules: a message and what was said before it become wishes.

    understanding.py   the whole message, command by command; clauses.py: where one ends; wishes.py:
                       what comes of them, as values
    wording.py         a text as words; phrases.py, verbs.py: tables of them; spelling.py: typing
                       errors
    adding.py          what is to be added; asides.py: what is said beside a title; values.py,
                       dates.py: a day, a priority, a text
    changing.py        what is changed; stating.py, telling.py, afterthoughts.py: the same, said
                       without a command
    questions.py       what is to be seen; listing.py, periods.py: of which tasks
    targets.py         which task is meant; acting.py: by what a look has shown; conversation.py:
                       by what was said before; answers.py: by an answer
    acting.py          wishes as calls of the tools; talk.py: what is answered in words alone

No tasks, no tools, no model here: tables of words as data, and the order in which they are read.
Entry: `understood`.

    ordering.py  A clause's words put into the order that commands have
"""

from __future__ import annotations

from treadle.apps.assistant.language.understanding import understood as understood
from treadle.apps.assistant.language.wishes import Understood as Understood
from treadle.apps.assistant.language.wishes import Wish as Wish
