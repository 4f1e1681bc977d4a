"""Bundled data about models, with a date. It contains only what its sources state.

told_models.py caches data reported by providers; registry.py decides precedence. Entry points:
`known`, `known_ids`. Source: the vendors' pages and model lists as of the file's date, the SDKs'
types, genai-prices, models.dev.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import urlsplit

import msgspec

from treadle._internal.json_text import decode_json
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.types import Effort

_OWN_VENDORS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "gemini": "google",
}
"""Vendor by provider type, used without a custom address."""
_VERSION = re.compile(r"[-@](?:latest|\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4})")
"""Version suffixes in model ids."""


class _Loader(Protocol):
    def get_data(self, path: str) -> bytes: ...


class KnownVendor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hosts: tuple[str, ...]
    """Hosts of the vendor's own API."""
    models: dict[str, Abilities]
    """Abilities by model id, which covers its versions too, or by an id prefix with `*`."""
    responses_only: tuple[Effort, ...] = ()
    """Effort levels available only over the Responses API."""


class KnownModels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    as_of: str
    vendors: dict[str, KnownVendor]


@functools.cache
def known_models() -> KnownModels:
    """Load the data file, on first use of a provider's model."""
    # through the loader, which also reads zip archives: importlib.resources adds 28 ms to the
    # start-up
    text = cast("_Loader", __loader__).get_data(str(Path(__file__).with_suffix(".json")))
    return decode_json(text, KnownModels)


def known(endpoint_type: str, base_url: str | None, model_id: str) -> Abilities:
    """Return the known abilities of a model at an address; None means the vendor's own.

    Vendor data applies at the vendor's own address, and to its models behind a gateway with the
    same wire. Elsewhere, only properties of the weights apply (images, tools, thinking, and that no
    call can be forced), because limits and syntax depend on the server.
    """
    if endpoint_type in ("bedrock", "vertex"):
        endpoint_type, model_id = _in_cloud(endpoint_type, model_id)
    if endpoint_type not in _OWN_VENDORS:
        return UNKNOWN
    if (vendor := _vendor_at(endpoint_type, base_url)) is not None:
        return _said(vendor, model_id.lower(), endpoint_type)
    own = known_models().vendors[_OWN_VENDORS[endpoint_type]]
    if (
        endpoint_type != "openai-chat"
        and (found := _named(own.models, model_id.lower())) is not None
    ):
        return found
    return _in_the_weights(model_id)


def _in_cloud(endpoint_type: str, model_id: str) -> tuple[str, str]:
    """Return the provider type and id of a cloud's model at its own vendor: Bedrock's
    `anthropic.claude-haiku-5-5` is (anthropic, claude-haiku-5-5).
    """
    if endpoint_type == "bedrock":
        vendor, _, own = model_id.partition(".")
        return "anthropic" if vendor == "anthropic" else "openai-chat", own or vendor
    if model_id.startswith("claude-"):
        return "anthropic", model_id
    return "openai-chat" if "/" in model_id else "gemini", model_id


def known_ids(endpoint_type: str, base_url: str | None) -> list[str]:
    """Return the known models of a vendor; empty for any other server."""
    vendor = _vendor_at(endpoint_type, base_url)
    return (
        []
        if vendor is None
        else [model_id for model_id in vendor.models if not model_id.endswith("*")]
    )


def _vendor_at(endpoint_type: str, base_url: str | None) -> KnownVendor | None:
    vendors = known_models().vendors
    if base_url is None:
        return vendors.get(_OWN_VENDORS.get(endpoint_type, ""))
    host = urlsplit(base_url).hostname
    return next((vendor for vendor in vendors.values() if host in vendor.hosts), None)


def _said(vendor: KnownVendor, model_id: str, endpoint_type: str) -> Abilities:
    found = _named(vendor.models, model_id) or UNKNOWN
    if endpoint_type == "openai-chat" and found.efforts and vendor.responses_only:
        efforts = tuple(effort for effort in found.efforts if effort not in vendor.responses_only)
        return msgspec.structs.replace(found, efforts=efforts)
    return found


def _named(models: dict[str, Abilities], model_id: str) -> Abilities | None:
    """Return the abilities of the model itself, or of its unversioned id, or of the longest
    matching prefix.
    """
    if (exact := models.get(model_id)) is not None:
        return exact
    version = next(
        (found for found in _VERSION.finditer(model_id) if found.end() == len(model_id)), None
    )
    if version is not None and (exact := models.get(model_id[: version.start()])) is not None:
        return exact
    fitting = [
        pattern for pattern in models if pattern.endswith("*") and model_id.startswith(pattern[:-1])
    ]
    return models[max(fitting, key=len)] if fitting else None


def _in_the_weights(model_id: str) -> Abilities:
    """Return the properties of the weights, by any name under which the model is served:
    `openai/gpt-oss-120b`, `gpt-oss:120b`, `anthropic/claude-opus-4.6`.
    """
    name = model_id.rpartition("/")[2].lower().replace(":", "-")
    found = (
        _named(_everywhere(), name.replace(".", "-") if name.startswith("claude-") else name)
        or UNKNOWN
    )
    forced_tools = False if found.forced_tools is False else None
    return Abilities(
        images=found.images,
        tools=found.tools,
        apply_patch=found.apply_patch,
        forced_tools=forced_tools,
        reasoning=found.reasoning,
    )


@functools.cache
def _everywhere() -> dict[str, Abilities]:
    return {
        pattern: abilities
        for vendor in known_models().vendors.values()
        for pattern, abilities in vendor.models.items()
    }
