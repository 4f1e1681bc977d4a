"""Encryption of stored text with AES-256-GCM. Each value is bound to its place, so that one that was
moved or changed is refused.

encrypting.py has the keys of a journal in its tables. Entry points: `Seal`, `keys_in`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from treadle.errors import AgentError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY: Final = "TREADLE_JOURNAL_KEY"
OLD_KEYS: Final = "TREADLE_JOURNAL_OLD_KEYS"
KEY_BYTES: Final = 32
INSTALL: Final = "pip install 'treadle[encryption]'"
MAKE: Final = 'python -c "import secrets; print(secrets.token_hex(32))"'

FORMAT: Final = b"\x01"
"""First byte of a sealed value. No JSON text begins with it."""
TEXT: Final = "sealed:"
"""Beginning of a sealed value in a column of text; base64 follows."""
HEAD_BYTES: Final = 6
"""Size of the format and the id of the key, with which each sealed value begins. Divisible by three,
so that base64 has it as eight characters.
"""
_NONCE_BYTES: Final = 12


def keys_in(env: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the keys of journals in the environment: the one that encrypts, then those that only
    decrypt; none if journals are not encrypted. Raises AgentError(invalid) for a malformed key.
    """
    key, old = env.get(KEY, "").strip(), env.get(OLD_KEYS, "").replace(",", " ").split()
    if not key:
        if old:
            raise AgentError(
                "invalid", f"{OLD_KEYS} is set without {KEY}: set the current key, or unset both"
            )
        return ()
    return (_decoded(key, KEY), *[_decoded(one, OLD_KEYS) for one in old])


def checked_keys(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    """Check keys given by a program. Raises AgentError(invalid)."""
    if any(len(key) != KEY_BYTES for key in keys):
        raise AgentError(
            "invalid", f"a key of a journal is {KEY_BYTES} random bytes: `secrets.token_bytes(32)`"
        )
    return (*keys,)


def _decoded(text: str, variable: str) -> bytes:
    key = b""
    try:
        if len(text) == 2 * KEY_BYTES:
            key = bytes.fromhex(text)
        else:
            padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
            key = base64.b64decode(padded, altchars=b"-_" if {*"-_"} & {*text} else None)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise AgentError(
            "invalid",
            f"{variable} is not a key of {KEY_BYTES} bytes in base64 or hex: `{MAKE}` makes one",
        )
    return key


def key_id(key: bytes) -> bytes:
    """Return the id under which tables and values name a key."""
    return _derived(key, b"treadle journal key id")[: HEAD_BYTES - len(FORMAT)]


def wrapped(secret: bytes, key: bytes) -> bytes:
    """Encrypt a journal's secret with a key."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + _wrapping(key).encrypt(nonce, secret, None)


def unwrapped(stored: bytes, key: bytes) -> bytes | None:
    """Decrypt a journal's secret. None if it was encrypted with another key."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  an extra

    try:
        return _wrapping(key).decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], None)
    except (InvalidTag, ValueError):
        return None


def _wrapping(key: bytes) -> AESGCM:
    return _cipher(_derived(key, b"treadle journal secret"))


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  as above
    except ImportError as e:
        raise AgentError("invalid", f"an encrypted journal needs cryptography: {INSTALL}") from e
    return AESGCM(key)


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, purpose, "sha256")


class Seal:
    """Keys of one encrypted journal. Safe from any thread, and in forked processes."""

    __slots__ = ("_ciphers", "_invalid", "_journal", "_token_key", "head", "text_head")

    def __init__(self, journal: str, secret: bytes, keys: Sequence[bytes]) -> None:
        """Derive the keys. `journal`: its name in errors. `secret`: random bytes of the journal,
        without which its texts and tokens mean nothing in another one. `keys`: the first one
        encrypts.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  as above

        self._invalid = InvalidTag
        self._journal = journal
        self._ciphers = {
            FORMAT + key_id(key): _cipher(_derived(key, b"treadle journal text" + secret))
            for key in reversed(keys)
        }
        self.head = FORMAT + key_id(keys[0])
        """Beginning of the values that are sealed now."""
        self.text_head = TEXT + base64.b64encode(self.head).decode()
        """The same in columns of text."""
        self._token_key = _derived(secret, b"treadle journal tokens")

    def sealed(self, where: str, text: bytes) -> bytes:
        """Encrypt a value for one place."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = self._ciphers[self.head]
        return self.head + nonce + cipher.encrypt(nonce, text, _place(where))

    def opened(self, where: str, stored: bytes) -> bytes:
        """Decrypt the value of a place. Raises AgentError(agent) if it is not the one that was
        stored there.
        """
        end = HEAD_BYTES + _NONCE_BYTES
        cipher = self._ciphers.get(stored[:HEAD_BYTES])
        try:
            if cipher is not None:
                return cipher.decrypt(stored[HEAD_BYTES:end], stored[end:], _place(where))
        except (self._invalid, ValueError):
            pass
        why = "it was changed or moved"
        if cipher is None and stored.startswith(FORMAT):
            why = f"its key is missing here, or it was changed: is {OLD_KEYS} complete?"
        raise self.damaged(where, why)

    def sealed_text(self, where: str, text: str) -> str:
        """Encrypt a value for a column of text."""
        sealed = self.sealed(where, text.encode("utf-8", "surrogatepass"))
        return TEXT + base64.b64encode(sealed).decode()

    def opened_text(self, where: str, stored: str) -> str:
        """Decrypt a value of a column of text. Raises as `opened`."""
        try:
            sealed = base64.b64decode(stored.removeprefix(TEXT), validate=True)
        except ValueError:
            sealed = b""
        return self.opened(where, sealed).decode("utf-8", "surrogatepass")

    def token(self, text: str | bytes) -> bytes:
        """Return the same bytes for the same text in this journal, for unique indexes."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return _derived(self._token_key, data)

    def damaged(self, where: str, why: str) -> AgentError:
        return AgentError(
            "agent",
            f"the journal {self._journal!r} is damaged ({where} cannot be decrypted: {why}): "
            "restore a copy, or use another journal",
        )


def _place(where: str) -> bytes:
    return where.encode("utf-8", "surrogatepass")
