"""OpenAI's Responses API and compatible servers, used without stored state (model.py).

request.py, compaction.py, messages.py and content.py encode requests; events.py, response.py,
item.py, items.py, calls.py and stream.py decode responses. Entry points: `OpenAIResponsesModel`,
`connect`.
"""

from __future__ import annotations

from treadle.models.providers.compatible_list import list_models as list_models
from treadle.models.providers.openai_responses.model import (
    OpenAIResponsesModel as OpenAIResponsesModel,
)
from treadle.models.providers.openai_responses.model import connect as connect
from treadle.models.providers.openai_responses.model import model_over as model_over
