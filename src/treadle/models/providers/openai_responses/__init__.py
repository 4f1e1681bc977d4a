"""OpenAI, and whatever else speaks its Responses API, without anything being stored there
(model.py).

What a request's bytes are stands in request.py, compaction.py and messages.py, what the events of
an answer mean in events.py, item.py, items.py, calls.py and stream.py. Entry:
`OpenAIResponsesModel`, `connect`.
"""

from __future__ import annotations

from treadle.models.providers.compatible_list import list_models as list_models
from treadle.models.providers.openai_responses.model import (
    OpenAIResponsesModel as OpenAIResponsesModel,
)
from treadle.models.providers.openai_responses.model import connect as connect
from treadle.models.providers.openai_responses.model import model_over as model_over
