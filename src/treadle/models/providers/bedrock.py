"""Amazon Bedrock: Claude over the Messages API, and the models of others over Chat Completions, at
one address (`bedrock-mantle`).

Entry points: `connect`, `model_over`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import Abilities
from treadle.models.model import Model
from treadle.models.providers import anthropic
from treadle.models.providers.anthropic.connecting import API_VERSION
from treadle.models.providers.connection import Below, Connection
from treadle.models.providers.http import HttpConnection
from treadle.models.providers.identity import JSON_HEADERS, Identity, in_lower_case

if TYPE_CHECKING:
    from treadle.models.providers.listing import Listed

_CLAUDE = "anthropic."
_KEY_FROM = "the key: AWS_BEARER_TOKEN_BEDROCK, or api_key in the configuration"


def connect(
    *,
    api_key: str | None,
    auth_token: str | None,
    base_url: str | None,
    timeout_s: float,
    headers: Mapping[str, str],
) -> HttpConnection:
    """Create a connection that any number of models can share. Opens nothing yet.

    A Bedrock API key and a token are both sent as `Authorization: Bearer`. Raises AgentError: auth,
    invalid (the address).
    """
    who = Identity.of(
        "Amazon Bedrock",
        (_KEY_FROM, _KEY_FROM),
        api_key=api_key,
        auth_token=auth_token,
        base_url=base_url,
    )
    ours = {**JSON_HEADERS, "anthropic-version": API_VERSION, **who.bearer}
    return HttpConnection(base_url or "", {**ours, **in_lower_case(headers)}, timeout_s)


def model_over(
    connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
) -> Model:
    """Return a model, over the API that Bedrock offers for it."""
    if model_id.startswith(_CLAUDE):
        return anthropic.model_over(Below(connection, "/anthropic"), endpoint, model_id, abilities)
    from treadle.models.providers import openai_chat  # noqa: PLC0415  as the model needs it

    return openai_chat.model_over(Below(connection, "/v1"), endpoint, model_id, abilities)


async def list_models(connection: Connection, endpoint: Endpoint) -> list[Listed]:
    """Return the models of the region that this account may use. Raises AgentError."""
    from treadle.models.providers import openai_chat  # noqa: PLC0415  as above

    return await openai_chat.list_models(Below(connection, "/v1"), endpoint)
