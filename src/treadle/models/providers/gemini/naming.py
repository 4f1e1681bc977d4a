"""Interpretation of Gemini model ids: the resource path, and the generation, which determines
request fields.

known_models.py holds other data. Entry points: `resource_of`, `is_older`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

GENERATION_OF_LEVELS = (3, 0)
"""First generation that takes thinking levels, checks the signatures of its calls, and accepts
media inside tool results.
"""
GENERATION_OF_THOUGHTS = (2, 5)

_GENERATION = re.compile(r"gemini-(\d{1,3})(?:\.(\d{1,3}))?(?!\d)")
_COLLECTIONS = ("models/", "tunedModels/")


def resource_of(model_id: str) -> str:
    """Return the resource path, `models/ID`, or `tunedModels/ID` if the id has that prefix. Special
    characters are escaped.
    """
    collection = next((c for c in _COLLECTIONS if model_id.startswith(c)), "")
    return (collection or _COLLECTIONS[0]) + quote(model_id.removeprefix(collection), safe="")


def generation_of(model_id: str) -> tuple[int, int] | None:
    """Return the generation, like (3, 1); None if the id does not contain it, as for tuned models
    and `gemini-flash-latest`, which are treated as new.
    """
    found = _GENERATION.search(model_id.lower())
    return (int(found[1]), int(found[2] or 0)) if found else None


def is_older(model_id: str, generation: tuple[int, int]) -> bool:
    """Return True if the model is known to be of an earlier generation."""
    own = generation_of(model_id)
    return own is not None and own < generation
