"""Environment of tools' child processes, without credentials, and the search path for programs that
Treadle itself starts.

Entry points: `child_environment`, `for_a_shell`, `path_outside`, `find_shell`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from treadle._internal.secret_patterns import PASSWORD_IN_URL, names_a_secret

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
"""Minimum length of a secret. Users give local servers keys such as `x`, which occur in PATH."""
NO_SECRETS = frozenset({"PWD"})
"""Variables with names like those of credentials that hold none."""
READ_BY_SHELLS = frozenset(
    {
        "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_COMPAT", "BASH_XTRACEFD", "BASH_LOADABLES_PATH", "POSIXLY_CORRECT", "_POSIX2_VERSION", "GLOBIGNORE",  # noqa: E501
        "EXECIGNORE", "CDPATH", "IFS", "PROMPT_COMMAND", "PS0", "PS4", "TMOUT", "INPUTRC", "GREP_OPTIONS", "RIPGREP_CONFIG_PATH", "LESSOPEN", "LESSCLOSE",  # noqa: E501
    }
)  # fmt: skip
"""Variables that change how a shell, or a program that the policy allows to read files, interprets
its command line (bash(1), grep(1), ripgrep's guide, less(1)). With one of them, a command would do
something other than the policy has checked."""


def find_shell(path: str) -> str:
    """Return the shell that runs commands: bash, from /bin or a folder of `path`; sh if there is
    none.
    """
    return (
        "/bin/bash"
        if os.access("/bin/bash", os.X_OK)
        else shutil.which("bash", path=path) or "/bin/sh"
    )


def child_environment(
    secrets: Collection[str], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a copy of the environment without credentials. Omits variables that hold a provider's
    key, have a name like DB_PASSWORD or X_TOKEN, or contain a password in a URL or one of
    `secrets`.

    Ignores secrets of less than 8 characters. To pass a credential to commands on purpose, give the
    variable another name.
    """
    source = os.environ if environment is None else environment
    known = [secret for secret in secrets if len(secret) >= SECRET_MIN_CHARS]
    return {
        name: value
        for name, value in source.items()
        if not _is_credential(name, value) and not any(secret in value for secret in known)
    }


def _is_credential(name: str, value: str) -> bool:
    if name in KEY_VARIABLES:
        return True
    return (names_a_secret(name) and name not in NO_SECRETS) or (
        "://" in value and PASSWORD_IN_URL.search(value) is not None
    )


def for_a_shell(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a copy without variables and exported functions that change the meaning of a command
    line.
    """
    return {
        name: value
        for name, value in environment.items()
        if name not in READ_BY_SHELLS and not name.startswith("BASH_FUNC_")
    }


def path_outside(path: str | None, workspace: Path) -> str:
    """Return the folders of a PATH in which no command of a run can have put a program: absolute,
    and outside `workspace`.

    For programs that are started without approval and unconfined. The folder of an activated
    virtual environment is often inside the workspace.
    """
    place = os.path.realpath(workspace)
    folders = [folder for folder in (path or os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    return os.pathsep.join(
        folder for folder in folders if not Path(os.path.realpath(folder)).is_relative_to(place)
    )
