"""Whatever speaks Chat Completions: vLLM, Ollama, llama.cpp, LM Studio, OpenRouter, and hosted
models of many vendors (model.py).

What a request's bytes are stands in request.py and messages.py, what an answer means in events.py,
calls.py, reasoning.py and stream.py, and how servers differ in servers.py, as a table. Entry:
`ChatModel`, `connect`.
"""

from __future__ import annotations

from treadle.models.providers.compatible_list import list_models as list_models
from treadle.models.providers.openai_chat.model import ChatModel as ChatModel
from treadle.models.providers.openai_chat.model import connect as connect
from treadle.models.providers.openai_chat.model import model_over as model_over
