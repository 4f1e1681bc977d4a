"""Model lists in OpenAI's form, with the extensions of compatible servers: limits, abilities and
prices.

OpenAI itself returns only ids. Servers are not identified: a field counts if it is present. Entry
points: `list_models`. Source: the pages of OpenRouter, Mistral, Groq, Together, Fireworks,
Moonshot, vLLM, llama.cpp and LM Studio (2026-11).
"""

from __future__ import annotations

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import Abilities, StructuredOutput
from treadle.errors import AgentError
from treadle.models.providers.connection import Connection
from treadle.models.providers.listing import (
    Fields,
    Listed,
    entries,
    fetched,
    first,
    flag,
    listed,
    mapping,
    number,
    tokens,
    words,
)
from treadle.models.providers.refusals import Refusals

_NO_LANGUAGE = frozenset(
    {"embedding", "embeddings", "image", "audio", "video", "rerank", "moderation", "transcribe"}
)
"""Types of models that do not take prompts."""
_LLAMA_CPP, _LM_STUDIO = "llamacpp", "organization_owner"
"""`owned_by` values that identify these servers."""


async def list_models(connection: Connection, endpoint: Endpoint) -> list[Listed]:
    """Return the language models at this address, from a single page. Raises AgentError."""
    refusals = Refusals(endpoint.credential)
    return await compatible_list(
        connection, entries(await fetched(connection, "/models", refusals)), refusals, root="/.."
    )


async def compatible_list(
    connection: Connection, found: list[Fields], refusals: Refusals, *, root: str
) -> list[Listed]:
    """Read list entries, with the additional data that two servers provide at other paths.

    `root`: path of the server relative to the connection's base URL: "" or "/..".
    """
    owners = {str(entry.get("owned_by")) for entry in found}
    if _LLAMA_CPP in owners and len(found) == 1:
        found = [{**found[0], "props": await _beside(connection, f"{root}/props", refusals)}]
    elif _LM_STUDIO in owners:
        fuller = await _beside(connection, f"{root}/api/v0/models", refusals)
        found = found if fuller is None else entries(fuller)
    return listed(found, compatible)


async def _beside(connection: Connection, path: str, refusals: Refusals) -> object:
    try:
        return await fetched(connection, path, refusals)
    except AgentError:  # the list is valid without it
        return None


def compatible(model_id: str, entry: Fields) -> Listed | None:
    """Read one entry. Returns None if it declares not to be a language model."""
    if not _talks(entry):
        return None
    pricing = mapping(entry, "pricing")
    return Listed(
        id=model_id,
        abilities=_abilities(entry),
        input_usd=first(_million(number(pricing, "prompt")), number(pricing, "input")),
        output_usd=first(_million(number(pricing, "completion")), number(pricing, "output")),
    )


def _million(usd: float | None) -> float | None:
    return None if usd is None else round(usd * 1e6, 6)


def _talks(entry: Fields) -> bool:
    if str(entry.get("type")) in _NO_LANGUAGE or False in (
        flag(mapping(entry, "capabilities"), "completion_chat"),
        flag(entry, "supports_chat"),
    ):
        return False
    output = words(mapping(entry, "architecture"), "output_modalities")
    return output is None or "text" in output


def _abilities(entry: Fields) -> Abilities:
    takes, props = words(entry, "supported_parameters"), mapping(entry, "props")
    asked = takes or frozenset()
    capable, named = mapping(entry, "capabilities"), words(entry, "capabilities") or frozenset()
    return Abilities(
        context_tokens=_context(entry, props),
        output_tokens=first(
            tokens(mapping(entry, "top_provider"), "max_completion_tokens"),
            tokens(entry, "max_completion_tokens"),
        ),
        images=first(
            _sees(entry), flag(mapping(props, "modalities"), "vision"), flag(capable, "vision")
        ),
        documents=_reads_files(entry),
        tools=first(
            None if takes is None else "tools" in asked,
            flag(mapping(props, "chat_template_caps"), "supports_tools"),
            flag(capable, "function_calling"),
            flag(entry, "supports_tools"),
            True if "tool_use" in named else None,
        ),
        temperature=None if takes is None else "temperature" in asked,
        reasoning=first(
            None if takes is None else not asked.isdisjoint(("reasoning", "reasoning_effort")),
            flag(entry, "supports_reasoning"),
        ),
        structured_output=None if takes is None else _structured(asked),
    )


def _context(entry: Fields, props: Fields) -> int | None:
    """Return the context size that the server accepts. The training size, and the largest size
    that could be loaded, may exceed it.
    """
    if entry.get("state") == "not-loaded":
        return None
    return first(
        tokens(mapping(props, "default_generation_settings"), "n_ctx"),
        tokens(mapping(entry, "top_provider"), "context_length"),
        tokens(entry, "loaded_context_length"),
        tokens(entry, "max_model_len"),
        tokens(mapping(entry, "meta"), "n_ctx"),
        tokens(entry, "context_length"),
        tokens(entry, "context_window"),
        tokens(entry, "max_context_length"),
    )


def _sees(entry: Fields) -> bool | None:
    modalities = words(mapping(entry, "architecture"), "input_modalities")
    if modalities is not None:
        return "image" in modalities
    kind = entry.get("type")
    return first(
        flag(entry, "supports_image_in"),
        flag(entry, "supports_image_input"),
        True if kind == "vlm" else False if kind == "llm" else None,
    )


def _reads_files(entry: Fields) -> bool | None:
    modalities = words(mapping(entry, "architecture"), "input_modalities")
    return None if modalities is None else "file" in modalities


def _structured(takes: frozenset[str]) -> StructuredOutput:
    return "native" if "structured_outputs" in takes else "tool" if "tools" in takes else "prompt"
