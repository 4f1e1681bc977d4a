"""Key files: random bytes that only their owner can read. Entry point: `kept_key`."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 32


def kept_key(path: Path) -> bytes:
    """Return the key in this file. Creates the file, and its folder, if it does not exist.

    Callers must reject a key shorter than KEY_BYTES. Raises OSError if the file cannot be read or
    created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        _make(path)
    key = path.read_bytes()
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return key


def _make(path: Path) -> None:
    """Create the file with its complete content in one step, since another process may start at the
    same time.

    Raises FileExistsError if the file exists.
    """
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
