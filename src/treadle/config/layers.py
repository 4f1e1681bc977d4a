"""Layered settings and their precedence: defaults, the user's file, workspace files, environment,
flags.

Later layers win, except for keys, and a workspace can only tighten. keys.py defines the keys and
endpoint.py resolves providers; nothing here prints or connects. Entry points: `load`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from treadle._internal.redaction import Redactor, Secret
from treadle.config.checks import field_of, problems_in, providers_in, wire_of
from treadle.config.endpoint import AGENT_KEY, key_variables
from treadle.config.environment import ADDRESSES, FLAGS, VARIABLES, secrets_in
from treadle.config.file import Broken, Unreadable, owned_alone, read_text
from treadle.config.file_settings import FoundValue, read_settings
from treadle.config.keys import KeyPath, dotted, find_key, read_value, refusal, shown
from treadle.config.places import CONFIG_NAME, ConfigFile, config_files, home, project_of
from treadle.config.presets import PRESETS, own_addresses
from treadle.config.readers import ALIASES, Wrong
from treadle.config.trust import Trust, trust_of
from treadle.config.values import (
    DEFAULT,
    Config,
    Origin,
    Setting,
    built,
    flat,
)
from treadle.errors import AgentError

PROBLEMS_MAX = 20
"""Maximum number of problems in one message. The rest are counted."""


# ---------------------------------------------------------------- the order


def load(
    env: Mapping[str, str] | None = None,
    *,
    cwd: str | Path | None = None,
    files: bool = True,
    flags: Mapping[str, str | int | float | Sequence[str] | None] | None = None,
    trusted: bool | None = None,
) -> Config:
    """Load the effective configuration.

    `env`: defaults to the process environment. `files`: False reads no configuration files, as in
    `Runtime.open`. `flags`: values by option, as in FLAGS; None means not given. `trusted`: True if
    agent modules and MCP servers of the workspace also apply; None: according to the stored trust
    (`treadle trust`), file by file. Raises AgentError(invalid), which lists every problem with its
    file and line.
    """
    env = os.environ if env is None else env
    own = home(env) if files else None
    trust = trust_of(own, project_of(cwd)) if own and trusted is None else bool(trusted)
    layers = Layers(env, trust=trust, home=str(own) if own else None)
    for file in config_files(env, cwd) if files else ():
        layers.add_file(file)
    return layers.finish(flags or {})


def own_secrets(env: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return every secret in the user's own file and the environment, even if other settings are
    invalid. Never raises.
    """
    return Layers(os.environ if env is None else env).own_secrets()


