"""Claude, and whatever else speaks Anthropic's Messages API (model.py).

What a request's bytes are stands in request.py, schemas.py, thinking.py, images.py, compaction.py
and messages.py, what the events of an answer mean in events.py, blocks.py and stream.py, its list
of models in models_list.py, and clients of the official SDK in sdk.py. Entry: `AnthropicModel`,
`connect`.
"""

from __future__ import annotations

from treadle.models.providers.anthropic.model import AnthropicModel as AnthropicModel
from treadle.models.providers.anthropic.model import connect as connect
from treadle.models.providers.anthropic.model import model_over as model_over
from treadle.models.providers.anthropic.models_list import list_models as list_models
