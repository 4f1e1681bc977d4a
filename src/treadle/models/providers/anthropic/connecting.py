"""Connections to Anthropic's API with a key or a token. Entry point: `connect`."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.models.providers.http import TIMEOUT_S, HttpConnection
from treadle.models.providers.identity import JSON_HEADERS, Identity, in_lower_case

BASE_URL = "https://api.anthropic.com"
API_VERSION = "2026-10-21"
TOKEN_BETA = "oauth-2025-04-20"

KEY_FROM = "the key: ANTHROPIC_API_KEY, or api_key in the configuration"
_TOKEN_FROM = "the token: ANTHROPIC_AUTH_TOKEN, or auth_token in the configuration"


def connect(
    *,
    api_key: str | None = None,
    auth_token: str | None = None,
    base_url: str | None = None,
    timeout_s: float = TIMEOUT_S,
    headers: Mapping[str, str] | None = None,
) -> HttpConnection:
    """Create a connection that any number of models can share. Opens nothing yet. A base_url alone
    means a server without a key.

    Key and token are both sent as `Authorization: Bearer`: the vendor's SDK sends a key in this way
    with this API version (2.10, measured), so its gateways accept it too, and two headers for one
    key would matter only to old ones. `x-api-key` is not sent. `headers` (a gateway's) override
    ours. A token for Anthropic's own host also needs a beta header, which is not sent to gateways,
    because they may not know it.

    Raises AgentError: auth (no credentials, or they cannot be sent), invalid (the address).
    """
    who = Identity.of(
        "Anthropic",
        (KEY_FROM, _TOKEN_FROM),
        api_key=api_key,
        auth_token=auth_token,
        base_url=base_url,
    )
    ours = {**JSON_HEADERS, "anthropic-version": API_VERSION, **who.bearer}
    if not who.is_key and base_url in (None, BASE_URL, BASE_URL + "/"):
        ours["anthropic-beta"] = TOKEN_BETA
    return HttpConnection(base_url or BASE_URL, {**ours, **in_lower_case(headers)}, timeout_s)
