"""Rate limits on password attempts. A wrong password counts against the address that sent it, and
against that address for that account; other addresses are unaffected.

There is no limit per account, because anyone could then lock out its owner. The cost of hashing
bounds guesses from many addresses (passwords.py), where networks take turns. An IPv6 address counts
as its /64, and as its /48, which one customer may have as a whole. Addresses are those after
`service.proxies` (border.py). Counts are kept in this process, in bounded memory. Entry point:
`Attempts`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final, TypeAlias

from treadle.service.problems import too_many
from treadle.service.windows import SlidingWindow, network_of, wider_network_of

Count: TypeAlias = tuple[SlidingWindow, str]
"""Window, and the key of the attempt in it."""
MINUTE_S: Final = 60.0
ATTEMPTS_PER_MINUTE = 20
"""Attempts per address: sign-in, registration and password changes."""
WRONG_OF_ACCOUNT = 10
"""Wrong passwords per address and account in `ACCOUNT_S` seconds."""
ACCOUNT_S: Final = 300.0
HOUR_S: Final = 3600.0
ACCOUNTS_PART: Final = 5
"""Divisor of the hourly account limit: one neighbourhood can use at most a fifth of it."""
ACCOUNTS_LEAST: Final = 10
WIDE_TIMES: Final = 3
"""Factor by which the limit of an IPv6 /48 exceeds that of a /64."""
AT_ONCE = 8
"""Concurrent attempts per address."""
TRUSTED_MOST: Final = 10_000
"""Maximum number of remembered pairs of address and account that have signed in."""


class PasswordAttempt:
    """Attempt in progress. Set `succeeded` inside the block if the password was right."""

    def __init__(self, *, trusted: bool) -> None:
        self.trusted = trusted
        """True if this address has signed in to this account since the process started."""
        self.succeeded = False


class Attempts:
    """Windows of attempts. Every method raises Problem(429), whose Retry-After is the earliest time
    at which the attempt is allowed.
    """

    def __init__(self, refused: Callable[[str], None], *, accounts_per_hour: int = 100) -> None:
        """Create a counter of attempts. `refused` counts a refusal for the metrics.
        `accounts_per_hour`: limit on all addresses together, of which one address can take a
        fraction.
        """
        self._refused = refused
        self._of_address = SlidingWindow(ATTEMPTS_PER_MINUTE, MINUTE_S)
        self._new_accounts = SlidingWindow(
            max(ACCOUNTS_LEAST, accounts_per_hour // ACCOUNTS_PART), HOUR_S
        )
        self._of_pair = SlidingWindow(WRONG_OF_ACCOUNT, ACCOUNT_S)
        self._of_wide = SlidingWindow(WIDE_TIMES * ATTEMPTS_PER_MINUTE, MINUTE_S)
        self._of_wide_pair = SlidingWindow(WIDE_TIMES * WRONG_OF_ACCOUNT, ACCOUNT_S)
        self._under_way: Counter[str] = Counter()
        self._trusted: OrderedDict[str, None] = OrderedDict()
        """Ordered from least recently used."""

    def registration(self, address: str) -> None:
        """Count an attempt to create an account."""
        wide, attempts = wider_network_of(address), self._attempts(address)
        self._check(max(self._new_accounts.wait_s(wide), _wait_s(attempts)))
        _take([*attempts, (self._new_accounts, wide)])

    @contextmanager
    def password(self, address: str, account: str) -> Generator[PasswordAttempt]:
        """Count an attempt with a password. `account`: the typed name, or the id of the account.

        Both counts are taken before the password is checked, so that concurrent guesses cannot pass
        the limit. The count of the pair is refunded if the password was right.
        """
        network = network_of(address)
        pair = f"{network} {account}"
        attempts, wrong = self._attempts(address), [(self._of_pair, pair)]
        if _is_wide(address):
            wrong.append((self._of_wide_pair, f"{wider_network_of(address)} {account}"))
        self._check(_wait_s([*attempts, *wrong]))
        if self._under_way[network] >= AT_ONCE:
            self._check(1)
        _take([*attempts, *wrong])
        self._under_way[network] += 1
        attempt = PasswordAttempt(trusted=pair in self._trusted)
        try:
            yield attempt
        except BaseException:  # the password was not checked
            _give_back(wrong)
            raise
        finally:
            self._under_way[network] -= 1
            if not self._under_way[network]:
                del self._under_way[network]
            if attempt.succeeded:
                _give_back(wrong)
                self._trust(pair)

    def _attempts(self, address: str) -> list[Count]:
        counts = [(self._of_address, network_of(address))]
        return (
            [*counts, (self._of_wide, wider_network_of(address))] if _is_wide(address) else counts
        )

    def _trust(self, pair: str) -> None:
        self._trusted[pair] = None
        self._trusted.move_to_end(pair)
        if len(self._trusted) > TRUSTED_MOST:
            self._trusted.popitem(last=False)

    def _check(self, wait_s: float) -> None:
        if wait_s:
            self._refused("attempts")
            raise too_many("Too many attempts from your address: try again shortly.", wait_s)


def _is_wide(address: str) -> bool:
    """Return True for IPv6. Neighbours in IPv4 are other customers, so their attempts do not count
    together.
    """
    return "/" in network_of(address)


def _wait_s(counts: Iterable[Count]) -> float:
    return max(window.wait_s(key) for window, key in counts)


def _take(counts: Iterable[Count]) -> None:
    for window, key in counts:
        window.take(key)


def _give_back(counts: Iterable[Count]) -> None:
    for window, key in counts:
        window.give_back(key)
