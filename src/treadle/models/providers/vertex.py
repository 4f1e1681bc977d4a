"""Vertex AI: Gemini and Claude over their own APIs, and the models of others over Chat Completions,
below the address of a project and its location.

Entry points: `connect`, `model_over`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from typing_extensions import override

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError
from treadle.models.model import Model
from treadle.models.providers import anthropic
from treadle.models.providers.anthropic.connecting import API_VERSION
from treadle.models.providers.connection import Below, Connection, HttpReply
from treadle.models.providers.http import HttpConnection
from treadle.models.providers.identity import JSON_HEADERS, Identity, in_lower_case

if TYPE_CHECKING:
    from treadle.models.providers.listing import Listed

_CLAUDE = "claude-"
_KEY_FROM = "the token: Provider(token=…), or auth_token in the configuration"


def connect(
    *,
    api_key: str | None,
    auth_token: str | None,
    base_url: str | None,
    timeout_s: float,
    headers: Mapping[str, str],
) -> HttpConnection:
    """Create a connection that any number of models can share. Opens nothing yet.

    A token is sent as `Authorization: Bearer`, a key as `x-goog-api-key`. Raises AgentError: auth,
    invalid (the address).
    """
    who = Identity.of(
        "Vertex AI",
        (_KEY_FROM, _KEY_FROM),
        api_key=api_key,
        auth_token=auth_token,
        base_url=base_url,
    )
    ours = {**JSON_HEADERS, **({"x-goog-api-key": who.secret} if who.is_key else who.bearer)}
    return HttpConnection(base_url or "", {**ours, **in_lower_case(headers)}, timeout_s)


def model_over(
    connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
) -> Model:
    """Return a model, over the API that Vertex AI offers for it. An id with a slash, such as
    `meta/llama-4`, names its publisher.
    """
    if model_id.startswith(_CLAUDE):
        return anthropic.model_over(
            _RawPredict(connection, model_id), endpoint, model_id, abilities
        )
    if "/" in model_id:
        from treadle.models.providers import openai_chat  # noqa: PLC0415  as the model needs it

        below = Below(connection, "/endpoints/openapi")
        return openai_chat.model_over(below, endpoint, model_id, abilities)
    from treadle.models.providers import gemini  # noqa: PLC0415  as above

    below = Below(connection, "/publishers/google")
    return gemini.model_over(below, endpoint, model_id, abilities)


async def list_models(connection: Connection, endpoint: Endpoint) -> list[Listed]:
    """Raise AgentError(invalid): Vertex AI lists models by publisher, not those of a project."""
    raise AgentError(
        "invalid",
        f"Vertex AI lists no models for a project: name one, like {endpoint.name}:gemini-4-argon, "
        "from its Model Garden",
    )


class _RawPredict(Below):
    """Messages API in the form of Vertex AI: the path names the model, and the body the version."""

    def __init__(self, inner: Connection, model_id: str) -> None:
        super().__init__(inner, "/publishers/anthropic/models")
        self._asked_at = f"/{quote(model_id, safe='@.-')}:streamRawPredict"

    @override
    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HttpReply]:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        fields["anthropic_version"] = msgspec.Raw(msgspec.json.encode(API_VERSION))
        if path.endswith("/count_tokens"):
            return super().post("/count-tokens:rawPredict", msgspec.json.encode(fields), headers)
        del fields["model"]
        return super().post(self._asked_at, msgspec.json.encode(fields), headers)