class Layers:
    """Settings read so far, with later layers over earlier ones.

    `problems` and `warnings` are collected, not raised.
    """

    def __init__(
        self, env: Mapping[str, str], *, trust: Trust | bool = False, home: str | None = None
    ) -> None:
        """Create the layers. `trust`: trust in the workspace, as a whole or file by file."""
        self._env = env
        self._home = home
        self._trust = trust
        self._settings = {path: Setting(value, DEFAULT) for path, value in flat(Config(), ())}
        self._own_model = Config().models.large
        self._refused: set[KeyPath] = set()
        """Keys with an invalid value, so that they are not also reported as missing."""
        self._rules: set[str] = set()
        """Permission rules of the user and of trusted files."""
        self._untrusted_rules: set[str] = set()
        self.problems: list[str] = []
        self.warnings: list[str] = (
            [trust.warning] if isinstance(trust, Trust) and trust.warning else []
        )

    def finish(
        self,
        flags: Mapping[str, str | int | float | Sequence[str] | None],
        given: Mapping[KeyPath, Setting] | None = None,
    ) -> Config:
        """Add environment, flags, a program's values and keys. Raises AgentError(invalid)."""
        for variable, path in VARIABLES.items():
            if value := self._env.get(variable, "").strip():
                self._add_value(path, value, Origin("environment", variable))
        for variable, names in ADDRESSES.items():
            if value := self._env.get(variable, "").strip():
                # validated on use, because the variable may be meant for another program
                self._settings |= {
                    ("providers", name, "base_url"): Setting(value, Origin("environment", variable))
                    for name in names
                }
        for name, value, variable in own_addresses(self._env):
            self._settings["providers", name, "base_url"] = Setting(
                value, Origin("environment", variable)
            )
        for option, value in flags.items():
            if value is not None:
                self._add_value(FLAGS[option], value, Origin("flag", option))
        self._settings |= given or {}
        if given and (model := given.get(("models", "large"))) is not None:
            self._own_model = str(model.value)
        self._add_keys()
        self._check()
        secrets = secrets_in(self._env, self._settings)
        if self.problems:
            raise AgentError("invalid", Redactor(secrets).text("\n".join(_bounded(self.problems))))
        return built(
            self._settings,
            warnings=tuple(_bounded(self.warnings)),
            known_secrets=frozenset(map(Secret, secrets)),
            withheld_rules=frozenset(self._untrusted_rules - self._rules),
            home=self._home,
        )

    def own_secrets(self) -> frozenset[str]:
        """Return the secrets of the environment and of the user's own file, as far as it can be
        read.
        """
        with suppress(AgentError):
            self.add_file(ConfigFile(home(self._env) / CONFIG_NAME))
        return secrets_in(self._env, self._settings)

    # ---- files

    def add_file(self, file: ConfigFile) -> None:
        path, root = file
        real = Path(os.path.realpath(path))
        if root and not real.is_relative_to(root):
            self.warnings.append(f"{path}:1: is ignored: the link leaves the workspace {root}")
            return
        try:
            if opened := read_text(real, own=root is None):
                trusted = (
                    self._trust.admits(path, opened.data)
                    if isinstance(self._trust, Trust)
                    else self._trust
                )
                self.add_text(file, opened.text, opened.mode, trusted=trusted)
        except Unreadable as e:
            (self.warnings if root else self.problems).append(
                f"{path}:{e.line}: {e.text}" + (": it is ignored" if root else "")
            )
        except Broken as e:
            self.problems.append(f"{path}:{e.line}: {e.text}")

    def add_text(
        self, file: ConfigFile, text: str, mode: int = 0o600, *, trusted: bool = False
    ) -> None:
        """Add the settings in a text. Raises Broken."""
        from treadle.config.document import parse  # noqa: PLC0415  most starts read no file, and the library costs 30 ms

        path, root = file
        document = parse(text)
        reading = read_settings(document.root, workspace=root is not None, trusted=trusted)
        self.problems += (
            f"{path}:{d.line}: the key {d.key!r} is given twice (first in line {d.first})"
            for d in document.duplicates
        )
        self.problems += (f"{path}:{remark.line}: {remark.text}" for remark in reading.wrong)
        self._refused.update(remark.path for remark in reading.wrong)
        self.warnings += (f"{path}:{remark.line}: {remark.text}" for remark in reading.ignored)
        for found in self._resolved(path, reading.found):
            self._add(found, Origin("file", str(path), found.line), root, trusted=trusted)
        held = next(
            (found.line for found in reading.found if isinstance(found.value, Secret)), None
        )
        if root is None and held and mode & 0o077:
            self.warnings.append(
                f"{path}:{held}: contains a key and is readable by others (mode {mode:04o}): "
                f"{owned_alone(path)}"
            )

    def _resolved(self, path: Path, found: list[FoundValue]) -> Iterator[FoundValue]:
        """Yield each key once, with top-level `provider` and `model` as models.large and `claude`
        as anthropic.
        """
        top = {f.path[0]: f for f in found if f.path in (("provider",), ("model",))}
        rest = [f for f in found if f not in top.values()]
        named = [
            f._replace(path=("providers", ALIASES.get(f.path[1], f.path[1]), *f.path[2:]))
            if f.path[0] == "providers"
            else f
            for f in rest
        ]
        lines: dict[KeyPath, int] = {}
        for f in (*named, *self._chosen(path, top, named)):
            if f.path in lines:
                self.problems.append(
                    f"{path}:{f.line}: {dotted(f.path)} is set twice (first in line "
                    f"{lines[f.path]}): keep one of them"
                )
            else:
                lines[f.path] = f.line
                yield f

    def _chosen(
        self, path: Path, top: Mapping[str, FoundValue], rest: list[FoundValue]
    ) -> Iterator[FoundValue]:
        if not top:
            return
        line = max(f.line for f in top.values())
        provider = str(top["provider"].value) if "provider" in top else "anthropic"
        provider = ALIASES.get(provider, provider)
        own = self._settings.get(("providers", provider, "model"))
        models = (
            [top["model"].value]
            if "model" in top
            else [f.value for f in rest if f.path == ("providers", provider, "model")]
        )
        models += [own.value] if own else [Config().models.large] if provider == "anthropic" else []
        if not models:
            self.problems.append(
                f"{path}:{line}: the provider {provider!r} has no default model: add a key "
                "'model' with its ID"
            )
            return
        model = str(models[0])
        whole = model.startswith(f"{provider}:") or ("provider" not in top and ":" in model)
        yield FoundValue(("models", "large"), model if whole else f"{provider}:{model}", line)

    # ---- values

    def _add(
        self, found: FoundValue, origin: Origin, root: Path | None = None, *, trusted: bool = False
    ) -> None:
        path, value, _ = found
        key, now = find_key(path), self._settings.get(path)
        if (
            root
            and callable(key.workspace)
            and (
                reason := key.workspace(
                    value, now.value if now else None, providers_in(self._settings)
                )
            )
        ):
            self.warnings.append(f"{origin}: {dotted(path)} is ignored: {reason}")
            return
        if path[0] == "permissions":
            (self._rules if root is None or trusted else self._untrusted_rules).update(
                text.strip() for text in _texts(value)
            )
        if key.joins and now and now.origin != DEFAULT:
            value = tuple(dict.fromkeys((*_texts(now.value), *_texts(value))))
            origin = msgspec.structs.replace(origin, before=now.origin)
        self._settings[path] = Setting(value, origin)
        if path == ("models", "large") and root is None:
            self._own_model = str(value)

    def _add_value(
        self, path: KeyPath, value: str | int | float | Sequence[str], origin: Origin
    ) -> None:
        key = find_key(path)
        try:
            self._add(
                FoundValue(
                    path,
                    read_value(key, value if isinstance(value, str | int | float) else list(value)),
                    0,
                ),
                origin,
            )
        except Wrong as e:
            got = value if isinstance(value, str | int | float) or e.item is None else value[e.item]
            got = shown(got if isinstance(got, str | int | float) else list(got))
            self.problems.append(
                refusal((str(origin),), e, got)
                if origin.source in ("flag", "environment")
                else f"{origin}: {refusal(path, e, got)}"
            )

    def _add_keys(self) -> None:
        """Add keys from the environment for providers that have none."""
        default = self._own_model.partition(":")[0]
        for name in dict.fromkeys((*providers_in(self._settings), *PRESETS)):
            if (
                field_of(self._settings, name, "api_key")
                or field_of(self._settings, name, "auth_token")
                or not (wire := wire_of(self._settings, name))
            ):
                continue
            address = self._settings.get(("providers", name, "base_url"))
            own_address = address is not None and address.origin.source in ("file", "argument")
            offered = key_variables(name, wire, own_address=own_address)
            for variable, field in (
                ((AGENT_KEY, "api_key"), *offered) if name == default else offered
            ):
                if value := self._env.get(variable, "").strip():
                    self._settings["providers", name, field] = Setting(
                        Secret(value), Origin("environment", variable)
                    )
                    break

    def _check(self) -> None:
        self.problems += problems_in(self._settings, self._refused)
        for name in {path[1] for path in self._settings if path[0] == "providers"}:
            if wire_of(self._settings, name) == name:
                self._settings.setdefault(("providers", name, "type"), Setting(name, DEFAULT))
        for name in {path[1] for path in self._settings if path[0] == "providers"} & {*PRESETS}:
            kind = self._settings.setdefault(
                ("providers", name, "type"), Setting(PRESETS[name].type, DEFAULT)
            )
            if kind.value == PRESETS[name].type:
                self._settings.setdefault(
                    ("providers", name, "base_url"), Setting(PRESETS[name].base_url, DEFAULT)
                )


def _texts(value: object) -> tuple[str, ...]:
    return (
        tuple(str(item) for item in cast("tuple[object, ...]", value))
        if isinstance(value, tuple)
        else ()
    )


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - PROBLEMS_MAX
    return lines if more <= 0 else [*lines[:PROBLEMS_MAX], f"and {more} more"]
