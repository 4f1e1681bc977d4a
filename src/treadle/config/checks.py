"""Checks of the merged settings that concern several keys together.

readers.py validates single values; layers.py merges the settings. Entry points: `problems_in`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from treadle.config.keys import VENDORS, KeyPath, dotted
from treadle.config.plugins import offers
from treadle.config.presets import PRESETS
from treadle.config.values import DEFAULT_QUEUE, Setting, unknown_provider

Settings: TypeAlias = Mapping[KeyPath, Setting]


def providers_in(settings: Settings) -> list[str]:
    """Return the built-in providers and those that the settings configure."""
    return list(
        dict.fromkeys((*VENDORS, *(path[1] for path in settings if path[0] == "providers")))
    )


def field_of(settings: Settings, provider: str, field: str) -> object:
    setting = settings.get(("providers", provider, field))
    return setting.value if setting else None


def wire_of(settings: Settings, provider: str) -> str | None:
    """Return the type of a provider, or None if it is custom and has none."""
    given = field_of(settings, provider, "type")
    if given:
        return str(given)
    preset = PRESETS.get(provider)
    if preset is not None:
        return preset.type
    return provider if provider in VENDORS or offers("models", provider) else None


def problems_in(settings: Settings, refused: Collection[KeyPath]) -> Iterator[str]:
    """Yield problems of the settings as a whole. `refused`: keys with an invalid value, which are
    not reported as missing too.
    """
    for name in providers_in(settings):
        yield from _provider_problems(settings, name)
    yield from _model_problems(settings)
    yield from _price_problems(settings, refused)
    yield from _server_problems(settings)
    yield from _queue_problems(settings)
    yield from _schedule_problems(settings, refused)


def _names(settings: Settings, group: str) -> list[str]:
    return list(dict.fromkeys(path[1] for path in settings if path[0] == group))


def _fields(settings: Settings, group: str, name: str) -> dict[str, Setting]:
    return {path[2]: setting for path, setting in settings.items() if path[:2] == (group, name)}


def _provider_problems(settings: Settings, name: str) -> Iterator[str]:
    wire = wire_of(settings, name)
    if wire is None:
        first = next(iter(_fields(settings, "providers", name).values()))
        yield f"{first.origin}: providers.{name} needs a type: one of {', '.join(VENDORS)}"
    elif name in VENDORS and wire != name:
        yield (
            f"{settings['providers', name, 'type'].origin}: {name!r} is always of type "
            f"{name!r}: give this provider another name"
        )


def _model_problems(settings: Settings) -> Iterator[str]:
    for size in ("large", "small"):
        model, origin = settings["models", size]
        provider = str(model).partition(":")[0]
        known = dict.fromkeys(providers_in(settings))
        if text := unknown_provider(provider, f" in {model!r}", known):
            yield f"{origin}: {text}"


def _price_problems(settings: Settings, refused: Collection[KeyPath]) -> Iterator[str]:
    for name in _names(settings, "prices"):
        given = _fields(settings, "prices", name)
        missing = [
            key
            for key in ("input", "output")
            if key not in given and ("prices", name, key) not in refused
        ]
        if missing:
            yield (
                f"{next(iter(given.values())).origin}: {dotted(('prices', name))} needs "
                f"{' and '.join(missing)} too"
            )


def _server_problems(settings: Settings) -> Iterator[str]:
    for name in _names(settings, "mcp_servers"):
        given = _fields(settings, "mcp_servers", name)
        if ("command" in given) == ("url" in given):
            first = next(iter(given.values()))
            yield f"{first.origin}: mcp_servers.{name} needs either a command or a url"


def _queue_problems(settings: Settings) -> Iterator[str]:
    names = {DEFAULT_QUEUE, *_names(settings, "queues")}
    for path, (value, origin) in settings.items():
        names_queue = path[0] in ("service", "schedules") and path[-1] == "queue" and len(path) < 4
        if names_queue and value is not None and value not in names:
            yield (
                f"{origin}: {dotted(path)}: unknown queue {value!r}. Available: "
                f"{', '.join(sorted(names))}. To add it, list it under queues"
            )


def _schedule_problems(settings: Settings, refused: Collection[KeyPath]) -> Iterator[str]:
    for name in _names(settings, "schedules"):
        given = _fields(settings, "schedules", name)
        there = {path[2] for path in refused if path[:2] == ("schedules", name)} | {
            key for key, setting in given.items() if setting.value is not None
        }
        if missing := [key for key in ("agent", "prompt", "cron") if key not in there]:
            yield (
                f"{next(iter(given.values())).origin}: {dotted(('schedules', name))} needs "
                f"{' and '.join(missing)} too"
            )
