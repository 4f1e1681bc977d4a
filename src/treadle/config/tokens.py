"""Access tokens: those that a function of the program fetches, and those of Amazon Bedrock and
Vertex AI, which the vendors' own libraries make from the credentials of this machine.

models/providers/access_tokens.py keeps and renews them. Entry points: `AccessToken`,
`bedrock_tokens`, `vertex_tokens`, `own_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import msgspec
from typing_extensions import override

from treadle._internal.redaction import Redactor, Secret
from treadle.errors import AgentError


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """A struct whose repr redacts secrets, including those in URLs."""

    @override
    def __repr__(self) -> str:
        return Redactor().text(super().__repr__())


class AccessToken(Guarded, frozen=True, kw_only=True):
    """A token of a provider that expires.

    Attributes:
        value: The token.
        expires_in_s: Seconds for which it is valid from now on; None: until it is rejected.
    """

    value: Secret
    expires_in_s: float | None = None


TokenSource: TypeAlias = Callable[[], Awaitable[AccessToken | Secret]]
"""Async function that fetches a token."""


class OwnTokens(NamedTuple):
    """Tokens of a provider that Treadle knows by name."""

    source: TokenSource
    credential: str
    """Source of the tokens, for error messages."""


_BEDROCK = re.compile(r"https://bedrock-mantle\.([a-z0-9-]+)\.api\.aws")
_VERTEX = re.compile(r"https://(?:[a-z0-9-]+-)?aiplatform\.(?:[a-z]+\.rep\.)?googleapis\.com/.+")
_BEDROCK_LASTS = timedelta(minutes=15)
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def own_tokens(name: str, address: str) -> OwnTokens | None:
    """Return the tokens of a vendor's own address; None for other providers and addresses, which
    would get credentials that are not theirs.
    """
    if name == "bedrock" and (found := _BEDROCK.fullmatch(address)) is not None:
        return OwnTokens(bedrock_tokens(found[1]), "your AWS credentials")
    if name == "vertex" and _VERTEX.fullmatch(address) is not None:
        return OwnTokens(vertex_tokens(), "your Google credentials")
    return None


def bedrock_tokens(region: str) -> TokenSource:
    """Return a source of tokens for Amazon Bedrock in a region, for `Provider(token=…)`.

    AWS's library signs each token, valid for 15 minutes, with the credentials that its default
    chain finds: variables, profiles, roles. Needs the extra `bedrock`. A request raises
    AgentError(auth) if the library or the credentials are missing.
    """

    async def fetched() -> AccessToken:
        return await _in_a_thread(_bedrock_token, region)

    return fetched


def vertex_tokens() -> TokenSource:
    """Return a source of tokens for Vertex AI, for `Provider(token=…)`.

    Google's library fetches them with the application default credentials: a key file, `gcloud`, or
    the account of the machine. Needs the extra `vertex`. A request raises AgentError(auth) if the
    library or the credentials are missing.
    """

    async def fetched() -> AccessToken:
        return await _in_a_thread(_vertex_token)

    return fetched


async def _in_a_thread(fetch: Callable[..., AccessToken], *arguments: str) -> AccessToken:
    import anyio.to_thread  # noqa: PLC0415  only these tokens need it

    # both libraries may wait for the network
    return await anyio.to_thread.run_sync(fetch, *arguments, abandon_on_cancel=True)


def _bedrock_token(region: str) -> AccessToken:
    or_else = "or set AWS_BEARER_TOKEN_BEDROCK to a Bedrock API key"
    try:
        from aws_bedrock_token_generator import provide_token  # noqa: PLC0415  optional
    except ImportError:
        raise _missing("bedrock", f"AWS credentials need a library: {{}}, {or_else}") from None
    try:
        token: str = provide_token(region, expiry=_BEDROCK_LASTS)
    except Exception as e:
        reason = "were not found" if isinstance(e, RuntimeError) else f"failed ({type(e).__name__})"
        raise AgentError(
            "auth",
            f"the AWS credentials for Amazon Bedrock {reason}, so nothing was sent: check them "
            f"with `aws sts get-caller-identity`, {or_else}",
            sent=False,
        ) from e
    return AccessToken(value=Secret(token), expires_in_s=_BEDROCK_LASTS.total_seconds())


def _vertex_token() -> AccessToken:
    try:
        auth: Any = import_module("google.auth")
        requests: Any = import_module("google.auth.transport.requests")
    except ImportError:
        raise _missing("vertex", "Vertex AI needs a library for its tokens: {}") from None
    try:
        credentials, _ = auth.default(scopes=[_SCOPE])
        credentials.refresh(requests.Request())
    except Exception as e:
        raise AgentError(
            "auth",
            f"the Google credentials for Vertex AI failed ({type(e).__name__}), so nothing was "
            "sent: run `gcloud auth application-default login`, or set "
            "GOOGLE_APPLICATION_CREDENTIALS to a key file",
            sent=False,
        ) from e
    expiry: datetime | None = credentials.expiry
    lasts = None if expiry is None else expiry.replace(tzinfo=UTC) - datetime.now(UTC)
    return AccessToken(
        value=Secret(credentials.token),
        expires_in_s=None if lasts is None else lasts.total_seconds(),
    )


def _missing(extra: str, text: str) -> AgentError:
    return AgentError("auth", text.format(f"pip install 'treadle[{extra}]'"), sent=False)
