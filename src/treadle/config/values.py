"""What the configuration says: every value, typed, with where it came from.

Who may say what, and which layer wins, is layers.py's. Entry: `Config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

import msgspec
from typing_extensions import override

from treadle._internal.json_text import met
from treadle._internal.redaction import Redactor, Secret
from treadle.config.endpoint import Endpoint, Guarded, Provider, reach
from treadle.config.keys import STAND_INS, VENDORS, KeyPath, dotted
from treadle.config.readers import ALIASES, likely_name, nearest
from treadle.errors import AgentError
from treadle.types import (
    CacheLife,
    Effort,
    HostedTool,
    Limits,
    Mode,
    ServiceTier,
    Settings,
    Thinking,
)


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from."""

    source: Literal["default", "file", "environment", "flag", "argument"]
    name: str = ""
    """The file's path, the variable, the option."""
    line: int | None = None
    before: Origin | None = None
    """Of a list to which several layers added: where its earlier part came from."""

    @override
    def __str__(self) -> str:
        here = f"{self.name}:{self.line}" if self.line else self.name or self.source
        return f"{self.before}, {here}" if self.before else here


DEFAULT = Origin("default")
DEFAULT_QUEUE = "default"
"""There always is one of this name: `run_queue.DEFAULT_QUEUE`."""


class Setting(NamedTuple):
    value: object
    origin: Origin


class Models(msgspec.Struct, frozen=True, kw_only=True):
    large: str = "anthropic:claude-opus-5-5"
    small: str = "anthropic:claude-haiku-5-5"


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked where the model of a run does not answer."""

    models: tuple[str, ...] = ()
    """In this order."""
    on: tuple[str, ...] = ("rate_limit", "network", "timeout", "refusal")
    """Kinds of errors, and `refusal`."""


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    max_tokens: int | None = None
    """Of one response; None: by the model."""
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
    mode: Mode = "ask"
    sandbox: Literal["auto", "on", "off"] = "auto"

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
    """What a model costs, in USD for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    """None: as input."""
    cache_write: float | None = None
    """Of what is kept for five minutes; None: as input."""
    cache_write_1h: float | None = None
    """None: as cache_write."""
    web_searches: float = 0
    """For a thousand that the provider runs."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    network: Literal["none", "open"] | tuple[str, ...] = ("default",)
    """What commands of mode full reach that were not asked about; the tuple lists hosts, as
    config/hosts.py reads them.
    """


class McpServer(Guarded, frozen=True, kw_only=True):
    """Either `command` or `url` is set."""

    command: tuple[str, ...] = ()
    env: dict[str, Secret] = msgspec.field(default_factory=dict[str, Secret])
    url: str | None = None
    headers: dict[str, Secret] = msgspec.field(default_factory=dict[str, Secret])
    tools: tuple[str, ...] | None = None
    """None: all that it has."""
    timeout_s: float = 60
    """Of one call."""
    wait_s: float = 10
    """How long a run waits for its tools before the first request."""
    trust_hints: bool = False
    """Whether what it says of its tools counts: one that only reads is run unasked.

    No workspace may set it.
    """


class ServiceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """For each user."""

    requests_per_minute: int = 60
    runs: int = 3
    streams: int = 5
    tokens_per_day: int = 1_000_000
    cost_usd_per_day: float = 5
    body_bytes: int = 1 << 20


class ServiceTotals(msgspec.Struct, frozen=True, kw_only=True):
    """For all users together, in all processes over one database."""

    accounts_per_hour: int = 100
    tokens_per_day: int = 50_000_000
    cost_usd_per_day: float = 100


class Service(msgspec.Struct, frozen=True, kw_only=True):
    limits: ServiceLimits = ServiceLimits()
    totals: ServiceTotals = ServiceTotals()
    hosts: tuple[str, ...] = ()
    """Names that it answers to beside the loopback ones, without a port."""
    public_url: str | None = None
    """Where people reach it, where that is another address: through a proxy, say."""
    agents: tuple[str, ...] = ()
    """Served beside the task assistant."""
    registration: Literal["open", "closed"] = "open"
    proxies: tuple[str, ...] = ()
    """Addresses whose X-Forwarded-For and -Proto are believed."""
    open_docs: bool | None = None
    """Whether /openapi.json and /metrics need no token; None: only where nobody but this machine
    reaches the service.
    """
    grace_s: float = 8
    """How long runs may go on when it is stopped; those that are left are resumed at the next
    start.
    """
    queue: str | None = None
    """Where runs of served agents are submitted, for workers; None: they are driven by the service
    itself.
    """


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue allows; None: no limit. As `engine.Lane` has it."""

    concurrency: int | None = None
    per_tenant: int | None = None
    rate: int | None = None
    """Deliveries in `period_s` seconds."""
    period_s: float = 60


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Of `treadle worker`; the lease is that of every process over a journal that has leases."""

    engine: Literal["local", "dbos"] = "local"
    lease_s: float = 15
    """How long a process that says nothing counts as living, where the journal is PostgreSQL."""
    slots: int = 8
    """Runs at once."""
    grace_s: float = 30
    """How long runs may go on when a worker is stopped; those that are left go on elsewhere."""
    poll_s: float = 1
    """How often it looks for runs when nobody tells of any."""
    metrics: str | None = None
    """HOST:PORT where Prometheus finds them; None: nowhere."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A run at each tick."""

    agent: str
    prompt: str
    cron: str
    """Minute, hour, day of the month, month, day of the week."""
    queue: str | None = None
    inputs: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    timezone: str = "UTC"


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """What follows runs from outside. Nothing does, where nobody says so."""

    otel: bool = False
    content: bool = False
    """What is said and done stands in spans and logs too."""
    logs: Literal["off", "text", "json"] = "off"
    log_file: str | None = None
    """None: standard error."""


