"""What is known of models without asking anybody: a data file with a date, which says nothing that
its sources do not say.

What a provider tells about its own models is told_models.py's; which of the two counts is
registry.py's. Entry: `known`, `known_ids`. Source: the vendors' pages and model lists as of the
file's date, the SDKs' types, genai-prices, models.dev.
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
"""By type of provider, the vendor that is asked where nobody gave another address."""
_VERSION = re.compile(r"[-@](?:latest|\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4})")
"""How vendors name one state of a model behind its name."""


class _Loader(Protocol):
    def get_data(self, path: str) -> bytes: ...


class KnownVendor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hosts: tuple[str, ...]
    """Where it answers itself."""
    models: dict[str, Abilities]
    """By id, which stands for its versions too, or by the beginning of ids and `*`."""
    responses_only: tuple[Effort, ...] = ()
    """Efforts that it takes over the Responses API alone."""


class KnownModels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    as_of: str
    vendors: dict[str, KnownVendor]


@functools.cache
def known_models() -> KnownModels:
    """The file, read when the first model of a provider is made."""
    # Through the loader, which finds it in a zip too: importlib.resources costs 28 ms of start-up.
    text = cast("_Loader", __loader__).get_data(str(Path(__file__).with_suffix(".json")))
    return decode_json(text, KnownModels)


def known(endpoint_type: str, base_url: str | None, model_id: str) -> Abilities:
    """What is known of a model at this address; None: the vendor's own.

    A vendor's word holds where the vendor answers, and for its own models behind a gateway that
    speaks its wire. Elsewhere only that counts which lies in the weights (images, tools, thinking;
    that no call can be forced): how much a server takes, and in which words it is asked, is its own
    business.
    """
    if (vendor := _vendor_at(endpoint_type, base_url)) is not None:
        return _said(vendor, model_id.lower(), endpoint_type)
    own = known_models().vendors[_OWN_VENDORS[endpoint_type]]
    if (
        endpoint_type != "openai-chat"
        and (found := _named(own.models, model_id.lower())) is not None
    ):
        return found
    return _in_the_weights(model_id)


def known_ids(endpoint_type: str, base_url: str | None) -> list[str]:
    """The models that a vendor is known to have; of any other server's nothing is known."""
    vendor = _vendor_at(endpoint_type, base_url)
    return (
        []
        if vendor is None
        else [model_id for model_id in vendor.models if not model_id.endswith("*")]
    )


def _vendor_at(endpoint_type: str, base_url: str | None) -> KnownVendor | None:
    vendors = known_models().vendors
    if base_url is None:
        return vendors[_OWN_VENDORS[endpoint_type]]
    host = urlsplit(base_url).hostname
    return next((vendor for vendor in vendors.values() if host in vendor.hosts), None)


def _said(vendor: KnownVendor, model_id: str, endpoint_type: str) -> Abilities:
    found = _named(vendor.models, model_id) or UNKNOWN
    if endpoint_type == "openai-chat" and found.efforts and vendor.responses_only:
        efforts = tuple(effort for effort in found.efforts if effort not in vendor.responses_only)
        return msgspec.structs.replace(found, efforts=efforts)
    return found


def _named(models: dict[str, Abilities], model_id: str) -> Abilities | None:
    """Itself, one of its versions, or the longest beginning that fits."""
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
    """Of the same model under whatever name it is served:

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
