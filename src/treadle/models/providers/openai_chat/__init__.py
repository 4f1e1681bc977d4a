"""The Chat Completions API: vLLM, Ollama, llama.cpp, LM Studio, OpenRouter, and hosted models of
many vendors (model.py).

request.py and messages.py encode requests; events.py, calls.py, reasoning.py and stream.py decode
responses; servers.py is a table of differences between servers. Entry points: `ChatModel`,
`connect`.
"""

from __future__ import annotations

from treadle.models.providers.compatible_list import list_models as list_models
from treadle.models.providers.openai_chat.model import ChatModel as ChatModel
from treadle.models.providers.openai_chat.model import connect as connect
from treadle.models.providers.openai_chat.model import model_over as model_over
