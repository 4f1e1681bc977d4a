"""Providers of OAuth as a user of ours takes them from the SDK, and a person who says yes to
everything. Entry: `provider_for`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

BACK = AnyUrl("http://localhost:3000/callback")
ABOUT_US = "https://conformance-test.local/client-metadata.json"


class Kept:
    """What a provider remembers, for this process."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


class Person:
    """Opens the page, agrees, and is sent back."""

    def __init__(self) -> None:
        self._back = ""

    async def opens(self, url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            self._back = (await browser.get(url, follow_redirects=False)).headers["location"]

    async def returns(self) -> AuthorizationCodeResult:
        words = {name: values[0] for name, values in parse_qs(urlsplit(self._back).query).items()}
        return AuthorizationCodeResult(
            code=words["code"], state=words.get("state"), iss=words.get("iss")
        )


async def provider_for(scenario: str, url: str, given: Mapping[str, Any]) -> httpx2.Auth:
    match scenario:
        case "auth/client-credentials-jwt":
            key = {
                "signing_algorithm": given.get("signing_algorithm", "ES256"),
                "signing_key": given["private_key_pem"],
            }
            signed = SignedJWTParameters(
                issuer=given["client_id"], subject=given["client_id"], **key
            )
            proof = signed.create_assertion_provider()
            return PrivateKeyJWTOAuthProvider(
                server_url=url,
                storage=Kept(),
                client_id=given["client_id"],
                assertion_provider=proof,
            )
        case "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(
                server_url=url,
                storage=Kept(),
                client_id=given["client_id"],
                client_secret=given["client_secret"],
                token_endpoint_auth_method="client_secret_basic",
            )
        case "auth/enterprise-managed-authorization":
            return await _of_an_enterprise(url, given)
        case _:
            return _of_a_person(url, given)


def _of_a_person(url: str, given: Mapping[str, Any]) -> OAuthClientProvider:
    person, kept = Person(), Kept()
    if client := given.get("client_id"):
        secret = given.get("client_secret")
        method = "client_secret_basic" if secret else "none"
        kept.info = OAuthClientInformationFull(
            client_id=client,
            client_secret=secret,
            redirect_uris=[BACK],
            token_endpoint_auth_method=method,
        )
    about = OAuthClientMetadata(
        client_name="treadle",
        redirect_uris=[BACK],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(
        server_url=url,
        client_metadata=about,
        storage=kept,
        redirect_handler=person.opens,
        callback_handler=person.returns,
        client_metadata_url=ABOUT_US,
    )


async def _of_an_enterprise(url: str, given: Mapping[str, Any]) -> IdentityAssertionOAuthProvider:
    """Its users know the issuer; the suite tells it in the server's metadata alone."""
    async with httpx2.AsyncClient() as asking:
        metadata = (
            (await asking.get(build_protected_resource_metadata_discovery_urls(None, url)[0]))
            .raise_for_status()
            .json()
        )

    async def assertion(audience: str, resource: str) -> str:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "subject_token": given["idp_id_token"],
            "client_id": given["idp_client_id"],
            "audience": audience,
            "resource": resource,
        }
        async with httpx2.AsyncClient() as asking:
            return (
                (await asking.post(given["idp_token_endpoint"], data=form))
                .raise_for_status()
                .json()["access_token"]
            )

    return IdentityAssertionOAuthProvider(
        server_url=url,
        storage=Kept(),
        client_id=given["client_id"],
        client_secret=given["client_secret"],
        issuer=metadata["authorization_servers"][0],
        assertion_provider=assertion,
        token_endpoint_auth_method="client_secret_basic",
    )
