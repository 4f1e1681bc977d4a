"""Locations of configuration: Treadle's own folder, the project around a directory, and the files
of both.

trust.py decides whether a project's files apply. Entry points: `home`, `project_of`,
`config_files`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from treadle.errors import AgentError

FOLDER = ".treadle"
CONFIG_NAME = "config.yaml"


class ConfigFile(NamedTuple):
    path: Path
    root: Path | None = None
    """Workspace that the file belongs to; None for the user's own."""


class Project(NamedTuple):
    """A directory and the project that contains it. Symlinks in both are resolved."""

    root: Path
    """Nearest folder above with a `.git`, or `here` if there is none."""
    here: Path

    def folders(self) -> list[Path]:
        """Return the folders from the root down to `here`."""
        return [
            *reversed([folder for folder in self.here.parents if folder.is_relative_to(self.root)]),
            self.here,
        ]


def home(env: Mapping[str, str]) -> Path:
    """Return Treadle's own folder: TREADLE_HOME, or else ~/.treadle. Workspace files cannot change
    it.

    The folder need not exist. Raises AgentError(invalid) if TREADLE_HOME is not a folder.
    """
    base = env.get("HOME") or env.get("USERPROFILE") or _home_of_user()
    given = re.sub(r"^~(?=/|$)", lambda _: base, env.get("TREADLE_HOME", "").strip())
    folder = Path(os.path.abspath(given or Path(base, FOLDER)))
    if given and os.path.exists(folder) and not os.path.isdir(folder):
        raise AgentError(
            "invalid", f"TREADLE_HOME={given!r} is not a folder: name one, or unset it"
        )
    return folder


def _home_of_user() -> str:
    """Return the user's home from the system's user database. An empty HOME would otherwise mean
    the root directory.
    """
    try:
        import pwd  # noqa: PLC0415  not on every system

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~")


def project_of(cwd: str | Path | None = None) -> Project | None:
    """Return the project around `cwd`, or None if the working directory does not exist."""
    try:
        here = Path(os.path.realpath(cwd or os.getcwd()))
    except OSError:
        return None
    return Project(
        next(
            (folder for folder in (here, *here.parents) if os.path.lexists(folder / ".git")), here
        ),
        here,
    )


def config_files(env: Mapping[str, str], cwd: str | Path | None = None) -> list[ConfigFile]:
    """Return the locations of configuration files in reading order; the files need not exist.

    The user's own comes first, then those of the project from its root down to `cwd`. Raises the
    errors of `home`.
    """
    own = home(env) / CONFIG_NAME
    if (project := project_of(cwd)) is None:
        return [ConfigFile(own)]
    places = [folder / FOLDER / CONFIG_NAME for folder in project.folders()]
    return [
        ConfigFile(own),
        *(
            ConfigFile(path, project.root)
            for path in places
            if os.path.realpath(path) != os.path.realpath(own)
        ),
    ]