class Ui(msgspec.Struct, frozen=True, kw_only=True):
    """How the terminal UI looks."""

    theme: Literal["auto", "dark", "light", "none"] = "auto"
    """auto: as the terminal's background is; none: no colours."""


class Row(NamedTuple):
    key: str
    value: object
    """Plain data; of a secret only `set (ends …abcd)`."""
    origin: Origin


class Config(Guarded, frozen=True, kw_only=True):
    """Every setting with where it came from. Immutable; its repr holds no secret."""

    models: Models = Models()
    fallback: Fallback = Fallback()
    providers: dict[str, Provider] = msgspec.field(default_factory=dict[str, Provider])
    """Those that somebody said something about; ask `endpoint`."""
    prices: dict[str, Price] = msgspec.field(default_factory=dict[str, Price])
    """By model, like "local:any-model", or for all others of a provider: "local:*".

    They go before the price list.
    """
    defaults: Defaults = Defaults()
    limits: Limits = Limits(turns=50, seconds=600)
    """Of the command line's runs."""
    permissions: Permissions = Permissions()
    mcp_servers: dict[str, McpServer] = msgspec.field(default_factory=dict[str, McpServer])
    service: Service = Service()
    queues: dict[str, Queue] = msgspec.field(default_factory=dict[str, Queue])
    """Beside `default`, which there always is; ask `queue_names`."""
    workers: Workers = Workers()
    schedules: dict[str, Schedule] = msgspec.field(default_factory=dict[str, Schedule])
    agents: tuple[str, ...] = ()
    journal: str | None = None
    keep_runs: str | None = None
    """An age, like 90d: finished runs that are older are pruned when a runtime that ran something
    closes. None: kept for ever.
    """
    ui: Ui = Ui()
    telemetry: Telemetry = Telemetry()
    home: str | None = None
    """Treadle's own folder, where what providers told of their models is remembered; None: no files
    are read.
    """
    settings: dict[KeyPath, Setting] = msgspec.field(default_factory=dict[KeyPath, Setting])
    """By path; ask `origin`."""
    warnings: tuple[str, ...] = ()
    """For the person, once: what a workspace said in vain, a key that others may read."""
    known_secrets: frozenset[Secret] = frozenset()
    withheld_rules: frozenset[str] = frozenset()
    """Rules of an untrusted project. They count, and no model reads their text."""

    def origin(self, *path: str) -> Origin:
        """Of a key, like `origin("limits", "turns")`; the default's where nobody set it."""
        setting = self.settings.get(path)
        return setting.origin if setting else DEFAULT

    @property
    def queue_names(self) -> tuple[str, ...]:
        """Every queue that there is."""
        return tuple(dict.fromkeys((DEFAULT_QUEUE, *self.queues)))

    def rows(self) -> list[Row]:
        """Every key in the order of the manual, as it may be shown."""
        redactor, order = Redactor(self.secrets()), Config.__struct_fields__
        settings = sorted(self.settings.items(), key=lambda item: order.index(item[0][0]))
        return [
            Row(dotted(path), _showable(value, redactor), origin)
            for path, (value, origin) in settings
        ]

    def secrets(self) -> frozenset[str]:
        """Every secret value of the configuration and of the environment that was loaded, for a
        `Redactor`.
        """
        return frozenset(secret.reveal() for secret in self.known_secrets)

    def split(self, model: str) -> tuple[str, str]:
        """A model's name as provider and ID: "anthropic:x" -> ("anthropic", "x").

        Raises AgentError(invalid), with the nearest right name, where there is no such provider.
        """
        provider, colon, name = model.partition(":")
        provider = ALIASES.get(provider, provider)
        if not colon or not name:
            example = likely_name(model)
            raise AgentError(
                "invalid", f"{model!r} is no model's name: write PROVIDER:MODEL, like {example!r}"
            )
        if text := unknown_provider(provider, f" in {model!r}", self.providers):
            raise AgentError("invalid", text)
        return provider, name

    def endpoint(
        self,
        name: str,
        *,
        api_key: str | None = None,
        auth_token: str | None = None,
        to_ask: bool = True,
    ) -> Endpoint:
        """How to reach the provider `name`; `to_ask`: whether it will be asked, and so needs a key.

        Its key is the argument, else the configured one, else TREADLE_AGENT_API_KEY (for the
        default model's provider, and no workspace decides which one that is), else the vendor's own
        variable. Raises AgentError: invalid for an unknown provider or a value that cannot be sent,
        auth where there is no key.
        """
        name = ALIASES.get(name, name)
        if name not in VENDORS and name not in self.providers:
            raise AgentError(
                "invalid",
                unknown_provider(name, "", self.providers)
                or f"{name!r} is the name of a file, not of a provider",
            )
        provider = self.providers.get(name) or Provider(type=name)
        credentials = {"api_key": api_key, "auth_token": auth_token}
        return reach(
            name,
            provider,
            lambda field: str(self.origin("providers", name, field)),
            **credentials,
            to_ask=to_ask,
            files=self.home is not None,
        )

    def with_credentials(
        self, name: str, *, api_key: str | None = None, auth_token: str | None = None
    ) -> Config:
        """Replace the key of one provider and keep everything else, also what no file and no
        variable set.

        The old key stays among `secrets()`: texts may still hold it. Raises AgentError as
        `endpoint` does, and AgentError(invalid) unless exactly one of the two keys is given.
        """
        if bool(api_key) == bool(auth_token):
            raise AgentError(
                "invalid",
                (
                    f"the provider {name!r} needs either api_key= or auth_token=: give one of "
                    "them, and not an empty text"
                ),
            )
        reached = self.endpoint(name, api_key=api_key, auth_token=auth_token)
        key = reached.api_key or reached.auth_token
        assert key is not None, "one was given"
        replaced = {("providers", reached.name, other) for other in ("api_key", "auth_token")}
        settings = {
            path: setting for path, setting in self.settings.items() if path not in replaced
        }
        settings["providers", reached.name, reached.kind] = Setting(
            key, Origin("argument", reached.key_origin)
        )
        provider = self.providers.get(reached.name) or Provider(type=reached.name)
        provider = msgspec.structs.replace(
            provider, **{"api_key": None, "auth_token": None, reached.kind: key}
        )
        providers = {**self.providers, reached.name: provider}
        return msgspec.structs.replace(
            self, providers=providers, settings=settings, known_secrets=self.known_secrets | {key}
        )


