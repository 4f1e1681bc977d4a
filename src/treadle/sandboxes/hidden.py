"""What of the disk a confined command does not see at all: keys, passwords, other people's words, and Treadle's own folder.

Only what lies in known places: the rest of the disk can be read. Secrets of the workspace are control_files.py's. Entry: `hidden_places`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from typing import NamedTuple

from treadle import guarded_paths
from treadle.guarded_paths import is_secret

OF_HOME = """
.mozilla
.thunderbird
.config/google-chrome
.config/chromium
.config/BraveSoftware
.config/1Password
.config/Bitwarden
.config/Signal
.config/github-copilot
.config/rclone
.local/share/keyrings
.local/share/kwalletd
.password-store
.bitcoin
.electrum
.claude/.credentials.json
.codex/auth.json
.gemini/oauth_creds.json
.colima
.docker/run
.docker/desktop
Library/Keychains
Library/Cookies
Library/Application Support/Google/Chrome
Library/Application Support/Firefox
Library/Messages
Library/Mail
"""
"""Beside what guarded_paths.py calls a secret wherever it lies."""
OF_THE_SYSTEM = ("/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssl/private", "/etc/ssh/ssh_host_*_key", "/etc/wireguard", "/etc/ipsec.secrets")
"""Only a caller who is root could read them, and keeps that right without any capability."""
NEEDED = frozenset({".gitconfig", ".htaccess", ".yarnrc.yml", ".envrc"})
"""Secrets by name, which programs cannot do without. They can be read."""


class Hidden(NamedTuple):
    path: Path
    is_folder: bool


def hidden_places(home: Path, own: Path | None = None) -> list[Hidden]:
    """Those that are there and can be read. `own`: Treadle's folder. Blocks for a few milliseconds."""
    candidates = {str(own)} if own is not None else set[str]()
    candidates.update(_of_home(str(home)), *(glob(pattern) for pattern in OF_THE_SYSTEM))
    real = sorted({os.path.realpath(path) for path in candidates})
    return [Hidden(Path(path), os.path.isdir(path)) for path in _topmost(real) if os.access(path, os.R_OK)]


def _of_home(home: str) -> Iterator[str]:
    inside = {""} | {line.rpartition("/")[0] for line in guarded_paths.SECRET.split() if "/" in line and line.startswith(".")}
    for folder in inside:
        for name in _names(os.path.join(home, folder)):
            path = os.path.join(home, folder, name)
            below = f"/{folder}/{name}" if folder else f"/{name}"  # not the home itself, which may lie anywhere
            if name not in NEEDED and is_secret(below):
                yield path
    yield from (os.path.join(home, line) for line in OF_HOME.split("\n") if line and os.path.lexists(os.path.join(home, line)))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _topmost(paths: Iterable[str]) -> Iterator[str]:
    """In sorted order, without what lies below another of them."""
    last = None
    for path in paths:
        if last is None or not path.startswith(f"{last}/"):
            last = path
            yield path
