"""Schema of the configuration: every key, with its reader and the rule for workspaces.

readers.py validates values; file_settings.py reads the settings of a file. Entry points: `SCHEMA`,
`find_key`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import msgspec

from treadle._internal.redaction import Secret
from treadle.config.hosts import network
from treadle.config.readers import (
    Reader,
    Wrong,
    age,
    any_text,
    anything,
    base_url,
    cache,
    command,
    credential,
    efforts,
    fallback_kinds,
    file_path,
    header,
    hosted_tools,
    journal,
    max_tokens,
    model_name,
    model_names,
    modules,
    nearest,
    one_of,
    plugged,
    positive,
    price,
    rules,
    slots,
    temperature,
    text,
    texts,
    thinking,
    url,
    whole,
    yes_or_no,
)
from treadle.config.serving_readers import (
    addresses,
    cron,
    grace,
    host_and_port,
    host_names,
    lease,
    poll,
    seconds,
    timezone,
)
from treadle.config.workspace import (
    TIGHT_TO_LOOSE,
    Rule,
    free,
    lower,
    narrower,
    own_provider,
    tighter,
)
from treadle.types import Effort, ServiceTier, UnsupportedMedia

if TYPE_CHECKING:
    from treadle.config.document import Plain

VENDORS = ("anthropic", "openai", "openai-chat", "gemini")
"""Built-in providers, which are also the possible types of all others."""
STAND_INS = ("script", "tape", "record")
"""Model prefixes that name a file instead of a provider."""

KeyPath: TypeAlias = tuple[str, ...]


# ---------------------------------------------------------------- the keys


class KeySpec(msgspec.Struct, frozen=True):
    read: Reader
    workspace: Literal["never", "when trusted"] | Rule = "never"
    secret: bool = False
    """True if the value is a `Secret`, which is never shown."""
    nullable: bool = False
    """True if `null` is a value; otherwise `null` leaves the key unset."""
    absent_if_empty: bool = False
    """True if an empty string leaves the key unset, as `null` does, because deployment templates
    write `api_key: ""` for a missing key.
    """
    joins: bool = False
    """True if layers extend the list instead of replacing it."""


class NamedMapping(msgspec.Struct, frozen=True):
    """A mapping whose keys are names chosen by the user."""

    pattern: re.Pattern[str]
    inner: Schema
    bare: str | None = None
    """Key that is set to null for a name without settings, so that the name itself is recorded."""


Schema: TypeAlias = "KeySpec | NamedMapping | dict[str, Schema]"

PRICED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}:\S.{0,255}")
"""A model, or `PROVIDER:*`."""
MODEL_ID = re.compile(r"\S{1,256}")
"""A model id, or a prefix with `*`."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,127}")

ABILITIES: dict[str, Schema] = {
    **dict.fromkeys(("context_tokens", "output_tokens"), KeySpec(whole)),
    **dict.fromkeys(
        ("images", "documents", "tools", "apply_patch", "tool_search"), KeySpec(yes_or_no)
    ),
    **dict.fromkeys(("forced_tools", "temperature", "reasoning"), KeySpec(yes_or_no)),
    "efforts": KeySpec(efforts),
    **dict.fromkeys(("compaction", "system_messages"), KeySpec(yes_or_no)),
    "structured_output": KeySpec(one_of("native", "tool", "prompt")),
    "structured_with_tools": KeySpec(yes_or_no),
}
"""Abilities of a model, as in model_profile.py."""

