"""Anthropic's list of models, with the abilities of each. Compatible servers often have OpenAI's
list instead.

known_models.py holds bundled data. Entry points: `list_models`. Source: the SDK's types (2.10), GET
/v1/models.
"""

from __future__ import annotations

from typing import get_args
from urllib.parse import quote

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import EFFORTS, Abilities, StructuredOutput, ThinkingType
from treadle.models.providers.compatible_list import compatible_list
from treadle.models.providers.connection import Connection
from treadle.models.providers.listing import (
    PAGES_MAX,
    Fields,
    Listed,
    entries,
    fetched,
    fields_of,
    flag,
    listed,
    mapping,
    tokens,
)
from treadle.models.providers.refusals import Refusals
from treadle.types import Effort

PAGE_MODELS = 1000
"""Maximum number of models per page."""


async def list_models(connection: Connection, endpoint: Endpoint) -> list[Listed]:
    """Return all models at this address, page by page. Raises AgentError."""
    refusals = Refusals(endpoint.credential, request_id="request-id")
    path = f"/v1/models?limit={PAGE_MODELS}"
    page = await fetched(connection, path, refusals)
    found = entries(page)
    if not any(entry.get("type") == "model" for entry in found):
        return await compatible_list(connection, found, refusals, root="")
    for _ in range(PAGES_MAX - 1):
        last = fields_of(page).get("last_id")
        if fields_of(page).get("has_more") is not True or not isinstance(last, str) or not last:
            break
        page = await fetched(connection, f"{path}&after_id={quote(last, safe='')}", refusals)
        found += entries(page)
    return listed(found, _model)


def _model(model_id: str, entry: Fields) -> Listed | None:
    """Read one entry. Returns None for a retired model."""
    return (
        None
        if entry.get("lifecycle") == "retired"
        else Listed(id=model_id, abilities=_abilities(entry))
    )


def _abilities(entry: Fields) -> Abilities:
    can = mapping(entry, "capabilities")
    return Abilities(
        context_tokens=tokens(entry, "max_input_tokens"),
        output_tokens=tokens(entry, "max_tokens"),
        images=_supported(can, "image_input"),
        documents=_supported(can, "pdf_input"),
        reasoning=_supported(can, "thinking"),
        thinking_types=_thinking_types(mapping(can, "thinking")),
        efforts=_efforts(can),
        compaction=_supported(mapping(can, "context_management"), "compact_20260112"),
        structured_output=_structured(_supported(can, "structured_outputs")),
    )


def _supported(can: Fields, name: str) -> bool | None:
    return flag(mapping(can, name), "supported")


def _thinking_types(thinking: Fields) -> tuple[ThinkingType, ...] | None:
    """Return the supported forms of thinking; None if the list is not complete, because others may
    be accepted.
    """
    types = mapping(thinking, "types")
    return (
        tuple(kind for kind in get_args(ThinkingType) if _supported(types, kind))
        if "disabled" in types
        else None
    )


def _efforts(can: Fields) -> tuple[Effort, ...] | None:
    if (supported := _supported(can, "effort")) is None:
        return None
    effort = mapping(can, "effort")
    return tuple(level for level in EFFORTS if supported and _supported(effort, level))


def _structured(supported: bool | None) -> StructuredOutput | None:
    """Return the kind of structured output. All of the models support tools, the only other way to
    force an answer.
    """
    return None if supported is None else "native" if supported else "tool"
