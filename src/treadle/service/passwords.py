"""Password hashing with argon2id, with OWASP's parameters. Each hash takes memory and a core, so
few run concurrently and few wait.

Trusted requests (of a signed-in user, or from an address that signed in to this account before) use
a separate lane, so that guesses from any number of addresses do not delay them. In each lane,
waiting networks take turns, so that no network starves another. Entry point: `Passwords`.
"""

from __future__ import annotations

import base64
import secrets
import unicodedata
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
from anyio import to_thread
from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from treadle.service.problems import HttpProblem, unavailable

T = TypeVar("T")

MEMORY_KIB, PASSES, LANES = 19_456, 2, 1
"""OWASP Password Storage Cheat Sheet: 19 MiB, two passes, one lane."""
AT_ONCE: Final = 2
"""Concurrent hashes per lane."""
WAITING_MOST = 512
"""Maximum number of waiting requests per lane. Beyond it, one is refused, which bounds memory and
waiting time.
"""


class Passwords:
    """Password hashing. Usable from any task of one event loop.

    Every method raises Problem(503) while too many hashes wait.
    """

    def __init__(self) -> None:
        self._hasher = PasswordHasher(
            time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID
        )
        self._lanes = {trusted: _Lane() for trusted in (False, True)}
        self._unknown = _hash_of_no_password()

    async def hashed(self, password: str, *, network: str, trusted: bool = False) -> str:
        """Return the hash to store. `network`: networks take turns."""
        return await self._lanes[trusted].run(network, lambda: self._hasher.hash(_normal(password)))

    async def fits(
        self, password: str, stored: str | None, *, network: str, trusted: bool = False
    ) -> bool:
        """Return True if `password` matches the hash `stored`.

        None means an unknown account and takes as long as a wrong password.
        """
        return await self._lanes[trusted].run(
            network, lambda: self._fits(_normal(password), stored)
        )

    def is_outdated(self, stored: str) -> bool:
        """Return True if the hash has outdated parameters. Replace it while the password is
        known.
        """
        return self._hasher.check_needs_rehash(stored)

    def _fits(self, password: str, stored: str | None) -> bool:
        try:
            return self._hasher.verify(stored or self._unknown, password) and stored is not None
        except (VerificationError, InvalidHashError):
            return False


class _Place:
    """A waiting request."""

    __slots__ = ("is_refused", "turn")

    def __init__(self) -> None:
        self.turn = anyio.Event()
        """Set when the request may proceed, or is refused."""
        self.is_refused = False


class _Lane:
    """Queue that runs `AT_ONCE` hashes at a time. Waiting networks take turns, oldest request
    first.
    """

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(AT_ONCE)
        self._running = self._held = 0
        self._waiting: OrderedDict[str, deque[_Place]] = OrderedDict()
        """Waiting requests by network, next turn first; `_held` requests in total."""

    async def run(self, network: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread when it is the network's turn. Raises Problem(503) if too many
        requests wait: the newest one of the network with the most is refused.
        """
        await self._enter(network)
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._leave()

    async def _enter(self, network: str) -> None:
        if self._running < AT_ONCE:
            self._running += 1
            return
        place = self._place(network)
        try:
            await place.turn.wait()
        except BaseException:
            if not place.turn.is_set():
                self._remove(network, place)
            elif not place.is_refused:
                self._leave()
            raise
        if place.is_refused:
            raise _too_many()

    def _place(self, network: str) -> _Place:
        if self._held >= WAITING_MOST:
            most = max(self._waiting, key=lambda one: len(self._waiting[one]))
            if len(self._waiting[most]) <= len(self._waiting.get(network, ())) + 1:
                raise _too_many()
            newest = self._waiting[most][-1]
            self._remove(most, newest)
            newest.is_refused = True
            newest.turn.set()
        place = _Place()
        self._waiting.setdefault(network, deque()).append(place)
        self._held += 1
        return place

    def _remove(self, network: str, place: _Place) -> None:
        places = self._waiting[network]
        places.remove(place)
        self._held -= 1
        if not places:
            del self._waiting[network]

    def _leave(self) -> None:
        """Release the slot of a finished hash to the next network."""
        if not self._waiting:
            self._running -= 1
            return
        network = next(iter(self._waiting))
        place = self._waiting[network][0]
        self._waiting.move_to_end(network)
        self._remove(network, place)
        place.turn.set()


def _too_many() -> HttpProblem:
    return unavailable("Too many people are signing in at the moment. Please try again.", 2)


def _hash_of_no_password() -> str:
    """Return a well-formed hash that matches no password.

    Built without hashing, so that the first unknown name takes as long as later ones.
    """
    salt, digest = (
        base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32)
    )
    return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${digest}"


def _normal(password: str) -> str:
    """Normalize to NFKC, so that the same keys on another keyboard give the same password."""
    return unicodedata.normalize("NFKC", password)
