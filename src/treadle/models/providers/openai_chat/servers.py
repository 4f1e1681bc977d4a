"""Table of differences between Chat Completions servers: accepted fields, their names, and what
must be sent back.

No code branches on a server's name: each difference is a field here. known_models.py holds
abilities of models. Entry points: `server_at`. Source: the servers' documentation and source, and
reports of their users (2026-11).
"""

from __future__ import annotations

from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.models.providers.encoding import Json
from treadle.types import ServiceTier

ReasoningBack: TypeAlias = Literal["", "as_it_came", "reasoning_content", "reasoning_details"]
"""Field of an assistant message for its reasoning within a run; as_it_came: the field of the
response.
"""

ANY_ID = r"[\w.:|=+/-]{1,64}"
PLAIN_ID = r"[a-zA-Z0-9_-]{1,40}"


class ThinkingWords(msgspec.Struct, frozen=True, kw_only=True):
    """Request fields that control thinking, and the paths of values in them."""

    on: Json = {}
    off: Json = {}
    effort: tuple[str, ...] = ("reasoning_effort",)
    budget: tuple[str, ...] = ()
    """Path of a token budget; empty if there is none and thinking is only switched on."""


_NONE_IS_OFF = ThinkingWords(off={"reasoning_effort": "none"})
_SWITCH = ThinkingWords(
    on={"thinking": {"type": "enabled"}}, off={"thinking": {"type": "disabled"}}
)
_OPENAI_TIERS: dict[ServiceTier, str] = {"standard": "default", "flex": "flex", "fast": "priority"}
_TEMPLATE = ThinkingWords(
    on={"chat_template_kwargs": {"enable_thinking": True}},
    off={"chat_template_kwargs": {"enable_thinking": False}},
)


class ServerTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Traits of a server. The defaults suit most servers."""

    name: str
    hosts: tuple[str, ...] = ()
    """Hosts, which include their subdomains; with a port if that identifies the server."""
    owner: str = ""
    """Value of `owned_by` in the server's model list."""
    max_tokens: str = "max_tokens"
    include_usage: bool = True
    """True if the server must be asked for usage, and accepts that."""
    system_role: str = "system"
    later_system: bool = False
    """True if a system message may occur within a conversation; otherwise it becomes a user
    message.
    """
    parallel: bool = False
    """True if parallel calls must be requested."""
    names_tool: bool = True
    """True if a request can force a specific tool; otherwise only that tool is sent."""
    thinking: ThinkingWords = _TEMPLATE
    fits_effort: bool = False
    """True if its models are GPT models, so that effort.py fits effort and temperature."""
    reasoning: ReasoningBack = "as_it_came"
    reasoning_always: bool = False
    """True if a message with calls needs the reasoning field even if it is empty."""
    no_text: str | None = None
    """Content of a message that only calls tools."""
    call_id: str = ANY_ID
    """Pattern of accepted call ids."""
    call_id_chars: int = 40
    """Length of ids generated to replace others."""
    call_extras: bool = False
    """True if extra fields of a call are sent back."""
    after_tools: str = ""
    """Assistant text required between tool results and the next user message."""
    cached_models: tuple[str, ...] = ()
    """Id prefixes of models that need explicit cache breakpoints, as in Claude's API."""
    files: bool = False
    """True if the server accepts PDF files."""
    audio: bool = False
    images: bool = False
    """True if an assistant message can contain the images that its model made."""
    abilities: Abilities = UNKNOWN
    """Default abilities of its models, if nothing more specific is known."""
    json_object: bool = False
    """True if an answer requested as JSON by prompt can also be forced to be JSON."""
    tiers: dict[ServiceTier, str] = {}
    """Service tiers, with the server's names for them."""
    tells_cost: bool = False
    """True if `usage.cost` is the cost of a response in USD."""
    counts: Literal["", "messages", "template"] = ""
    """Input of `/tokenize`: messages, or a text that another endpoint renders from them."""


OTHER = ServerTraits(name="other", call_extras=True)
"""Defaults for an unknown server, which suit nearly all."""

