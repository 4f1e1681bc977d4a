"""Passwords as argon2id, with the parameters that OWASP names. Each hash takes memory and a core,
so few run at once and few wait.

Requests that have earned trust (a signed-in person, or an address from which this account signed in
before) use a lane of their own, so that guesses from any number of addresses do not keep them
waiting. In each lane the networks that wait take turns, so that no network keeps another one out.
Entry: `Passwords`.
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
"""Hashes of each lane."""
WAITING_MOST = 512
"""Requests of one lane that wait for a hash; for a further one another is refused, so that memory
and the wait stay bounded.
"""


class Passwords:
    """Usable from any task of one event loop.

    Every method raises Problem(503) while too many hashes wait.
    """

    def __init__(self) -> None:
        self._hasher = PasswordHasher(
            time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID
        )
        self._lanes = {trusted: _Lane() for trusted in (False, True)}
        self._unknown = _hash_of_no_password()

    async def hashed(self, password: str, *, network: str, trusted: bool = False) -> str:
        """The hash to store. `network`: takes turns with others."""
        return await self._lanes[trusted].run(network, lambda: self._hasher.hash(_normal(password)))

    async def fits(
        self, password: str, stored: str | None, *, network: str, trusted: bool = False
    ) -> bool:
        """True if `password` has the hash `stored`.

        None, for an unknown account, costs as much as a wrong password.
        """
        return await self._lanes[trusted].run(
            network, lambda: self._fits(_normal(password), stored)
        )

    def is_outdated(self, stored: str) -> bool:
        """True if the hash has other parameters than today's; replace it when the password is at
        hand.
        """
        return self._hasher.check_needs_rehash(stored)

    def _fits(self, password: str, stored: str | None) -> bool:
        try:
            return self._hasher.verify(stored or self._unknown, password) and stored is not None
        except (VerificationError, InvalidHashError):
            return False


class _Place:
    """One request that waits."""

    __slots__ = ("is_refused", "turn")

    def __init__(self) -> None:
        self.turn = anyio.Event()
        """Set when it may go on, or is refused."""
        self.is_refused = False


class _Lane:
    """Runs `AT_ONCE` hashes at a time. Networks that wait take turns, each with its oldest request."""  # noqa: E501

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(AT_ONCE)
        self._running = self._held = 0
        self._waiting: OrderedDict[str, deque[_Place]] = OrderedDict()
        """By network, the one whose turn is next first; `_held` places in all."""

    async def run(self, network: str, work: Callable[[], T]) -> T:
        """Raises Problem(503) while too many wait: the newest request of the network that has the
        most is refused.
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
        """Pass the place of a hash that is over to the next network."""
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
    """A well-formed hash that no password has.

    Made without hashing, so that the first unknown name costs no more than later ones.
    """
    salt, digest = (
        base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in (16, 32)
    )
    return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${digest}"


def _normal(password: str) -> str:
    """NFKC: the same keys on another keyboard give the same password."""
    return unicodedata.normalize("NFKC", password)
