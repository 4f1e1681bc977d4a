"""The models that a conversation can be switched to, each with the rules of whoever serves it.

Entry: `TARGETS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.models.switching.overheard import Listening
from tests.models.switching.rules import anthropic, gemini, openai_chat, openai_responses
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.models.model import Model
from treadle.models.providers.anthropic import AnthropicModel
from treadle.models.providers.gemini import GeminiModel
from treadle.models.providers.openai_chat import ChatModel
from treadle.models.providers.openai_chat.servers import OTHER, server_at
from treadle.models.providers.openai_responses import OpenAIResponsesModel

MODEL = "model-of-the-test"


@dataclass(frozen=True)
class Target:
    wire: str
    make: Callable[..., Model]
    broken: Callable[[dict[str, Any]], list[str]]

    def model(self, abilities: Abilities = UNKNOWN) -> Model:
        return self.make(MODEL, connection=Listening(), abilities=abilities)


TARGETS = {
    "anthropic": Target("anthropic", AnthropicModel, anthropic.broken),
    "openai": Target("openai", OpenAIResponsesModel, openai_responses.broken),
    "chat of OpenAI": Target(
        "openai-chat",
        partial(ChatModel, server=server_at("https://api.openai.com/v1")),
        openai_chat.broken,
    ),
    "chat of Mistral": Target(
        "openai-chat",
        partial(ChatModel, server=server_at("https://api.mistral.ai/v1")),
        partial(openai_chat.broken, call_id=re.compile(r"[a-zA-Z0-9]{9}"), user_after_tools=False),
    ),
    "chat of anyone": Target(
        "openai-chat",
        partial(ChatModel, server=OTHER),
        partial(openai_chat.broken, call_id=re.compile(r"[\x21-\x7e]{1,64}")),
    ),
    "gemini": Target("gemini", GeminiModel, gemini.broken),
}
