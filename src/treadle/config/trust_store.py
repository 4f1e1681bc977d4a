"""The store of trusted projects: their roots, and the SHA-256 of each file. Entry points: `trust`,
`revoke`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import cast

from treadle._internal.file_lock import take
from treadle.config.file import Broken, read_text, write_text
from treadle.config.places import Project
from treadle.errors import AgentError

STORE_NAME = "trust.json"
VERSION = 1


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def trusted(own: Path) -> dict[str, dict[str, str]]:
    """Return every trusted project by its root, with the SHA-256 of each path below it. Raises
    Broken.
    """
    opened = read_text(own / STORE_NAME, own=True)
    if opened is None:
        return {}
    try:
        store: object = json.loads(opened.text)
    except (ValueError, RecursionError) as e:
        raise Broken(1, "is not valid JSON") from e
    found = cast("dict[str, object]", store) if isinstance(store, dict) else {}
    folders = found.get("folders")
    if found.get("version") != VERSION or not isinstance(folders, dict):
        raise Broken(
            1, f"is in a format that this version of Treadle does not read (it reads {VERSION})"
        )
    return {
        root: cast("dict[str, str]", files)
        for root, files in cast("dict[str, object]", folders).items()
        if isinstance(files, dict)
    }


def trust(own: Path, project: Project, files: Mapping[str, bytes]) -> None:
    """Trust a project with `files`, as returned by `survey`. Raises AgentError(invalid)."""
    with _changing(own) as folders:
        folders[str(project.root)] = {name: content_hash(data) for name, data in files.items()}


def revoke(own: Path, root: Path) -> bool:
    """Revoke the trust in a project. Return True if it was trusted. Raises AgentError(invalid)."""
    with _changing(own) as folders:
        return folders.pop(str(root), None) is not None


@contextlib.contextmanager
def _changing(own: Path) -> Generator[dict[str, dict[str, str]]]:
    """Open the store for changes, which are written atomically and serialized by a lock."""
    try:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(own):
            folders = trusted(own)
            yield folders
            write_text(
                own / STORE_NAME,
                json.dumps({"version": VERSION, "folders": folders}, indent=1, sort_keys=True)
                + "\n",
            )
    except Broken as e:
        raise AgentError("invalid", f"{own / STORE_NAME}: {e.text}") from e
    except OSError as e:
        raise AgentError("invalid", f"{own}: cannot be written: {e.strerror or e}") from e


@contextlib.contextmanager
def _locked(own: Path) -> Generator[None]:
    descriptor = os.open(
        own / f"{STORE_NAME}.lock",
        os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0),
        0o600,
    )
    try:
        take(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)
