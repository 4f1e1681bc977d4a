"""Google's Gemini API (model.py).

naming.py interprets model ids; request.py, thinking.py and messages.py encode requests; chunks.py,
partial.py, endings.py and stream.py decode responses; models_list.py reads the list of
models. Entry points: `GeminiModel`, `connect`.
"""

from __future__ import annotations

from treadle.models.providers.gemini.model import GeminiModel as GeminiModel
from treadle.models.providers.gemini.model import connect as connect
from treadle.models.providers.gemini.model import model_over as model_over
from treadle.models.providers.gemini.models_list import list_models as list_models
