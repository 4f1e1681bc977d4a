"""Signatures of exports with a key of this installation, so that its own runs come back as they
were. Entry: `signed`, `unsigned`, `is_ours`.

The key is `export.key` in Treadle's own folder, readable by its owner alone; tools cannot read that
folder unasked.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from treadle.cli.exits import CommandFailed

KEY_NAME: Final = "export.key"
KEY_BYTES = 32
_BEGINS: Final = b'{"signature":"hmac-sha256:'
_ENDS: Final = b'"}'


def signed(lines: bytes, home: Path) -> bytes:
    """The lines of an export, followed by the line of their signature.

    Raises Failed where the key cannot be read or made.
    """
    return lines + _BEGINS + _digest(lines, _key(home)).encode() + _ENDS + b"\n"


def unsigned(data: bytes) -> tuple[bytes, str | None]:
    """The lines without that of the signature, and the signature; None for a file without one."""
    lines, _, last = data.rstrip(b"\r\n").rpartition(b"\n")
    if not (last.startswith(_BEGINS) and last.endswith(_ENDS)):
        return data, None
    return lines + b"\n", last[len(_BEGINS) : -len(_ENDS)].decode("utf-8", "replace")


def is_ours(lines: bytes, signature: str, home: Path) -> bool:
    """True if this installation signed exactly these bytes. No key is made."""
    try:
        key = (home / KEY_NAME).read_bytes()
    except OSError:
        return False
    return len(key) >= KEY_BYTES and hmac.compare_digest(
        _digest(lines, key).encode(), signature.encode()
    )


def _digest(lines: bytes, key: bytes) -> str:
    return hmac.new(key, lines, sha256).hexdigest()


def _key(home: Path) -> bytes:
    path = home / KEY_NAME
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _make(path)
        key = path.read_bytes()
        if os.name == "posix" and path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as e:
        raise CommandFailed(
            f"the key for signatures cannot be kept in {str(path)!r}: {e.strerror}: make it "
            "writable, or leave out --sign"
        ) from e
    if len(key) < KEY_BYTES:
        raise CommandFailed(f"{str(path)!r} holds no key: delete it, and sign again")
    return key


def _make(path: Path) -> None:
    """Whole as soon as it exists: another process may be signing too.

    Raises FileExistsError for a key that is there.
    """
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
