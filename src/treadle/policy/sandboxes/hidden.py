"""Files outside the workspace that are hidden from confined commands: keys, passwords, private
data, and Treadle's own directory.

In home directories, known places (secret_places.py) are hidden, and names at the top level and in
`.config` are checked; the rest of the disk is readable. workspace_secrets.py finds secrets of the
workspace. Entry: `HiddenPlaces`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import NamedTuple

from treadle._internal.wildcards import wildcards
from treadle.policy.guarded_paths import SECRET, is_secret, may_be_secret_name
from treadle.policy.secret_places import ONLY_IN_HOME, PLACES

OF_THE_SYSTEM = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_*_key",
    "/etc/wireguard",
    "/etc/ipsec.secrets",
)
"""Places that only root can read, even without any capability."""
MOVED = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
    "CARGO_HOME": ".cargo",
    "GNUPGHOME": ".gnupg",
    "DOCKER_CONFIG": ".docker",
    "AZURE_CONFIG_DIR": ".azure",
    "CLOUDSDK_CONFIG": ".config/gcloud",
    "GH_CONFIG_DIR": ".config/gh",
    "HF_HOME": ".cache/huggingface",
    "CLAUDE_CONFIG_DIR": ".claude",
    "CODEX_HOME": ".codex",
}
"""Variables that relocate a directory of the home directory."""
NAMED = (
    "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "NETRC", "PGPASSFILE",  # noqa: E501
    "PGSERVICEFILE", "NPM_CONFIG_USERCONFIG", "REGISTRY_AUTH_FILE", "HISTFILE", "PYTHON_HISTORY", "XAUTHORITY", "BOTO_CONFIG", "DATABRICKS_CONFIG_FILE",  # noqa: E501
    "SOPS_AGE_KEY_FILE", "RCLONE_CONFIG",
)  # fmt: skip
"""Variables that name a file with credentials, or several separated by colons."""
EMPTIED = frozenset({".yarnrc.yml"})
"""Files that programs must be able to read. An empty file replaces them."""

_ALSO_LISTED = 200
"""Directories in `.config` whose names are checked."""


class Hidden(NamedTuple):
    path: Path
    is_folder: bool

    @property
    def is_emptied(self) -> bool:
        return self.path.name in EMPTIED


class HiddenPlaces:
    """Index of the hidden places of one home directory. Caches the names in each directory until
    its ctime changes.
    """

    def __init__(
        self, home: Path, own: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Create a list of hidden places. `own`: Treadle's directory. `environment`: the user's
        variables; by default those of this process.
        """
        self._home, self._own = str(home), own
        self._environment = os.environ if environment is None else environment
        self._known: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._of_the_system: list[str] | None = None
        self._found: list[Hidden] | None = None
        self._seen: dict[str, int] = {}
        """Directories from which `_found` was computed, with their ctimes.

        A new place can only appear in one of them.
        """

    def look(self) -> Sequence[Hidden]:
        """Return the places that currently exist and are readable, sorted, none below another.

        Blocks for a fraction of a millisecond.
        """
        if self._found is None or any(
            _changed(folder) != changed for folder, changed in self._seen.items()
        ):
            self._seen = {}
            self._found = self._look()
        return self._found

    def _look(self) -> list[Hidden]:
        if self._of_the_system is None:
            self._of_the_system = [path for pattern in OF_THE_SYSTEM for path in glob(pattern)]
        candidates = {*self._of_the_system, *self._of_home()}
        if self._own is not None:
            candidates.add(str(self._own))
        for name, folder in MOVED.items():
            if moved := self._environment.get(name):
                candidates.update(self._in_places(moved, _below(folder)))
        for path in (
            path for name in NAMED for path in self._environment.get(name, "").split(os.pathsep)
        ):
            if os.path.basename(path) in self._names(os.path.dirname(path)) and os.path.isfile(
                path
            ):
                candidates.add(path)
        real = {os.path.realpath(path) for path in candidates} - {
            "/",
            os.path.realpath(self._home),
            "/dev/null",
        }
        return [
            Hidden(Path(path), os.path.isdir(path))
            for path in topmost(real)
            if os.access(path, os.R_OK)
        ]

    def _of_home(self) -> Iterator[str]:
        """Yield secrets of a home directory: known places, names at the top level, in `.config` and
        its directories, and next to places whose names have a pattern.
        """
        yield from self._in_places(self._home, _below(""))
        config = [f".config/{name}" for name in self._names(f"{self._home}/.config")[:_ALSO_LISTED]]
        for folder in ("", ".config", *config, *_folders_of_secrets()):
            above = os.path.join(self._home, folder) if folder else self._home
            for name in self._names(above):
                if may_be_secret_name(name) and is_secret(
                    f"/{folder}/{name}" if folder else f"/{name}"
                ):
                    yield f"{above}/{name}"

    def _in_places(self, base: str, places: Mapping[str, list[tuple[str, ...]]]) -> Iterator[str]:
        if "" in places and os.path.lexists(base):
            yield base
        for name in self._names(base):
            for rest in (
                *places.get(name, ()),
                *(
                    rest
                    for pattern, found in places.items()
                    if "*" in pattern and _fits(pattern, name)
                    for rest in found
                ),
            ):
                yield from self._at(f"{base}/{name}", rest)

    def _at(self, path: str, rest: tuple[str, ...]) -> Iterator[str]:
        if not rest:
            yield path
            return
        for name in self._names(path):
            if name == rest[0] or ("*" in rest[0] and _fits(rest[0], name)):
                yield from self._at(f"{path}/{name}", rest[1:])

    def _names(self, folder: str) -> tuple[str, ...]:
        if (changed := _changed(folder)) == 0:
            return ()
        self._seen[folder] = changed
        known = self._known.get(folder)
        if known is None or known[0] != changed:
            try:
                known = self._known[folder] = changed, tuple(os.listdir(folder))
            except OSError:
                return ()
        return known[1]


def _changed(folder: str) -> int:
    """Return the directory's ctime in ns; 0 if it is not a directory."""
    try:
        return os.stat(folder).st_ctime_ns
    except OSError:
        return 0


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(wildcards(pattern, "[^/]"), name) is not None


@lru_cache(maxsize=32)
def _below(folder: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the places in one directory of a home directory, by their first component below it;
    `""` is the directory itself.
    """
    found: dict[str, list[tuple[str, ...]]] = {}
    for place in (*PLACES, *ONLY_IN_HOME):
        if place == folder:
            found[""] = [()]
        elif not folder or place.startswith(f"{folder}/"):
            first, *rest = place[len(folder) :].strip("/").split("/")
            found.setdefault(first, []).append(tuple(rest))
    return found


@lru_cache(maxsize=1)
def _folders_of_secrets() -> set[str]:
    """Return the directories in which guarded_paths.py names a secret."""
    return {
        line.rpartition("/")[0]
        for line in SECRET.split()
        if "/" in line and line.startswith(".") and "*" not in line.rpartition("/")[0]
    }


def topmost(paths: Iterable[str]) -> Iterator[str]:
    """Yield paths in sorted order, without those below another of them."""
    last = None
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if last is None or not path.startswith(f"{last.rstrip('/')}/"):
            last = path
            yield path