SCHEMA: dict[str, Schema] = {
    "provider": KeySpec(text, free),
    "model": KeySpec(text, free),
    "models": {
        "large": KeySpec(model_name, own_provider),
        "small": KeySpec(model_name, own_provider),
    },
    "fallback": {"models": KeySpec(model_names), "on": KeySpec(fallback_kinds)},
    "providers": NamedMapping(
        NAME,
        {
            "type": KeySpec(plugged("models", *VENDORS)),
            "api_key": KeySpec(credential, secret=True, absent_if_empty=True),
            "auth_token": KeySpec(credential, secret=True, absent_if_empty=True),
            "base_url": KeySpec(base_url),
            "server": KeySpec(text),
            "preamble": KeySpec(any_text),
            "timeout_s": KeySpec(positive),
            "total_timeout_s": KeySpec(positive),
            "model": KeySpec(text),
            "headers": NamedMapping(HEADER_NAME, KeySpec(header, secret=True)),
            "abilities": NamedMapping(MODEL_ID, ABILITIES),
        },
    ),
    "prices": NamedMapping(
        PRICED,
        {
            "input": KeySpec(price),
            "output": KeySpec(price),
            **dict.fromkeys(("cache_read", "cache_write", "cache_write_1h"), KeySpec(price)),
            **dict.fromkeys(("web_searches", "file_searches", "containers"), KeySpec(price)),
        },
    ),
    "defaults": {
        "max_tokens": KeySpec(max_tokens, free, nullable=True),
        "temperature": KeySpec(temperature, free, nullable=True),
        "thinking": KeySpec(thinking, free, nullable=True),
        "effort": KeySpec(one_of(*get_args(Effort)), free, nullable=True),
        "show_thinking": KeySpec(yes_or_no, free, nullable=True),
        "strict_tools": KeySpec(yes_or_no, free, nullable=True),
        "hosted_tools": KeySpec(hosted_tools, nullable=True),
        "compact_at_tokens": KeySpec(whole, free, nullable=True),
        "native_compaction": KeySpec(yes_or_no, free, nullable=True),
        "cache": KeySpec(cache, free, nullable=True),
        "service_tier": KeySpec(one_of(*get_args(ServiceTier)), nullable=True),
        "unsupported_media": KeySpec(one_of(*get_args(UnsupportedMedia)), free, nullable=True),
        "mode": KeySpec(one_of(*TIGHT_TO_LOOSE), tighter),
        "sandbox": KeySpec(plugged("sandboxes", "auto", "on", "off")),
    },
    "limits": {
        "turns": KeySpec(whole, lower, nullable=True),
        "tool_calls": KeySpec(whole, lower, nullable=True),
        "seconds": KeySpec(positive, lower, nullable=True),
        "tokens": KeySpec(whole, lower, nullable=True),
        "cost_usd": KeySpec(positive, lower, nullable=True),
        "repeats": KeySpec(whole, lower, nullable=True),
    },
    "permissions": {
        "allow": KeySpec(rules, joins=True),
        "ask": KeySpec(rules, free, joins=True),
        "deny": KeySpec(rules, free, joins=True),
        "network": KeySpec(network, narrower),
    },
    "mcp_servers": NamedMapping(
        NAME,
        {
            "command": KeySpec(command, "when trusted"),
            "env": NamedMapping(VARIABLE, KeySpec(any_text, "when trusted", secret=True)),
            "url": KeySpec(url, "when trusted"),
            "headers": NamedMapping(HEADER_NAME, KeySpec(header, "when trusted", secret=True)),
            "tools": KeySpec(texts, "when trusted"),
            "timeout_s": KeySpec(positive, "when trusted"),
            "wait_s": KeySpec(positive, "when trusted"),
            "trust_hints": KeySpec(yes_or_no),
            "deferred": KeySpec(yes_or_no, "when trusted"),
        },
    ),
    "service": {
        "limits": {
            "requests_per_minute": KeySpec(whole, lower),
            "runs": KeySpec(whole, lower),
            "streams": KeySpec(whole, lower),
            "tokens_per_day": KeySpec(whole, lower),
            "cost_usd_per_day": KeySpec(positive, lower),
            "body_bytes": KeySpec(whole, lower),
        },
        "totals": {
            "accounts_per_hour": KeySpec(whole, lower),
            "tokens_per_day": KeySpec(whole, lower),
            "cost_usd_per_day": KeySpec(positive, lower),
        },
        "hosts": KeySpec(host_names),
        "public_url": KeySpec(base_url),
        "agents": KeySpec(texts),
        "registration": KeySpec(one_of("open", "closed")),
        "proxies": KeySpec(addresses),
        "open_docs": KeySpec(yes_or_no),
        "grace_s": KeySpec(grace),
        "queue": KeySpec(text),
    },
    "queues": NamedMapping(
        NAME,
        {
            "concurrency": KeySpec(whole, nullable=True),
            "per_tenant": KeySpec(whole, nullable=True),
            "rate": KeySpec(whole, nullable=True),
            "period_s": KeySpec(positive),
        },
        bare="concurrency",
    ),
    "workers": {
        "engine": KeySpec(plugged("engines", "local", "dbos")),
        "lease_s": KeySpec(lease),
        "slots": KeySpec(slots),
        "grace_s": KeySpec(seconds),
        "poll_s": KeySpec(poll),
        "metrics": KeySpec(host_and_port),
    },
    "schedules": NamedMapping(
        NAME,
        {
            "agent": KeySpec(text),
            "prompt": KeySpec(text),
            "cron": KeySpec(cron),
            "queue": KeySpec(text),
            "inputs": NamedMapping(VARIABLE, KeySpec(anything, nullable=True)),
            "timezone": KeySpec(timezone),
        },
        bare="agent",
    ),
    "agents": KeySpec(modules, "when trusted"),
    "journal": KeySpec(journal),
    "keep_runs": KeySpec(age),
    "ui": {"theme": KeySpec(one_of("auto", "dark", "light", "none"), free)},
    "telemetry": {
        "otel": KeySpec(yes_or_no),
        "content": KeySpec(yes_or_no),
        "logs": KeySpec(one_of("off", "text", "json")),
        "log_file": KeySpec(file_path),
    },
}


