"""Signatures of exports with a key of this installation, so that its own runs are restored
unchanged.

The key is `export.key` in Treadle's own folder, readable only by its owner; tools cannot read that
folder without approval. Entry points: `signed`, `unsigned`, `is_ours`.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path
from typing import Final

from treadle._internal.key_file import KEY_BYTES, kept_key
from treadle.cli.exits import CommandFailed

KEY_NAME: Final = "export.key"
_BEGINS: Final = b'{"signature":"hmac-sha256:'
_ENDS: Final = b'"}'


def signed(lines: bytes, home: Path) -> bytes:
    """Return the lines of an export, followed by a signature line.

    Raises CommandFailed if the key cannot be read or created.
    """
    return lines + _BEGINS + _digest(lines, _key(home)).encode() + _ENDS + b"\n"


def unsigned(data: bytes) -> tuple[bytes, str | None]:
    """Split off the signature line. The signature is None if there is no such line."""
    lines, _, last = data.rstrip(b"\r\n").rpartition(b"\n")
    if not (last.startswith(_BEGINS) and last.endswith(_ENDS)):
        return data, None
    return lines + b"\n", last[len(_BEGINS) : -len(_ENDS)].decode("utf-8", "replace")


def is_ours(lines: bytes, signature: str, home: Path) -> bool:
    """True if this installation signed exactly these bytes. Creates no key."""
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
        key = kept_key(path)
    except OSError as e:
        raise CommandFailed(
            f"the key for signatures cannot be stored in {str(path)!r}: {e.strerror}: make it "
            "writable, or leave out --sign"
        ) from e
    if len(key) < KEY_BYTES:
        raise CommandFailed(f"{str(path)!r} is not a valid key: delete it, and sign again")
    return key
