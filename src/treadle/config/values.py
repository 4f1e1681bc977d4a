"""Typed values of the configuration, each with its origin.

layers.py decides which layer wins. Entry points: `Config`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, cast

import msgspec
from typing_extensions import override

from treadle._internal.json_text import met
from treadle._internal.redaction import Redactor, Secret
from treadle.config.endpoint import (
    CredentialField,
    Endpoint,
    Guarded,
    Provider,
    built_in,
    plugged,
    reach,
)
from treadle.config.keys import (
    STAND_INS,
    VENDORS,
    KeyPath,
    dotted,
)
from treadle.config.plugins import offers
from treadle.config.presets import PRESETS
from treadle.config.readers import ALIASES, likely_name, nearest
from treadle.config.sections import (
    Defaults,
    Fallback,
    McpServer,
    Models,
    Permissions,
    Price,
    Telemetry,
    Ui,
)
from treadle.config.serving import Queue, Schedule, Service, Workers
from treadle.errors import AgentError
from treadle.types import (
    Limits,
)


class Origin(msgspec.Struct, frozen=True):
    """Source of a value."""

    source: Literal["default", "file", "environment", "flag", "argument"]
    name: str = ""
    """Path of the file, name of the variable, or option."""
    line: int | None = None
    before: Origin | None = None
    """Origin of the earlier part of a list that several layers extended."""

    @override
    def __str__(self) -> str:
        here = f"{self.name}:{self.line}" if self.line else self.name or self.source
        return f"{self.before}, {here}" if self.before else here


DEFAULT = Origin("default")
DEFAULT_QUEUE = "default"
"""Name of the queue that always exists: `run_queue.DEFAULT_QUEUE`."""


class Setting(NamedTuple):
    value: object
    origin: Origin


class Row(NamedTuple):
    key: str
    value: object
    """Plain data. A secret is shown as `set (ends …abcd)`."""
    origin: Origin


class Config(Guarded, frozen=True, kw_only=True):
    """Every setting with its origin. Immutable; its repr contains no secret.

    Attributes:
        models: Names of the large and the small model.
        fallback: Models that take over if one fails.
        providers: Explicitly configured providers. Use `endpoint` to resolve any provider.
        prices: Prices by model, like "local:any-model", or for all other models of a provider:
            "local:*". They take precedence over the price list.
        defaults: Model settings for all agents.
        limits: Limits of runs started from the command line.
        permissions: Rules for calls: allow, ask, deny.
        mcp_servers: MCP servers by name.
        service: Settings of `treadle serve`.
        queues: Queues in addition to `default`, which always exists. Use `queue_names` for all.
        workers: Settings of workers.
        schedules: Scheduled runs by name.
        agents: Modules that define agents.
        journal: URL of the journal.
        keep_runs: Age, like 90d, after which finished runs are pruned when a runtime that ran
            something closes. None: kept forever.
        ui: Settings of the terminal UI.
        telemetry: Settings of logs and traces.
        home: Treadle's own folder, which also caches model data reported by providers; None: no
            files are read.
        settings: Settings by path. Use `origin` to query one.
        warnings: Warnings to show once, such as ignored workspace settings or a key that others can
            read.
        known_secrets: Secret values, which are removed from everything that is stored or shown.
        withheld_rules: Rules of an untrusted project. They are enforced, but their text is never
            sent to a model.
    """

    models: Models = Models()
    fallback: Fallback = Fallback()
    providers: dict[str, Provider] = msgspec.field(default_factory=dict[str, Provider])
    prices: dict[str, Price] = msgspec.field(default_factory=dict[str, Price])
    defaults: Defaults = Defaults()
    limits: Limits = Limits(turns=50, seconds=600)
    permissions: Permissions = Permissions()
    mcp_servers: dict[str, McpServer] = msgspec.field(default_factory=dict[str, McpServer])
    service: Service = Service()
    queues: dict[str, Queue] = msgspec.field(default_factory=dict[str, Queue])
    workers: Workers = Workers()
    schedules: dict[str, Schedule] = msgspec.field(default_factory=dict[str, Schedule])
    agents: tuple[str, ...] = ()
    journal: str | None = None
    keep_runs: str | None = None
    ui: Ui = Ui()
    telemetry: Telemetry = Telemetry()
    home: str | None = None
    settings: dict[KeyPath, Setting] = msgspec.field(default_factory=dict[KeyPath, Setting])
    warnings: tuple[str, ...] = ()
    known_secrets: frozenset[Secret] = frozenset()
    withheld_rules: frozenset[str] = frozenset()

    def origin(self, *path: str) -> Origin:
        """Return the origin of a key, like `origin("limits", "turns")`; the default origin if it is
        not set.
        """
        setting = self.settings.get(path)
        return setting.origin if setting else DEFAULT

    @property
    def queue_names(self) -> tuple[str, ...]:
        """Names of all queues."""
        return tuple(dict.fromkeys((DEFAULT_QUEUE, *self.queues)))

    def rows(self) -> list[Row]:
        """Return every key in the order of the manual, with displayable values."""
        redactor, order = Redactor(self.secrets()), Config.__struct_fields__
        settings = sorted(self.settings.items(), key=lambda item: order.index(item[0][0]))
        return [
            Row(dotted(path), _showable(value, redactor), origin)
            for path, (value, origin) in settings
        ]

    def secrets(self) -> frozenset[str]:
        """Return every secret of the configuration and the loaded environment, for a `Redactor`."""
        return frozenset(secret.reveal() for secret in self.known_secrets)

    def split(self, model: str) -> tuple[str, str]:
        """Split a model name into provider and ID: "anthropic:x" -> ("anthropic", "x").

        Raises AgentError(invalid), with the nearest known name, for an unknown provider.
        """
        provider, colon, name = model.partition(":")
        provider = ALIASES.get(provider, provider)
        if not colon or not name:
            example = likely_name(model)
            raise AgentError(
                "invalid", f"{model!r} is not a model name: write PROVIDER:MODEL, like {example!r}"
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
        """Resolve the endpoint of a provider. `to_ask`: False if no request will be sent, so that
        no key is needed.

        The key is the argument, else the configured one, else TREADLE_AGENT_API_KEY (for the
        default model's provider, which no workspace can choose), else the vendor's own variable.
        Raises AgentError: invalid for an unknown provider or a value that cannot be sent, auth if
        the key is missing.
        """
        name = ALIASES.get(name, name)
        provider = self.providers.get(name) or built_in(name) or plugged(name)
        if provider is None:
            raise AgentError(
                "invalid",
                unknown_provider(name, "", self.providers)
                or f"{name!r} names a file, not a provider",
            )
        given: list[tuple[CredentialField, str | None]] = [
            ("api_key", api_key),
            ("auth_token", auth_token),
        ]
        return reach(
            name,
            provider,
            lambda field: str(self.origin("providers", name, field)),
            argument=next(((field, key) for field, key in given if key), None),
            to_ask=to_ask,
            files=self.home is not None,
        )

    def with_credentials(
        self, name: str, *, api_key: str | None = None, auth_token: str | None = None
    ) -> Config:
        """Replace the key of one provider and keep everything else, including values that a program
        set.

        The old key stays in `secrets()`, because texts may still contain it. Raises the errors of
        `endpoint`, and AgentError(invalid) unless exactly one of the two keys is given.
        """
        if bool(api_key) == bool(auth_token):
            raise AgentError(
                "invalid",
                (
                    f"the provider {name!r} needs either api_key= or auth_token=: pass one of "
                    "them, not an empty string"
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
        provider = (
            self.providers.get(reached.name)
            or built_in(reached.name)
            or Provider(type=reached.type)
        )
        provider = msgspec.structs.replace(
            provider, **{"api_key": None, "auth_token": None, reached.kind: key}
        )
        providers = {**self.providers, reached.name: provider}
        return msgspec.structs.replace(
            self, providers=providers, settings=settings, known_secrets=self.known_secrets | {key}
        )


def unknown_provider(name: str, where: str, configured: Mapping[str, object]) -> str | None:
    known = (*VENDORS, *PRESETS, *STAND_INS, *configured)
    if name in known or offers("models", name):
        return None
    near = nearest(name, (*known, *ALIASES))
    own = (
        "To use your own server, add it to the configuration: providers: {NAME: {type: "
        "openai-chat, base_url: URL}}"
    )
    return f"unknown provider {name!r}{where}" + (
        f": did you mean {near!r}?"
        if near
        else f". Available: {', '.join(dict.fromkeys(known))}. {own}"
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
    """Build a configuration from settings.

    `given`: fields that no setting has, such as `warnings`.
    """
    tree: dict[str, object] = {"settings": settings, **given}
    for path, setting in settings.items():
        inner = tree
        for name in path[:-1]:
            inner = cast("dict[str, object]", inner.setdefault(name, {}))
        inner[path[-1]] = setting.value
    return msgspec.convert(tree, met(Config))


def flat(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    """Yield every key with its value, except those under names chosen by the user."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if path or name not in (
                "home",
                "settings",
                "warnings",
                "known_secrets",
                "withheld_rules",
            ):
                yield from flat(getattr(value, name), (*path, name))
    elif not isinstance(value, dict):
        yield path, value
