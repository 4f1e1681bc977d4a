"""Gemini over Google's API (model.py).

What a model's id tells stands in naming.py, what a request's bytes are in request.py,
thinking.py and messages.py, what the pieces of an answer mean in chunks.py, partial.py and
stream.py, and its list of models in models_list.py. Entry: `GeminiModel`, `connect`.
"""

from __future__ import annotations

from treadle.models.providers.gemini.model import GeminiModel as GeminiModel
from treadle.models.providers.gemini.model import connect as connect
from treadle.models.providers.gemini.model import model_over as model_over
from treadle.models.providers.gemini.models_list import list_models as list_models
