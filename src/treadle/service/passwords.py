"""Passwords as argon2id, with the parameters that OWASP names, a few at a time: each takes memory and a core. Entry: `Passwords`."""

from __future__ import annotations

import secrets
import unicodedata

import anyio
from anyio import to_thread
from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

MEMORY_KIB, PASSES, LANES = 19_456, 2, 1
"""OWASP Password Storage Cheat Sheet: 19 MiB, two passes, one lane."""
AT_ONCE = 2


class Passwords:
    """Usable from any task of one event loop."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID)
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._nobodys: str | None = None

    async def hashed(self, password: str) -> str:
        return await to_thread.run_sync(self._hasher.hash, _normal(password), limiter=self._limiter)

    async def fits(self, password: str, stored: str | None) -> bool:
        """`stored` None: there is no such account, which takes as long to find out as a wrong password."""
        return await to_thread.run_sync(self._fits, _normal(password), stored, limiter=self._limiter)

    def is_outdated(self, stored: str) -> bool:
        """Made with other parameters than today's: to be made anew from a password that fits."""
        return self._hasher.check_needs_rehash(stored)

    def _fits(self, password: str, stored: str | None) -> bool:
        if self._nobodys is None:
            self._nobodys = self._hasher.hash(secrets.token_hex(16))
        try:
            return self._hasher.verify(stored or self._nobodys, password) and stored is not None
        except (VerificationError, InvalidHashError):
            return False


def _normal(password: str) -> str:
    """The same keys on another keyboard give the same password."""
    return unicodedata.normalize("NFKC", password)
