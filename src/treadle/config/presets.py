"""Providers that work by name, without configuration: their addresses and the variables with their
keys. Entry points: `PRESETS`, `own_addresses`.

Sources: the OpenAI compatibility pages of each vendor, Azure's page on its v1 API, AWS's page on
the endpoint bedrock-mantle, and the hosts of Anthropic's SDK 2.11 for Vertex AI (2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    """Environment variable that a customer's own address is made from."""


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
    "bedrock": Preset("Amazon Bedrock", None, "AWS_BEARER_TOKEN_BEDROCK", "bedrock", "AWS_REGION"),
    "vertex": Preset("Vertex AI", None, type="vertex", address_variable="GOOGLE_CLOUD_PROJECT"),
    "ollama": Preset("Ollama", "http://127.0.0.1:11434/v1"),
    "llamacpp": Preset("llama.cpp", "http://127.0.0.1:8080/v1"),
    "lmstudio": Preset("LM Studio", "http://127.0.0.1:1234/v1"),
    "vllm": Preset("vLLM", "http://127.0.0.1:8000/v1"),
}

_AZURE_PATH = "/openai/v1"
_NAME = re.compile(r"(?:[a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]*")
"""Pattern of a region or location, and of a project, which may have a domain."""


def own_addresses(env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the providers that have an address for each customer, with this one's address and the
    variable that it comes from.
    """
    if endpoint := env.get("AZURE_OPENAI_ENDPOINT", "").strip().rstrip("/"):
        address = endpoint if endpoint.endswith(_AZURE_PATH) else endpoint + _AZURE_PATH
        yield "azure", address, "AZURE_OPENAI_ENDPOINT"
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if _NAME.fullmatch(region := env.get(variable, "").strip()):
            yield "bedrock", f"https://bedrock-mantle.{region}.api.aws", variable
            break
    project = env.get("GOOGLE_CLOUD_PROJECT", "").strip()
    place = env.get("GOOGLE_CLOUD_LOCATION", "").strip() or "global"
    if _NAME.fullmatch(project) and _NAME.fullmatch(place):
        host = {
            "global": "aiplatform.googleapis.com",
            "us": "aiplatform.us.rep.googleapis.com",
            "eu": "aiplatform.eu.rep.googleapis.com",
        }.get(place, f"{place}-aiplatform.googleapis.com")
        yield (
            "vertex",
            f"https://{host}/v1/projects/{project}/locations/{place}",
            ("GOOGLE_CLOUD_PROJECT"),
        )
