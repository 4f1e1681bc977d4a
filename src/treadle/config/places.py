"""Where configuration lies: Treadle's own folder, the project around a directory, and the files of
both.

What stands in them is for others, and whether a project's may count trust.py's. Entry: `home`,
`project_of`, `config_files`.
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
    """The workspace that it speaks for; None for the user's own."""


class Project(NamedTuple):
    """A directory, and the project that it belongs to. Links in both are resolved."""

    root: Path
    """The nearest folder above with a `.git`; `here` itself where there is none."""
    here: Path

    def folders(self) -> list[Path]:
        """From the root down to here."""
        return [
            *reversed([folder for folder in self.here.parents if folder.is_relative_to(self.root)]),
            self.here,
        ]


def home(env: Mapping[str, str]) -> Path:
    """Treadle's own folder: TREADLE_HOME, else ~/.treadle. No file of a workspace can move it.

    It need not exist. Raises AgentError(invalid) where TREADLE_HOME is something else than a
    folder.
    """
    base = env.get("HOME") or env.get("USERPROFILE") or _home_of_user()
    given = re.sub(r"^~(?=/|$)", lambda _: base, env.get("TREADLE_HOME", "").strip())
    folder = Path(os.path.abspath(given or Path(base, FOLDER)))
    if given and os.path.exists(folder) and not os.path.isdir(folder):
        raise AgentError("invalid", f"TREADLE_HOME={given!r} is no folder: name one, or unset it")
    return folder


def _home_of_user() -> str:
    """As the system knows it: an empty HOME would be the root of all files."""
    try:
        import pwd  # noqa: PLC0415  not on every system

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~")


def project_of(cwd: str | Path | None = None) -> Project | None:
    """The project around `cwd`; None where the working directory is gone."""
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
    """Where configuration is looked for, in the order in which it is read; the files need not
    exist. Raises as `home` does.

    The user's own, then those of the project from its root down to `cwd`.
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
