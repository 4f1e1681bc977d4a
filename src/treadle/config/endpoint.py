"""How a provider is reached: address, key, headers. Which of several keys counts, and what to do
where there is none.

Connections are models/providers/http.py's; the settings come from layers.py. Entry: `reach`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec
from typing_extensions import override

from treadle._internal.redaction import Redactor, Secret
from treadle.config.keys import VENDORS
from treadle.config.model_profile import Abilities
from treadle.config.readers import Wrong, base_url, credential
from treadle.errors import AgentError

CredentialField: TypeAlias = Literal["api_key", "auth_token"]

AGENT_KEY = "TREADLE_AGENT_API_KEY"
VENDOR_KEYS: Mapping[str, tuple[tuple[str, CredentialField], ...]] = {
    "anthropic": (("ANTHROPIC_API_KEY", "api_key"), ("ANTHROPIC_AUTH_TOKEN", "auth_token")),
    "openai": (("OPENAI_API_KEY", "api_key"),),
    "openai-chat": (("OPENAI_API_KEY", "api_key"),),
    "gemini": (("GEMINI_API_KEY", "api_key"), ("GOOGLE_API_KEY", "api_key")),
}
"""By type of provider; the first that is set counts."""


LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}")


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """A value whose repr shows no secret, not even one in a URL."""

    @override
    def __repr__(self) -> str:
        return Redactor().text(super().__repr__())


class Provider(Guarded, frozen=True, kw_only=True):
    """What the configuration and the environment say about one provider."""

    type: str = ""
    """The wire it speaks: one of VENDORS."""
    api_key: Secret | None = None
    auth_token: Secret | None = None
    base_url: str | None = None
    server: str = ""
    """What stands there, where its address does not tell: the name of a row of
    openai_chat/servers.py.
    """
    preamble: str = ""
    """The first system block, by itself, where `auth_token` is used."""
    timeout_s: float = 600
    """Seconds without an event other than ping."""
    total_timeout_s: float | None = None
    """Seconds for one answer from the request to its last byte; a retry has them again.

    None: no bound.
    """
    model: str | None = None
    """What `provider: NAME` alone means."""
    headers: dict[str, Secret] = msgspec.field(default_factory=dict[str, Secret])
    abilities: dict[str, Abilities] = msgspec.field(default_factory=dict[str, Abilities])
    """By model, or by the beginning of its id and `*`: they go over what is known otherwise."""

    def __post_init__(self) -> None:
        """Raises AgentError(invalid) for a secret that is a plain text: its repr would show it."""
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
                    "invalid", f"Provider({where}…) is a str: give Secret('…'), from treadle.config"
                )


class Endpoint(Guarded, frozen=True, kw_only=True):
    """All that a model needs to reach its provider.

    At most one of `api_key` and `auth_token` is set.
    """

    name: str
    type: str
    base_url: str | None
    """None: the vendor's own. No slash at its end."""
    server: str = ""
    api_key: Secret | None
    auth_token: Secret | None
    key_origin: str
    """The file with line, the variable or the argument that gave the key; "" where there is none.
    """
    preamble: str
    timeout_s: float
    total_timeout_s: float | None = None
    headers: dict[str, Secret]

    @property
    def credential(self) -> str:
        """Where its key came from, as an error tells it."""
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
    api_key: str | None = None,
    auth_token: str | None = None,
    to_ask: bool = True,
    files: bool = True,
) -> Endpoint:
    """Of the arguments, else of `provider`, whose key wins over its token.

    `origin` tells where a field of the provider came from. Raises AgentError: invalid for a value
    that cannot be sent, auth where there is no key; a server on this machine needs none, nor does
    one that nobody is going to ask (`to_ask`). `files`: whether configuration files were read, so
    that advice to write one helps.
    """
    field: CredentialField = (
        "api_key" if api_key or (provider.api_key and not auth_token) else "auth_token"
    )
    argument = api_key or auth_token
    key = Secret(argument) if argument else provider.api_key or provider.auth_token
    source = f"{field}=" if argument else origin(field)
    if key:
        key = Secret(_usable(credential, key.reveal(), f"{source}: the key of {name!r}"))
    address = provider.base_url
    if address:
        address = _usable(base_url, address, f"{origin('base_url')}: the base URL of {name!r}")
    if to_ask and key is None and not needs_no_key(provider.type, address):
        raise AgentError(
            "auth", _no_key(name, provider.type, own_address=address is not None, files=files)
        )
    return Endpoint(
        name=name,
        type=provider.type,
        base_url=address,
        server=provider.server,
        api_key=key if field == "api_key" else None,
        auth_token=key if field == "auth_token" else None,
        key_origin=source if key else "",
        preamble=provider.preamble,
        timeout_s=provider.timeout_s,
        total_timeout_s=provider.total_timeout_s,
        headers=provider.headers,
    )


def key_variables(
    name: str, wire: str, *, own_address: bool
) -> tuple[tuple[str, CredentialField], ...]:
    """The variables that may give this provider its key.

    A vendor's key goes to the vendor, and to others of its type only while they have no address of
    their own.
    """
    return (
        VENDOR_KEYS[wire] if (name in VENDORS and name != "openai-chat") or not own_address else ()
    )


def needs_no_key(wire: str, address: str | None) -> bool:
    """True for a server on this machine, and for a compatible one at an address of its own, which
    may be open.
    """
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


def _no_key(name: str, wire: str, *, own_address: bool, files: bool) -> str:
    names = [variable for variable, _ in key_variables(name, wire, own_address=own_address)[:1]]
    if not files:
        variables = "".join(f"set {variable} in the environment, or " for variable in names)
        return (
            f"no key for the provider {name!r}. Three ways on:\n"
            f"  give it a key: {variables}Runtime.open(config=Config(providers={{{name!r}: "
            "Provider(api_key=Secret(…))})), all from treadle.config\n"
            "  use your configuration file, which a program reads only on request: "
            "Runtime.open(config=treadle.config.load())\n"
            "  see Treadle work without a model: treadle demo"
        )
    variables = "".join(f"set {variable} in the environment, or: " for variable in names)
    return (
        f"no key for the provider {name!r}. Three ways on:\n"
        f"  give it a key: {variables}treadle config set providers.{name}.api_key -\n"
        "  point to a server on this machine, which needs none: treadle config set "
        f"providers.{name}.base_url http://127.0.0.1:8080\n"
        "  see Treadle work without a model: treadle demo"
    )
