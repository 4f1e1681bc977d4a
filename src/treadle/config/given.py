"""Completion of a program's own configuration from the environment. Entry points: `completed`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from treadle.config.endpoint import Provider
from treadle.config.keys import KeyPath
from treadle.config.layers import Layers
from treadle.config.readers import ALIASES
from treadle.config.sections import McpServer, Price
from treadle.config.serving import Queue, Schedule
from treadle.config.values import Config, Origin, Setting, flat
from treadle.errors import AgentError

_NAMED: Final[Mapping[str, type[msgspec.Struct]]] = {
    "providers": Provider,
    "prices": Price,
    "mcp_servers": McpServer,
    "queues": Queue,
    "schedules": Schedule,
}
"""Fields that are mappings, with the type of their values."""
_REACHED: Final = ("type", "api_key", "auth_token", "base_url")
"""Fields of a provider that the environment can set."""
_GIVEN: Final = Origin("argument", "config=")


def completed(config: Config, env: Mapping[str, str] | None = None) -> Config:
    """Fill the defaults of `config` from the environment: keys, base URLs, TREADLE_MODEL. Explicit
    values take precedence.

    A configuration made by `load`, or derived from one, is complete and returned unchanged. Raises
    AgentError(invalid) for a value of the wrong type and for anything `load` rejects.
    """
    if ("models", "large") in config.settings:
        return config
    _check_types(config)
    defaults = dict(flat(Config(), ()))
    given: dict[KeyPath, Setting] = {
        path: Setting(value, _GIVEN) for path, value in flat(config, ()) if value != defaults[path]
    }
    providers = {ALIASES.get(name, name): provider for name, provider in config.providers.items()}
    for name, provider in providers.items():
        given |= {
            ("providers", name, field): Setting(value, _GIVEN)
            for field in _REACHED
            if (value := getattr(provider, field))
        }
    made = Layers(os.environ if env is None else env).finish({}, given | config.settings)
    reached = {
        name: {field: getattr(found, field) for field in _REACHED}
        for name, found in made.providers.items()
    }
    return msgspec.structs.replace(
        made,
        **{name: getattr(config, name) for name in _NAMED if name != "providers"},
        providers=made.providers
        | {
            name: msgspec.structs.replace(provider, **reached.get(name, {}))
            for name, provider in providers.items()
        },
        home=config.home,
        warnings=(*config.warnings, *made.warnings),
        known_secrets=made.known_secrets
        | config.known_secrets
        | {secret for one in providers.values() for secret in one.headers.values()},
        withheld_rules=config.withheld_rules,
    )


def _check_types(config: Config) -> None:
    """Raise AgentError(invalid) for a field of the wrong type, such as a mapping in place of a
    struct, which would otherwise fail much later.
    """
    default = Config()
    for name in Config.__struct_fields__:
        value: object = getattr(config, name)
        if (kind := _NAMED.get(name)) is not None:
            for key, inner in getattr(config, name).items():
                if not isinstance(inner, kind):
                    raise AgentError(
                        "invalid",
                        (
                            f"Config({name}={{{key!r}: …}}) contains a value of type "
                            f"{type(inner).__name__}: pass {kind.__name__}(…)"
                        ),
                    )
        elif isinstance(expected := getattr(default, name), msgspec.Struct) and not isinstance(
            value, type(expected)
        ):
            raise AgentError(
                "invalid",
                f"Config({name}=…) is a {type(value).__name__}: pass {type(expected).__name__}(…)",
            )
