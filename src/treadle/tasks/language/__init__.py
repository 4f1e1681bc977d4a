"""English task talk, understood by rules: a message and what was said before it become wishes.

No tasks, no tools, no model here: tables of words as data, and the order in which they are read. Entry: `understood`.
"""

from __future__ import annotations

from treadle.tasks.language.understanding import understood as understood
from treadle.tasks.language.wishes import Understood as Understood
from treadle.tasks.language.wishes import Wish as Wish
