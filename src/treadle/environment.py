"""The environment that child processes of tools get: ours, without the keys of providers; and where we look for programs of our own.

Entry: `child_environment`, `path_outside`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

KEY_VARIABLES = frozenset(
    {
        "TREADLE_AGENT_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "OPENAI_ADMIN_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
    }
)

SECRET_MIN_CHARS = 8
"""Local servers are given keys like `x`, which stand in PATH by chance."""


def child_environment(secrets: Collection[str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy without the variables that hold a provider's key, and without any other that holds one of `secrets`.

    Secrets under 8 characters count for nothing.
    """
    source = os.environ if environment is None else environment
    known = [secret for secret in secrets if len(secret) >= SECRET_MIN_CHARS]
    return {name: value for name, value in source.items() if name not in KEY_VARIABLES and not any(secret in value for secret in known)}


def path_outside(path: str | None, workspace: Path) -> str:
    """The folders of a PATH where no command of a run can have put a program: none is relative, and none is in `workspace`.

    For what is started without a question and unconfined: the folder of an activated environment is often one of the workspace.
    """
    place = os.path.realpath(workspace)
    folders = [folder for folder in (path or os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    return os.pathsep.join(folder for folder in folders if not Path(os.path.realpath(folder)).is_relative_to(place))
