"""How servers of Chat Completions differ, as one table: what each takes, in which words, and what
it wants back.

No code branches on a server's name: whatever differs is a field here. Which models can do what is
known_models.py's. Entry: `server_at`. Source: the servers' documentation and source, and what their
users report (2026-11).
"""

from __future__ import annotations

from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.models.providers.encoding import Json
from treadle.types import ServiceTier

ReasoningBack: TypeAlias = Literal["", "as_it_came", "reasoning_content", "reasoning_details"]
"""The field of an assistant message that takes its reasoning within a run; as it came: under the
name that the answer had for it.
"""

ANY_ID = r"[\w.:|=+/-]{1,64}"
PLAIN_ID = r"[a-zA-Z0-9_-]{1,40}"


class ThinkingWords(msgspec.Struct, frozen=True, kw_only=True):
    """How thinking is asked for: fields of the body, and where in it a value stands."""

    on: Json = {}
    off: Json = {}
    effort: tuple[str, ...] = ("reasoning_effort",)
    budget: tuple[str, ...] = ()
    """Empty: it takes no number of tokens; thinking is on."""


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
    """What any server takes, unless a row of the table says otherwise."""

    name: str
    hosts: tuple[str, ...] = ()
    """Itself, or what stands below it; with a port, where that tells it apart."""
    owner: str = ""
    """How its list of models names it."""
    max_tokens: str = "max_tokens"
    include_usage: bool = True
    """Whether it must be asked for usage, and may be."""
    system_role: str = "system"
    later_system: bool = False
    """Whether a system message may stand in mid-conversation; else a user says it."""
    parallel: bool = False
    """Whether parallel calls must be asked for."""
    names_tool: bool = True
    """Whether it can be told which tool to call; else it is given only that one."""
    thinking: ThinkingWords = _TEMPLATE
    fits_effort: bool = False
    """Whether its models are GPT, so that effort.py fits effort and temperature to each of them."""
    reasoning: ReasoningBack = "as_it_came"
    reasoning_always: bool = False
    """Whether a message with calls must have the field, though there be nothing to say in it."""
    no_text: str | None = None
    """The content of a message that only calls tools."""
    call_id: str = ANY_ID
    """The ids that it takes."""
    call_id_chars: int = 40
    """How long those are that we make for others."""
    call_extras: bool = False
    """Whether what else a call holds goes back with it."""
    after_tools: str = ""
    """What the assistant must have said between results and the next word of the user."""
    cached_models: tuple[str, ...] = ()
    """How the ids of those begin whose cache must be asked for, in the way of Claude's API."""
    files: bool = False
    """Whether it takes PDF files."""
    audio: bool = False
    abilities: Abilities = UNKNOWN
    """Of its models, where nothing nearer is known."""
    json_object: bool = False
    """Whether an answer that the prompt asks to be JSON can be held to that."""
    tiers: dict[ServiceTier, str] = {}
    """Service tiers, and its words for them."""
    tells_cost: bool = False
    """Whether `usage.cost` is what a response costs, in USD."""
    counts: Literal["", "messages", "template"] = ""
    """Whether its `/tokenize` takes messages, or a text to which another question has turned them.
    """


OTHER = ServerTraits(name="other", call_extras=True)
"""One that nobody has told us about: what nearly all of them take."""

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
    """However its name is written: `llama-cpp` is `llama.cpp`."""
    plain = _plain(name)
    return next((server for server in SERVERS if plain and _plain(server.name) == plain), None)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def server_at(base_url: str, said: str = "", called: str = "") -> ServerTraits:
    """The row that is `said` to be there, else the one whose host it is, else the one that the
    provider is `called` after; OTHER where none is.
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
    """The row of whoever its models are said to belong to."""
    return next((server for server in SERVERS if server.owner and server.owner == owner), OTHER)