def unknown_provider(name: str, where: str, configured: Mapping[str, object]) -> str | None:
    known = (*VENDORS, *STAND_INS, *configured)
    if name in known:
        return None
    near = nearest(name, (*known, *ALIASES))
    own = (
        "a server of your own is named in your configuration: providers: {NAME: {type: "
        "openai-chat, base_url: URL}}"
    )
    return f"unknown provider {name!r}{where}: " + (
        f"did you mean {near!r}?" if near else f"known are {', '.join(dict.fromkeys(known))}; {own}"
    )


def _showable(value: object, redactor: Redactor) -> object:
    match value:
        case Secret():
            return str(value)
        case str():
            return redactor.text(value)
        case tuple():
            return [_showable(item, redactor) for item in cast("tuple[object, ...]", value)]
        case _:
            return value


def built(settings: dict[KeyPath, Setting], **given: object) -> Config:
    """Make a configuration out of settings.

    `given`: fields that no setting has, such as `warnings`.
    """
    tree: dict[str, object] = {"settings": settings, **given}
    for path, setting in settings.items():
        inner = tree
        for name in path[:-1]:
            inner = cast("dict[str, object]", inner.setdefault(name, {}))
        inner[path[-1]] = setting.value
    return msgspec.convert(tree, met(Config))
