"""Settings of the environment and of options, and the secrets of both. Entry points: `FLAGS`,
`secrets_in`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from treadle._internal.redaction import Secret
from treadle._internal.secret_patterns import in_url, names_a_secret
from treadle.config.endpoint import AGENT_KEY, VENDOR_KEYS
from treadle.config.keys import (
    KeyPath,
)
from treadle.config.presets import PRESETS
from treadle.config.values import (
    Setting,
)

VARIABLES: Mapping[str, KeyPath] = {
    "TREADLE_MODEL": ("models", "large"),
    "TREADLE_JOURNAL": ("journal",),
}
ADDRESSES: Mapping[str, tuple[str, ...]] = {
    "ANTHROPIC_BASE_URL": ("anthropic",),
    "OPENAI_BASE_URL": ("openai", "openai-chat"),
    "GEMINI_BASE_URL": ("gemini",),
}

KEYS_OF_THE_ENVIRONMENT = frozenset(
    {
        AGENT_KEY,
        *(variable for offered in VENDOR_KEYS.values() for variable, _ in offered),
        *(preset.key_variable for preset in PRESETS.values() if preset.key_variable),
    }
)


def secrets_in(env: Mapping[str, str], settings: Mapping[KeyPath, Setting]) -> frozenset[str]:
    values: set[str] = set()
    for path, setting in settings.items():
        if isinstance(setting.value, Secret):
            value = setting.value.reveal()
            sure = path[-1] in ("api_key", "auth_token") or names_a_secret(path[-1])
            values.update((value, value.rpartition(" ")[2]) if sure else in_url(value))
        elif isinstance(setting.value, str):
            values.update(in_url(setting.value, address=path[-1] in ("url", "base_url")))
    for name, value in env.items():
        value = value.strip()
        if name in KEYS_OF_THE_ENVIRONMENT or (names_a_secret(name) and _no_word_or_path(value)):
            values.add(value)
        values.update(in_url(value))
    return frozenset(values - {""})


def _no_word_or_path(value: str) -> bool:
    """Return False for a single word, as in `SOME_KEY=off`, and for an existing path, because
    masking them would remove ordinary text.
    """
    return not value.isalpha() and not os.path.lexists(os.path.expanduser(value))


FLAGS: Mapping[str, KeyPath] = {
    "--model": ("models", "large"),
    "--max-turns": ("limits", "turns"),
    "--max-tool-calls": ("limits", "tool_calls"),
    "--max-tokens": ("limits", "tokens"),
    "--max-cost": ("limits", "cost_usd"),
    "--timeout": ("limits", "seconds"),
    "--max-output-tokens": ("defaults", "max_tokens"),
    "--effort": ("defaults", "effort"),
    "--mode": ("defaults", "mode"),
    "--no-sandbox": ("defaults", "sandbox"),
    "--journal": ("journal",),
    "--allow": ("permissions", "allow"),
    "--deny": ("permissions", "deny"),
    "--network": ("permissions", "network"),
}
