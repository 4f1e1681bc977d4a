"""Encoding of the part of a request before its messages: settings, system prompt and tools.

request.py adds the messages. Entry point: `HeadEncoder`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, cast

import msgspec

from treadle._internal.hosted_tools import CodeExecution, FileSearch, TypedTool
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError
from treadle.models.model import ModelRequest
from treadle.models.providers.anthropic.caching import (
    BREAKPOINTS_MAX,
    mark_last,
    mark_of,
    marked_blocks,
)
from treadle.models.providers.anthropic.compaction import NOT_COMBINED
from treadle.models.providers.anthropic.content import Block
from treadle.models.providers.anthropic.fields import (
    AS_TEXT,
    FAST_BETA,
    SINCE,
    beta_header,
    settings_fields,
    thinking_since,
    with_types,
)
from treadle.models.providers.anthropic.schemas import strict_tools
from treadle.models.providers.anthropic.thinking import fit
from treadle.models.providers.encoding import dumped, head, wire_for, with_extra, with_theirs
from treadle.models.providers.hosted import left_out, wanted
from treadle.types import Settings, SystemBlock

WIRE = "anthropic"

_HOSTED = ("web_search_20250305", "web_fetch_20250910", "code_execution_20250825")
"""Versions of hosted tools that every Claude with hosted tools accepts.

Source: platform.claude.com, "Tool reference", and the types of the SDK 2.12.
"""


class Head(msgspec.Struct, frozen=True, gc=False):
    """The part of a body before the messages."""

    data: bytes
    headers: dict[str, str]
    marks_left: int
    """Number of breakpoints left for the messages."""
    mark: bytes
    """Encoded breakpoint."""
    diagnoses: bool
    """True if the request asks for cache diagnostics."""
    lasting: bytes
    """System prompt and tools, which thinking depends on; b"" if the model does not check it."""
    wire: str
    """Key under which the history stores the messages as they go with this head."""


SEARCHED = " searched"
"""End of the key `Head.wire` of requests with deferred tools."""
_TOOL_SEARCH: Block = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""Search by the API among deferred tools. Source: a recorded exchange (2026), and the types of SDK
2.10.
"""


