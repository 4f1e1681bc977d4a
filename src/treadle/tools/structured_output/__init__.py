"""Typed answers: from a type or a JSON Schema to what the model is told, and from its words to a
value.

Which family a type belongs to, and what is refused at once: kinds.py. What all have in common,
lazily: answer.py; what a family does: shape.py. The families: typed.py (whatever pydantic knows),
structs.py (msgspec's Structs), given.py (a JSON Schema). JSON among a model's words: words.py; the
beginning of a text: beginning.py. Roots that providers take: roots.py. Entry: `answer_type`.

    contract.py  what a typed answer
"""

from __future__ import annotations

from treadle.tools.structured_output.kinds import answer_type as answer_type