SERVERS: tuple[ServerTraits, ...] = (
    ServerTraits(
        name="openai",
        hosts=("api.openai.com", "openai.azure.com"),
        max_tokens="max_completion_tokens",
        system_role="developer",
        later_system=True,
        thinking=_NONE_IS_OFF,
        fits_effort=True,
        reasoning="",
        call_id=PLAIN_ID,
        files=True,
        audio=True,
        tiers=_OPENAI_TIERS,
    ),
    ServerTraits(
        name="openrouter",
        hosts=("openrouter.ai",),
        later_system=True,
        thinking=ThinkingWords(
            on={"reasoning": {"enabled": True}},
            off={"reasoning": {"enabled": False}},
            effort=("reasoning", "effort"),
            budget=("reasoning", "max_tokens"),
        ),
        reasoning="reasoning_details",
        call_id=PLAIN_ID,
        cached_models=("anthropic/", "~anthropic/"),
        files=True,
        audio=True,
        images=True,
        tiers=_OPENAI_TIERS,
        tells_cost=True,
    ),
    ServerTraits(
        name="deepseek",
        hosts=("api.deepseek.com",),
        later_system=True,
        thinking=_SWITCH,
        reasoning="reasoning_content",
        reasoning_always=True,
        no_text="",
        abilities=Abilities(structured_output="prompt"),
        json_object=True,
    ),
    ServerTraits(
        name="moonshot",
        hosts=("api.moonshot.ai", "api.moonshot.cn"),
        thinking=_SWITCH,
        reasoning="reasoning_content",
        reasoning_always=True,
        no_text="",
    ),
    ServerTraits(
        name="zai",
        hosts=("api.z.ai", "open.bigmodel.cn"),
        thinking=_SWITCH,
        json_object=True,
        abilities=Abilities(structured_output="prompt"),
    ),
    ServerTraits(
        name="alibaba",
        hosts=(
            "dashscope.aliyuncs.com",
            "dashscope-intl.aliyuncs.com",
            "dashscope-us.aliyuncs.com",
        ),
        thinking=ThinkingWords(
            on={"enable_thinking": True},
            off={"enable_thinking": False},
            budget=("thinking_budget",),
        ),
        parallel=True,
        abilities=Abilities(structured_output="tool"),
    ),
    ServerTraits(
        name="mistral",
        hosts=("api.mistral.ai",),
        include_usage=False,
        later_system=True,
        thinking=_NONE_IS_OFF,
        reasoning="",
        call_id=r"[a-zA-Z0-9]{9}",
        call_id_chars=9,
        after_tools="Understood.",
    ),
    ServerTraits(
        name="groq",
        hosts=("api.groq.com",),
        max_tokens="max_completion_tokens",
        later_system=True,
        thinking=_NONE_IS_OFF,
        reasoning="",
        call_id=PLAIN_ID,
        abilities=Abilities(structured_output="tool"),
        tiers={"standard": "on_demand", "flex": "flex"},
    ),
    ServerTraits(
        name="xai",
        hosts=("api.x.ai",),
        max_tokens="max_completion_tokens",
        later_system=True,
        thinking=_NONE_IS_OFF,
        reasoning="",
        call_id=PLAIN_ID,
    ),
    ServerTraits(
        name="together",
        hosts=("api.together.xyz", "api.together.ai"),
        thinking=ThinkingWords(
            on={"reasoning": {"enabled": True}}, off={"reasoning": {"enabled": False}}
        ),
        reasoning="",
    ),
    ServerTraits(name="fireworks", hosts=("api.fireworks.ai",), thinking=_NONE_IS_OFF),
    ServerTraits(
        name="google",
        hosts=("generativelanguage.googleapis.com",),
        thinking=_NONE_IS_OFF,
        reasoning="",
        call_extras=True,
    ),
    ServerTraits(name="vllm", owner="vllm", later_system=True, counts="messages"),
    ServerTraits(
        name="llama.cpp", owner="llamacpp", parallel=True, names_tool=False, counts="template"
    ),
    ServerTraits(
        name="ollama",
        hosts=("localhost:11434", "127.0.0.1:11434", "ollama.com"),
        owner="library",
        later_system=True,
        thinking=_NONE_IS_OFF,
    ),
    ServerTraits(
        name="lmstudio",
        hosts=("localhost:1234", "127.0.0.1:1234"),
        owner="organization_owner",
        thinking=_NONE_IS_OFF,
    ),
)
NAMES = tuple(server.name for server in SERVERS)


def server_named(name: str) -> ServerTraits | None:
    """Return the row with this name, ignoring case and punctuation: `llama-cpp` is `llama.cpp`."""
    plain = _plain(name)
    return next((server for server in SERVERS if plain and _plain(server.name) == plain), None)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def server_at(base_url: str, said: str = "", called: str = "") -> ServerTraits:
    """Return the configured row (`said`), else the row of the host, else the row named like the
    provider (`called`), else OTHER.
    """
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    places = (host, f"{host}:{parts.port or ''}")
    there = (
        server
        for server in SERVERS
        if any(
            place == known or place.endswith(f".{known}")
            for known in server.hosts
            for place in places
        )
    )
    return server_named(said) or next(there, None) or server_named(called) or OTHER


def server_owning(owner: str) -> ServerTraits:
    """Return the row whose models have this owner."""
    return next((server for server in SERVERS if server.owner and server.owner == owner), OTHER)