class HeadEncoder:
    """Encoder of the heads of one model's requests."""

    def __init__(
        self, model_id: str, preamble: str, abilities: Abilities, *, is_vendor: bool
    ) -> None:
        """Create an encoder. Arguments as in `RequestEncoder`."""
        self._model_id, self._abilities, self._is_vendor = model_id, abilities, is_vendor
        self._wire = wire_for(WIRE, abilities)
        self._preamble = (SystemBlock(text=preamble),) if preamble else ()

    def encode(self, request: ModelRequest) -> Head:
        """Encode a head. Raises AgentError(invalid) for extras that cannot be sent."""
        body, headers, marks_left = self.fields(request)
        mark = b"," + dumped(mark_of(request.settings))[1:-1]
        diagnoses = (
            self._is_vendor and request.settings.cache is not False and "diagnostics" not in body
        )
        since, lasting, wire = thinking_since(request.settings), self.lasting(body), self._wire
        if since or lasting:
            wire += f" {since} {blake2b(lasting, digest_size=8).hexdigest()}"
        if self.sends_blocks(request.settings):
            wire += " compacted"
        tools: Any = body.get("tools", ())
        for tool in tools:  # ours, or those of settings.extra
            if "defer_loading" in tool:
                wire += SEARCHED
                break
        data = head(body) + b',"messages":['
        return Head(data, headers, marks_left, mark, diagnoses, lasting, wire)

    def fields(self, request: ModelRequest) -> tuple[Block, dict[str, str], int]:
        """Return everything but the messages, the headers, and the number of breakpoints left for
        the messages.
        """
        extra = dict(request.settings.extra or {})
        if "messages" in extra:
            raise AgentError(
                "invalid",
                "settings.extra must not hold 'messages': the history is the request's own",
            )
        extra.pop(SINCE, None)
        extra.pop(AS_TEXT, None)
        if isinstance(container := extra.get("container"), dict) and set(
            cast("Block", container)
        ) == {"id"}:
            extra["container"] = container["id"]
        if request.settings.service_tier == "fast" and "speed" not in extra:
            extra["betas"] = [*cast("list[object]", extra.get("betas") or []), FAST_BETA]
        headers = beta_header(extra)
        mark = mark_of(request.settings)
        tools = with_theirs(self._tools(request), extra.pop("tools", None))
        caching = request.settings.cache is not False and "cache_control" not in extra
        marks_left = BREAKPOINTS_MAX if caching else 0
        system = [block for block in (*self._preamble, *request.system) if block.text]
        body: Block = {
            "model": self._model_id,
            "stream": True,
            **settings_fields(request.settings, self._abilities, has_tools=bool(tools)),
        }
        if system:
            marked = (
                marked_blocks(system, BREAKPOINTS_MAX - 1 - bool(tools))
                if caching
                else frozenset[int]()
            )
            marks_left -= len(marked)
            body["system"] = [
                {"type": "text", "text": block.text, **(mark if i in marked else {})}
                for i, block in enumerate(system)
            ]
        if tools:
            if caching:
                marks_left -= mark_last(tools, mark)
            body["tools"] = tools
        return with_extra(body, with_types(extra, body)), headers, marks_left

    def lasting(self, body: Block) -> bytes:
        """Return the system prompt and tools, which thinking depends on; b"" if the model does not
        check it.
        """
        if not self._abilities.preserved_thinking:
            return b""
        parts = [
            *cast("list[Block]", body.get("system", [])),
            *cast("list[Block]", body.get("tools", [])),
        ]
        return dumped(
            [
                {name: value for name, value in part.items() if name != "cache_control"}
                for part in parts
            ]
        )

    @property
    def searches_tools(self) -> bool:
        """True if the API searches deferred tools for this model."""
        return self._is_vendor and self._abilities.tool_search is True

    def sends_blocks(self, settings: Settings) -> bool:
        """Return True if the API compacts conversations with this model and accepts its blocks
        back.

        Clouds and gateways are not asked, because some ignore the field and respond normally.
        """
        extra = settings.extra or {}
        return (
            self._is_vendor
            and self._abilities.compaction is True
            and NOT_COMBINED not in extra
            and AS_TEXT not in extra
        )

    def _tools(self, request: ModelRequest) -> list[Block]:
        """Return our tools, strict if requested and possible, and hosted tools whose names ours do
        not use.
        """
        held = (
            strict_tools(
                tuple(tool for tool in request.tools if not tool.deferred),
                request.settings.output_schema,
            )
            if self._is_strict(request.settings)
            else {}
        )
        ours: list[Block] = [
            {
                "name": t.name,
                "description": t.description,
                "input_schema": held.get(t.name, t.parameters),
                **({"strict": True} if t.name in held else {}),
                **({"defer_loading": True} if t.deferred else {}),
            }
            for t in request.tools
        ]
        for tool in request.tools:
            if tool.deferred:
                ours.append(_TOOL_SEARCH)
                break
        names = {tool.name for tool in request.tools}
        return [
            *ours,
            *(
                tool
                for tool in wanted(request.settings, _hosted(self._abilities), _detailed)
                if tool["name"] not in names
            ),
        ]

    def _is_strict(self, settings: Settings) -> bool:
        """Return True if tools are strict: models with structured output also support strict
        calls.
        """
        return settings.strict_tools is True and self._abilities.structured_output in (
            None,
            "native",
        )

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        loose = settings.strict_tools is True and not self._is_strict(settings)
        return (
            *fit(settings, self._abilities).notes,
            *(["tools cannot be strict with this model"] if loose else []),
            *left_out(settings, _hosted(self._abilities), _detailed),
            *(
                ["there is no flex tier: service_tier is left out"]
                if settings.service_tier == "flex"
                else []
            ),
        )


def _detailed(definition: Block, tool: TypedTool) -> Block | None:
    """Add the details of a typed tool. Source: platform.claude.com, "Web search tool"."""
    if isinstance(tool, FileSearch):
        return None
    details = Block() if isinstance(tool, CodeExecution) else msgspec.structs.asdict(tool)
    return {**definition, **{name: value for name, value in details.items() if value}}


def _hosted(abilities: Abilities) -> dict[str, Block]:
    versions = abilities.hosted_tools or _HOSTED
    return {
        version.rpartition("_")[0]: {"type": version, "name": version.rpartition("_")[0]}
        for version in versions
    }
