"""Resolution of a provider's address, key and headers, including which of several keys is used.

models/providers/http.py connects; layers.py merges the settings. Entry points: `reach`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from treadle._internal.redaction import Secret
from treadle.config.keys import VENDORS
from treadle.config.model_profile import Abilities
from treadle.config.plugins import offers
from treadle.config.presets import PRESETS
from treadle.config.readers import Wrong, base_url, credential
from treadle.config.tokens import Guarded, TokenSource, own_tokens
from treadle.errors import AgentError

CredentialField: TypeAlias = Literal["api_key", "auth_token"]

AGENT_KEY = "TREADLE_AGENT_API_KEY"
VENDOR_KEYS: Mapping[str, tuple[tuple[str, CredentialField], ...]] = {
    "anthropic": (("ANTHROPIC_API_KEY", "api_key"), ("ANTHROPIC_AUTH_TOKEN", "auth_token")),
    "openai": (("OPENAI_API_KEY", "api_key"),),
    "openai-chat": (("OPENAI_API_KEY", "api_key"),),
    "gemini": (("GEMINI_API_KEY", "api_key"), ("GOOGLE_API_KEY", "api_key")),
}
"""Environment variables by provider type. The first one set is used."""


LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}")


class Provider(Guarded, frozen=True, kw_only=True):
    """Settings of one provider, from the configuration and the environment.

    Attributes:
        type: Wire protocol: one of VENDORS.
        api_key: Key for the provider's API.
        auth_token: Token in place of a key, sent as `Authorization: Bearer`.
        token: Async function that fetches a token, in place of a key or `auth_token`. Called when a
            request needs a new one.
        http_proxy: Address of an HTTP proxy to this provider, in place of the environment's.
        base_url: Address of the API; None for the vendor's own.
        server: Server software at the address, if it cannot be detected: a row name in
            openai_chat/servers.py.
        preamble: First system block, sent on its own if `auth_token` is used.
        timeout_s: Maximum seconds without an event other than a ping.
        total_timeout_s: Maximum seconds for one response, from the request to its last byte; each
            retry starts again. None: no limit.
        model: Model selected by `provider: NAME` alone.
        headers: Additional headers, sent to that address only.
        abilities: Overrides of known abilities, by model id or by an id prefix with `*`.
    """

    type: str = ""
    api_key: Secret | None = None
    auth_token: Secret | None = None
    token: TokenSource | None = None
    http_proxy: str | None = None
    base_url: str | None = None
    server: str = ""
    preamble: str = ""
    timeout_s: float = 600
    total_timeout_s: float | None = None
    model: str | None = None
    headers: dict[str, Secret] = msgspec.field(default_factory=dict[str, Secret])
    abilities: dict[str, Abilities] = msgspec.field(default_factory=dict[str, Abilities])

    def __post_init__(self) -> None:
        """Raise AgentError(invalid) for a secret given as a str, because its repr would show it."""
        named: dict[str, object] = {
            "api_key": self.api_key,
            "auth_token": self.auth_token,
            **self.headers,
        }
        for name, value in named.items():
            if isinstance(value, str):
                where = (
                    f"{name}=" if name in ("api_key", "auth_token") else f"headers={{{name!r}: …}}"
                )
                raise AgentError(
                    "invalid", f"Provider({where}…) is a str: pass Secret('…'), from treadle.config"
                )


class Endpoint(Guarded, frozen=True, kw_only=True):
    """Everything a model needs to reach its provider.

    At most one of `api_key`, `auth_token` and `token` is set.
    """

    name: str
    type: str
    base_url: str | None
    """Base URL without a trailing slash; None for the vendor's own."""
    server: str = ""
    api_key: Secret | None
    auth_token: Secret | None
    token: TokenSource | None = None
    http_proxy: str | None = None
    key_origin: str
    """File with line, variable or argument that provided the key; "" if there is none."""
    preamble: str
    timeout_s: float
    total_timeout_s: float | None = None
    headers: dict[str, Secret]

    @property
    def credential(self) -> str:
        """Description of where the key came from, for error messages."""
        if self.key_origin.startswith("your "):
            return self.key_origin
        return (
            f"the key of {self.key_origin}"
            if self.key_origin
            else f"the key: providers.{self.name}.api_key in the configuration"
        )

    @property
    def kind(self) -> Literal["api_key", "auth_token", "none"]:
        return "api_key" if self.api_key else "auth_token" if self.auth_token else "none"