# ---------------------------------------------------------------- values and names


def read_value(key: KeySpec, value: Plain) -> object:
    """Read a value for a key. Raises Wrong."""
    read = key.read(value)
    return Secret(read) if key.secret and isinstance(read, str) else read


def refusal(path: KeyPath, wrong: Wrong, got: str) -> str:
    return f"{dotted(path)} must be {wrong.expected}{f', not {got}' if got else ''}{wrong.hint}"


def shown(value: Plain) -> str:
    """Format a value for a message."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return _clipped(value)
    return (
        {None: "nothing", True: "true", False: "false"}[value]
        if value is None or isinstance(value, bool)
        else str(value)[:60]
    )


def find_key(path: KeyPath) -> KeySpec:
    """Return the spec of a key. Raises LookupError, with the nearest name, if there is none."""
    schema: Schema = SCHEMA
    for i, name in enumerate(path):
        if isinstance(schema, KeySpec):
            raise LookupError(
                f"{dotted(path[:i])} is a single value and has nothing named {name!r}"
            )
        schema = inside(schema, name, path[:i])
    if not isinstance(schema, KeySpec):
        names = "NAME" if isinstance(schema, NamedMapping) else ", ".join(schema)
        raise LookupError(f"{dotted(path)} is a group: name a key in it: {names}")
    return schema


def inside(schema: dict[str, Schema] | NamedMapping, name: str, path: KeyPath) -> Schema:
    """Return the schema under `name`. Raises LookupError with a message for the user."""
    where = f" in {dotted(path)}" if path else ""
    if isinstance(schema, NamedMapping):
        if schema.pattern.fullmatch(name) and name not in STAND_INS:
            return schema.inner
        raise LookupError(f"{_clipped(name)} cannot be a name{where}")
    if name in schema:
        return schema[name]
    known = list(schema)
    if near := nearest(name, known) or next(
        (dotted(leaf) for leaf in _key_paths() if leaf[-1] == name), None
    ):
        raise LookupError(f"unknown key {_clipped(name)}{where}: did you mean {near!r}?")
    raise LookupError(f"unknown key {_clipped(name)}{where}: known keys are {', '.join(known)}")


def dotted(path: KeyPath) -> str:
    return ".".join(name if HEADER_NAME.fullmatch(name) else _clipped(name) for name in path)


def _clipped(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")


def _key_paths(schema: Schema = SCHEMA, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(schema, KeySpec):
        yield path
    elif isinstance(schema, dict):
        for name, inner in schema.items():
            yield from _key_paths(inner, (*path, name))
