"""Providers that work by name, without configuration: their addresses and the variables with their
keys. Entry points: `PRESETS`, `azure_address`.

Sources: the OpenAI compatibility pages of each vendor, and Azure's page on its v1 API (2026-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Preset(NamedTuple):
    """A provider that is known by name."""

    label: str
    """Display name."""
    base_url: str | None
    """Base URL; None if each customer has one."""
    key_variable: str = ""
    """Environment variable with the key; empty for a server on this machine, which needs none."""
    type: str = "openai-chat"
    """Wire protocol."""
    address_variable: str = ""
    """Environment variable with a customer's own address."""


PRESETS: Final[Mapping[str, Preset]] = {
    "openrouter": Preset("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "deepseek": Preset("DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "groq": Preset("Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Preset("Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "xai": Preset("xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
    "together": Preset("Together AI", "https://api.together.ai/v1", "TOGETHER_API_KEY"),
    "fireworks": Preset(
        "Fireworks AI", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"
    ),
    "azure": Preset(
        "Azure OpenAI", None, "AZURE_OPENAI_API_KEY", "openai", "AZURE_OPENAI_ENDPOINT"
    ),
    "ollama": Preset("Ollama", "http://127.0.0.1:11434/v1"),
    "llamacpp": Preset("llama.cpp", "http://127.0.0.1:8080/v1"),
    "lmstudio": Preset("LM Studio", "http://127.0.0.1:1234/v1"),
    "vllm": Preset("vLLM", "http://127.0.0.1:8000/v1"),
}

_AZURE_PATH = "/openai/v1"


def azure_address(endpoint: str) -> str:
    """Return the base URL of Azure's v1 API for the address of a resource, with or without path."""
    address = endpoint.rstrip("/")
    return address if address.endswith(_AZURE_PATH) else address + _AZURE_PATH
