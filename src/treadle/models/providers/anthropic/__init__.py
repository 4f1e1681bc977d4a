"""Anthropic's Messages API, for Claude and compatible servers (model.py).

connecting.py connects; request.py, head.py, fields.py, caching.py, schemas.py, thinking.py,
compaction.py, messages.py and content.py encode requests; events.py, blocks.py, stream.py and
usage.py decode responses; remedies.py repeats rejected requests; models_list.py reads the list of
models, and sdk.py adapts clients of the official SDK. Entry points: `AnthropicModel`, `connect`.
"""

from __future__ import annotations

from treadle.models.providers.anthropic.connecting import connect as connect
from treadle.models.providers.anthropic.model import AnthropicModel as AnthropicModel
from treadle.models.providers.anthropic.model import model_over as model_over
from treadle.models.providers.anthropic.models_list import list_models as list_models
