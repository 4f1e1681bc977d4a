"""What the id of a Gemini model tells: where it is asked, and of which generation it is, since
generations are asked in different words.

What else is known of a model is known_models.py's. Entry: `resource_of`, `is_older`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

GENERATION_OF_LEVELS = (3, 0)
"""Since then a model is told how much to think by a level, checks the signatures of its calls, and
takes media inside a tool's result.
"""
GENERATION_OF_THOUGHTS = (2, 5)

_GENERATION = re.compile(r"gemini-(\d{1,3})(?:\.(\d{1,3}))?(?!\d)")
_COLLECTIONS = ("models/", "tunedModels/")


def resource_of(model_id: str) -> str:
    """As it stands in a path:

    `models/ID`, or `tunedModels/ID` where the id says so; what a path has no place for is escaped.
    """
    collection = next((c for c in _COLLECTIONS if model_id.startswith(c)), "")
    return (collection or _COLLECTIONS[0]) + quote(model_id.removeprefix(collection), safe="")


def generation_of(model_id: str) -> tuple[int, int] | None:
    """Like (3, 1); None where the id does not tell, as those of tuned models and
    `gemini-flash-latest`: taken for a new one.
    """
    found = _GENERATION.search(model_id.lower())
    return (int(found[1]), int(found[2] or 0)) if found else None


def is_older(model_id: str, generation: tuple[int, int]) -> bool:
    """Whether it is known to be of an earlier generation."""
    own = generation_of(model_id)
    return own is not None and own < generation
