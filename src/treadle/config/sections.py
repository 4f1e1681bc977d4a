"""Sections of the configuration as typed values. Entry point: `Defaults`."""

from __future__ import annotations

from typing import Literal

import msgspec

from treadle._internal.redaction import Secret
from treadle.config.tokens import Guarded
from treadle.types import (
    CacheLife,
    Effort,
    HostedTool,
    Mode,
    ServiceTier,
    Settings,
    Thinking,
    UnsupportedMedia,
)


class Models(msgspec.Struct, frozen=True, kw_only=True):
    large: str = "anthropic:claude-opus-5-5"
    small: str = "anthropic:claude-haiku-5-5"


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Fallback models for a run whose model fails."""

    models: tuple[str, ...] = ()
    """Models in the order of use."""
    on: tuple[str, ...] = ("rate_limit", "network", "timeout", "refusal")
    """Error kinds that trigger a fallback, or `refusal`."""


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    max_tokens: int | None = None
    """Maximum output tokens of one response; None: depends on the model."""
    temperature: float | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    show_thinking: bool | None = None
    strict_tools: bool | None = None
    hosted_tools: tuple[HostedTool, ...] | None = None
    compact_at_tokens: int | None = None
    native_compaction: bool | None = None
    cache: bool | CacheLife | None = None
    service_tier: ServiceTier | None = None
    unsupported_media: UnsupportedMedia | None = None
    mode: Mode = "ask"
    sandbox: str = "auto"
    """`auto`, `on`, `off`, or the name of a plug-in, which is then required as with `on`."""

    @property
    def settings(self) -> Settings:
        return Settings(
            **{
                name: getattr(self, name)
                for name in Settings.__struct_fields__
                if name in self.__struct_fields__
            }
        )


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of a model, in USD per million tokens.

    Attributes:
        input: USD per million input tokens.
        output: USD per million output tokens.
        cache_read: Cache reads; None: same as `input`.
        cache_write: Cache writes kept for five minutes; None: same as `input`.
        cache_write_1h: Cache writes kept for an hour; None: same as `cache_write`.
        web_searches: USD for a thousand searches by the provider.
        file_searches: USD for a thousand searches of the provider's file stores.
        containers: USD for one container that the provider starts.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    web_searches: float = 0
    file_searches: float = 0
    containers: float = 0


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    network: Literal["none", "open"] | tuple[str, ...] = ("default",)
    """Hosts that commands in mode full reach without approval, in the syntax of config/hosts.py."""


class McpServer(Guarded, frozen=True, kw_only=True):
    """An MCP server. Either `command` or `url` is set."""

    command: tuple[str, ...] = ()
    env: dict[str, Secret] = msgspec.field(default_factory=dict[str, Secret])
    url: str | None = None
    headers: dict[str, Secret] = msgspec.field(default_factory=dict[str, Secret])
    tools: tuple[str, ...] | None = None
    """Names of the exposed tools; None for all."""
    timeout_s: float = 60
    """Timeout of one call, in seconds."""
    wait_s: float = 10
    """Maximum seconds that a run waits for the server's tools before the first request."""
    trust_hints: bool = False
    """True if the server's tool annotations count, so that tools marked read-only run without
    approval.

    No workspace may set it.
    """
    deferred: bool = False
    """True if the model searches the tools, and sees only those that it has found."""


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Telemetry of runs; disabled by default."""

    otel: bool = False
    content: bool = False
    """True if spans and logs include the content of messages and tool calls."""
    logs: Literal["off", "text", "json"] = "off"
    log_file: str | None = None
    """Log file; None for standard error."""


class Ui(msgspec.Struct, frozen=True, kw_only=True):
    """Appearance of the terminal UI."""

    theme: Literal["auto", "dark", "light", "none"] = "auto"
    """Color theme. auto: follows the terminal's background; none: no colors."""
