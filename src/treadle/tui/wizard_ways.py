"""Ways to set up a first model: vendors, keys in the environment, and local servers. Entry points:
`VENDORS`, `keys_in`, `LOCAL`, `asked`.

The questions are in wizard.py. Writes nothing; only `asked` connects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import anyio

from treadle._internal.redaction import Secret
from treadle.config import Config, Endpoint
from treadle.config.endpoint import VENDOR_KEYS
from treadle.config.presets import PRESETS
from treadle.config.readers import Wrong, credential
from treadle.errors import AgentError
from treadle.models.providers.listing import Listed
from treadle.models.providers.wires import models_at

ANSWER_WITHIN_S: Final = 10.0
LOCAL_WITHIN_S: Final = 2.0


class VendorWay(NamedTuple):
    name: str
    """Name of the provider, the prefix of its models' names."""
    label: str
    variables: tuple[str, ...]


def _own(name: str, label: str) -> VendorWay:
    return VendorWay(
        name, label, tuple(variable for variable, field in VENDOR_KEYS[name] if field == "api_key")
    )


VENDORS: Final = (
    _own("anthropic", "Anthropic"),
    _own("openai", "OpenAI"),
    _own("gemini", "Google Gemini"),
    *(
        VendorWay(name, preset.label, (preset.key_variable,))
        for name, preset in PRESETS.items()
        if preset.key_variable and preset.base_url
    ),
)


_PREFIXES: Final = (
    ("sk-ant-", "anthropic"),
    ("sk-or-", "openrouter"),
    ("sk-proj-", "openai"),
    ("sk-svcacct-", "openai"),
    ("AIza", "gemini"),
    ("gsk_", "groq"),
    ("xai-", "xai"),
)
"""Key prefixes that identify a vendor; a bare `sk-` is ambiguous."""


_LONG_TOKEN: Final = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w.\-+/=]{20,}")
"""Pattern of a key that has no such prefix."""


def vendor_of(key: str) -> VendorWay | None:
    """Return the vendor that the prefix of a key identifies, or None."""
    name = next((name for prefix, name in _PREFIXES if key.startswith(prefix)), None)
    return next((vendor for vendor in VENDORS if vendor.name == name), None)


def looks_like_key(text: str) -> bool:
    """Return True for text that may be a key or the beginning of one, and must be masked."""
    return (
        text.startswith(("sk-", *(prefix for prefix, _ in _PREFIXES)))
        or _LONG_TOKEN.fullmatch(text) is not None
    )


class VendorKey(NamedTuple):
    """API key for a vendor, and where it came from."""

    vendor: VendorWay
    secret: Secret
    variable: str = ""
    """Environment variable that holds the key; empty if it was pasted."""

    @property
    def is_written(self) -> bool:
        """True if the key must be written to the file, because it was pasted."""
        return not self.variable


class Local(NamedTuple):
    name: str
    label: str
    address: str


LOCAL: Final = tuple(
    Local(name, preset.label, preset.base_url)
    for name, preset in PRESETS.items()
    if preset.base_url and not preset.key_variable
)


def keys_in(environ: Mapping[str, str]) -> list[VendorKey]:
    """Return one key per vendor, from its first variable that holds one."""
    found: list[VendorKey] = []
    for vendor in VENDORS:
        usable = (
            VendorKey(vendor, Secret(key), variable)
            for variable in vendor.variables
            if (key := _usable(environ.get(variable, "")))
        )
        found += [key for key in [next(usable, None)] if key is not None]
    return found


def _usable(value: str) -> str:
    try:
        return credential(value)
    except Wrong:
        return ""


def pasted(vendor: VendorWay, text: str) -> VendorKey:
    """Validate a pasted key. Raises AgentError(invalid)."""
    try:
        return VendorKey(vendor, Secret(credential(text)))
    except Wrong as e:
        raise AgentError("invalid", f"that is not a key: it must be {e.expected}") from None


def endpoint_of(key: VendorKey, config: Config) -> Endpoint:
    """Return the endpoint that the key is for. Raises AgentError(invalid)."""
    return config.endpoint(key.vendor.name, api_key=key.secret.reveal())


def endpoint_at(local: Local) -> Endpoint:
    return Endpoint(
        name=local.name,
        type="openai-chat",
        base_url=local.address,
        api_key=None,
        auth_token=None,
        key_origin="what was given",
        preamble="",
        timeout_s=600,
        headers={},
    )


async def asked(endpoint: Endpoint, *, within_s: float = ANSWER_WITHIN_S) -> list[Listed]:
    """Return the models at an endpoint, with one request per page. Raises AgentError."""
    try:
        with anyio.fail_after(within_s):
            return await models_at(endpoint)
    except TimeoutError:
        raise AgentError("timeout", f"no answer within {within_s:.0f} s") from None
