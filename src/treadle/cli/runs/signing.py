"""Signatures of exports with a key of this installation, so that its own runs are restored
unchanged.

The key is `export.key` in Treadle's own folder, readable only by its owner; tools cannot read that
folder without approval. Entry points: `signed`, `Unsigned`.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
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
    digest = hmac.new(_key(home), lines, sha256).hexdigest()
    return lines + _BEGINS + digest.encode() + _ENDS + b"\n"


class Unsigned:
    """Iterator over the lines of an export, without a signature in its last line. Iterate over it
    once, then query the signature.

    Creates no key, and holds one line at a time.
    """

    def __init__(self, lines: Iterable[bytes], home: Path) -> None:
        self._lines = lines
        self._digest = _checking(home)
        self._signature: bytes | None = None

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            stripped = line.rstrip(b"\r\n")
            if self._signature is not None:
                if not stripped:
                    continue
                yield self._passed(self._signature)
                self._signature = None
            if stripped.startswith(_BEGINS) and stripped.endswith(_ENDS):
                self._signature = line
            else:
                yield self._passed(line)

    def _passed(self, line: bytes) -> bytes:
        if self._digest is not None:
            self._digest.update(line)
        return line

    @property
    def is_signed(self) -> bool:
        """True if the last line is a signature, valid or not."""
        return self._signature is not None

    @property
    def is_ours(self) -> bool:
        """True if this installation signed exactly these lines."""
        if self._signature is None or self._digest is None:
            return False
        said = self._signature.rstrip(b"\r\n")[len(_BEGINS) : -len(_ENDS)]
        return hmac.compare_digest(self._digest.hexdigest().encode(), said)


def _checking(home: Path) -> hmac.HMAC | None:
    """Return a digest with the key of this installation; None if there is no valid key."""
    try:
        key = (home / KEY_NAME).read_bytes()
    except OSError:
        return None
    return hmac.new(key, digestmod=sha256) if len(key) >= KEY_BYTES else None


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