def reach(
    name: str,
    provider: Provider,
    origin: Callable[[str], str],
    *,
    argument: tuple[CredentialField, str] | None = None,
    to_ask: bool = True,
    files: bool = True,
) -> Endpoint:
    """Resolve an endpoint from a key given as an argument, or else from `provider`, whose key takes
    precedence over its token.

    `origin` returns the source of a provider's field. `to_ask`: False if no request will be sent,
    so that no key is needed; local servers need none either. `files`: True if configuration files
    are read, so that error messages can suggest them. Raises AgentError: invalid for a value that
    cannot be sent, auth if the key is missing.
    """
    field: CredentialField = (
        argument[0] if argument else "api_key" if provider.api_key else "auth_token"
    )
    token = None if argument else provider.token
    fixed = None if token is not None else provider.api_key or provider.auth_token
    key = Secret(argument[1]) if argument else fixed
    source = f"{field}=" if argument else origin(field)
    if key:
        key = Secret(_usable(credential, key.reveal(), f"{source}: the key of {name!r}"))
    address = provider.base_url
    if address:
        address = _usable(base_url, address, f"{origin('base_url')}: the base URL of {name!r}")
    preset = PRESETS.get(name)
    if preset is not None and address is None:
        raise AgentError("invalid", _no_address(name, preset.address_variable, files=files))
    own = own_tokens(name, address) if address and not (key or token) else None
    if to_ask and key is None and token is None and own is None:
        _check_open(name, provider.type, address, origin("base_url"), files=files)
    return Endpoint(
        name=name,
        type=provider.type,
        base_url=address,
        server=provider.server,
        api_key=key if field == "api_key" else None,
        auth_token=key if field == "auth_token" else None,
        token=own.source if own else token,
        http_proxy=provider.http_proxy,
        key_origin=source if key else "token=" if token else own.credential if own else "",
        preamble=provider.preamble,
        timeout_s=provider.timeout_s,
        total_timeout_s=provider.total_timeout_s,
        headers=provider.headers,
    )


def _check_open(name: str, wire: str, address: str | None, source: str, *, files: bool) -> None:
    """Raise AgentError(auth) if the server at this address needs a key."""
    preset = PRESETS.get(name)
    is_own = address is not None and not (
        preset is not None and (address == preset.base_url or source == preset.address_variable)
    )
    if needs_no_key(wire, address) if preset is None or is_own else not preset.key_variable:
        return
    raise AgentError("auth", _no_key(name, wire, own_address=is_own, files=files))


def key_variables(
    name: str, wire: str, *, own_address: bool
) -> tuple[tuple[str, CredentialField], ...]:
    """Return the variables that may provide the key.

    A vendor's key is sent to the vendor, and to other providers of its type only if they have no
    separate address.
    """
    if (preset := PRESETS.get(name)) is not None:
        is_theirs = preset.key_variable and not own_address
        return ((preset.key_variable, "api_key"),) if is_theirs else ()
    return (
        VENDOR_KEYS.get(wire, ())
        if (name in VENDORS and name != "openai-chat") or not own_address
        else ()
    )


def needs_no_key(wire: str, address: str | None) -> bool:
    """Return True for a local server, for a compatible one at its own address, which may not
    require a key, and for the wire of a plug-in, which requires one itself.
    """
    if wire not in VENDORS:
        return True
    return address is not None and (wire == "openai-chat" or on_this_machine(address))


def on_this_machine(address: str) -> bool:
    host = re.sub(r":\d*$", "", address.split("/")[2].rpartition("@")[2].lower())
    return (
        host in ("localhost", "[::1]")
        or host.endswith(".localhost")
        or bool(LOOPBACK.fullmatch(host))
    )


def _usable(read: Callable[[str], str], value: str, what: str) -> str:
    try:
        return read(value)
    except Wrong as e:
        raise AgentError("invalid", f"{what} must be {e.expected}") from None


def built_in(name: str) -> Provider | None:
    """Return the settings of a provider that works without configuration, or None."""
    if name in VENDORS:
        return Provider(type=name)
    preset = PRESETS.get(name)
    return None if preset is None else Provider(type=preset.type, base_url=preset.base_url)


def plugged(name: str) -> Provider | None:
    """Return the settings of a provider whose name is that of a plug-in's wire, or None."""
    return Provider(type=name) if offers("models", name) else None


def _no_address(name: str, variable: str, *, files: bool) -> str:
    other = (
        f"treadle config set providers.{name}.base_url URL"
        if files
        else f"Runtime.open(config=Config(providers={{{name!r}: Provider(base_url=…)}}))"
    )
    return f"no address for the provider {name!r}: set {variable} in the environment, or: {other}"


def _no_key(name: str, wire: str, *, own_address: bool, files: bool) -> str:
    names = [variable for variable, _ in key_variables(name, wire, own_address=own_address)[:1]]
    if not files:
        variables = "".join(f"set {variable} in the environment, or " for variable in names)
        return (
            f"no API key for the provider {name!r}. You can:\n"
            f"  {variables}pass a key to Runtime.open(config=Config(providers={{{name!r}: "
            "Provider(api_key=Secret(…))})), with names from treadle.config\n"
            "  use your configuration file, which a program reads only on request: "
            "Runtime.open(config=treadle.config.load())\n"
            "  try Treadle without a model: treadle demo"
        )
    variables = "".join(f"set {variable} in the environment, or " for variable in names)
    return (
        f"no API key for the provider {name!r}. You can:\n"
        f"  {variables}store a key: treadle config set providers.{name}.api_key -\n"
        "  use a local server, which needs no key: treadle config set "
        f"providers.{name}.base_url http://127.0.0.1:8080\n"
        "  try Treadle without a model: treadle demo"
    )
