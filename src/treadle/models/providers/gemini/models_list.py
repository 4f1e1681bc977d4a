"""Google's list of models, with their token limits and whether they think.

known_models.py holds bundled data. Entry points: `list_models`. Source:
https://ai.google.dev/api/models (2026-11).
"""

from __future__ import annotations

from urllib.parse import quote

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import Abilities
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
    tokens,
    words,
)
from treadle.models.providers.refusals import Refusals

PAGE_MODELS = 1000
"""Maximum number of models per page."""
_COLLECTION = "models/"
_ASKED_BY = frozenset({"generateContent", "streamGenerateContent"})


async def list_models(connection: Connection, endpoint: Endpoint) -> list[Listed]:
    """Return all models at this address, page by page. Raises AgentError."""
    refusals = Refusals(endpoint.credential)
    path, found = f"/models?pageSize={PAGE_MODELS}", list[Fields]()
    asked = path
    for _ in range(PAGES_MAX):
        page = await fetched(connection, asked, refusals)
        found += entries(page, "models")
        following = fields_of(page).get("nextPageToken")
        if not isinstance(following, str) or not following:
            break
        asked = f"{path}&pageToken={quote(following, safe='')}"
    return listed(map(_with_id, found), _model)


def _with_id(entry: Fields) -> Fields:
    return {**entry, "id": str(entry.get("name") or "").removeprefix(_COLLECTION)}


def _model(model_id: str, entry: Fields) -> Listed | None:
    """Read one entry. Returns None if it declares that the model generates no text."""
    methods = words(entry, "supportedGenerationMethods")
    if methods is not None and methods.isdisjoint(_ASKED_BY):
        return None
    takes, gives = tokens(entry, "inputTokenLimit"), tokens(entry, "outputTokenLimit")
    return Listed(
        id=model_id,
        abilities=Abilities(
            context_tokens=takes, output_tokens=gives, reasoning=flag(entry, "thinking")
        ),
    )
