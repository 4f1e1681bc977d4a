"""Accounts and their logins: creation, renewal and revocation. The HTTP routes are in auth.py.
Entry point: `Accounts`.

Signing in returns two tokens. The access token names the login, which is looked up on each request.
The refresh token is valid once: it is exchanged for a new pair. A second use of an old one means
that it was copied, so the login ends for both holders. Within `REPEAT_S`, a second use gets the
same new token again, because the first response may have been lost, for example when the page was
reloaded.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from sqlalchemy import delete, update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from treadle.service.database.database import Database
from treadle.service.database.tables import Account, Login, new_row_id
from treadle.service.passwords import Passwords
from treadle.service.tokens import REFRESH_DAYS, Tokens
from treadle.service.totals import Totals
from treadle.types import now

NAME_CHARS = 64
REPEAT_S = 10.0
"""Seconds during which the previous refresh token still returns its successor."""
HIDDEN = (
    r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
"""Control, format, line-separator and private-use characters, and characters that render as nothing
(Unicode's default ignorables, fillers, non-space blanks). Names cannot contain them. Written as the
inside of a regular expression's brackets, valid in any dialect.
"""
_HIDDEN = re.compile(f"[{HIDDEN}]")
_UNSEEN = frozenset(("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))
"""Unicode categories that `HIDDEN` covers completely. A newer Python may add characters to them."""


class Signed(NamedTuple):
    """Token pair returned by a successful sign-in."""

    access_token: str
    refresh_token: str


class Accounts:
    """Accounts and logins in the database. Usable from any task of one event loop."""

    def __init__(self, database: Database, tokens: Tokens, totals: Totals) -> None:
        self._database, self._tokens, self._totals = database, tokens, totals
        self._passwords = Passwords()

    async def register(self, name: str, password: str, *, network: str) -> Signed | None:
        """Create an account and sign in. Return None if the name is taken.

        `name` is normalized by `account_name`; `network`: see passwords.py. Raises Problem(503) if
        too many accounts were created recently.
        """

        def add(session: Session) -> bool:
            if (
                session.exec(select(Account.id).where(col(Account.username) == name)).first()
                is not None
            ):
                return False
            self._totals.admit_account(session)
            session.add(
                Account(
                    id=account_id,
                    username=name,
                    password_hash=stored,
                    registered_from=self._tokens.digest(network),
                )
            )
            session.flush()
            return True

        # Before hashing, which is expensive.
        await self._database.read_unscoped(self._totals.admit_account)
        account_id, stored = new_row_id(), await self._passwords.hashed(password, network=network)
        try:
            made = await self._database.run_unscoped(add)
        except IntegrityError:  # a concurrent request created the account first
            made = False
        return await self._signed(account_id, stored) if made else None

    async def sign_in(
        self, name: str | None, password: str, *, network: str, trusted: bool = False
    ) -> Signed | None:
        """Sign in. Return None for an unknown name and for a wrong password, after the same amount
        of work.

        `network`, `trusted`: see passwords.py.
        """

        def read(session: Session) -> tuple[str, str] | None:
            return session.exec(
                select(Account.id, Account.password_hash).where(col(Account.username) == name)
            ).first()

        account_id, stored = await self._database.read_unscoped(read) or (None, None)
        fits = await self._passwords.fits(password, stored, network=network, trusted=trusted)
        if not fits or account_id is None or stored is None:
            return None
        if self._passwords.is_outdated(stored):
            stored, before = (
                await self._passwords.hashed(password, network=network, trusted=trusted),
                stored,
            )
            await self._database.run_unscoped(
                partial(_replace_password, account_id, before, stored)
            )
        return await self._signed(account_id, stored)

    async def registered_from(self, account_id: str) -> str | None:
        """Return the keyed digest of the network that registered an account; None if it is not
        known.
        """
        wanted = select(Account.registered_from).where(col(Account.id) == account_id)
        return await self._database.read_unscoped(lambda session: session.exec(wanted).first())

    async def renew(self, refresh_token: str) -> Signed | None:
        """Exchange a refresh token for a new pair; the old token becomes invalid.

        Return None if the token is invalid. A token that was already used ends its login, unless it
        is the previous one and is used within `REPEAT_S`.
        """
        claims = self._tokens.verified(refresh_token, "refresh")
        if claims is None:
            return None
        # Derived, so that a repeated use returns the same token, and neither holder gets one that
        # the other lacks.
        nonce = self._tokens.digest(f"refresh {claims.login_id} {claims.nonce}")

        def rotate(session: Session) -> Login | None:
            mine = (
                col(Login.id) == claims.login_id,
                col(Login.account_id) == claims.account_id,
                col(Login.revoked_at).is_(None),
            )
            login = session.exec(select(Login).where(*mine).with_for_update()).first()
            if login is None or login.expires_at <= now():
                return None
            changed = session.exec(
                update(Login)
                .where(*mine, col(Login.refresh_hash) == _hash(claims.nonce))
                .values(refresh_hash=_hash(nonce), refreshed_at=now())
            )
            if not changed.rowcount and not _is_repeated(login, nonce):
                session.exec(update(Login).where(*mine).values(revoked_at=now()))
                return None
            session.expunge(login)
            return login

        login = await self._database.run_unscoped(rotate)
        return None if login is None else self._pair(login, nonce)

    async def sign_out(self, login_id: str) -> None:
        await self._revoke(col(Login.id) == login_id)

    async def sign_out_with(self, refresh_token: str) -> None:
        """End the login of a refresh token, for clients whose access token has expired."""
        if (claims := self._tokens.verified(refresh_token, "refresh")) is not None:
            await self.sign_out(claims.login_id)

    async def change_password(
        self, account_id: str, login_id: str, old: str, new: str, *, network: str
    ) -> bool:
        """Change the password and end all other logins. Return False if `old` is wrong."""

        def read(session: Session) -> str:
            return session.exec(
                select(Account.password_hash).where(col(Account.id) == account_id)
            ).one()

        def change(session: Session) -> bool:
            if not _replace_password(account_id, before, after, session):
                return False
            others = (
                col(Login.account_id) == account_id,
                col(Login.id) != login_id,
                col(Login.revoked_at).is_(None),
            )
            session.exec(update(Login).where(*others).values(revoked_at=now()))
            return True

        before = await self._database.read_unscoped(read)
        if not await self._passwords.fits(old, before, network=network, trusted=True):
            return False
        after = await self._passwords.hashed(new, network=network, trusted=True)
        return await self._database.run_unscoped(change)

    async def _signed(self, account_id: str, stored: str) -> Signed | None:
        """Create a login, or return None if the password hash is no longer `stored`. Expired logins
        of the account are deleted.
        """

        def add(session: Session) -> bool:
            if (
                session.exec(
                    select(Account.password_hash)
                    .where(col(Account.id) == account_id)
                    .with_for_update()
                ).first()
                != stored
            ):
                return False
            session.exec(
                delete(Login).where(
                    col(Login.account_id) == account_id, col(Login.expires_at) <= now()
                )
            )
            session.add(Login.model_validate(login))
            return True

        nonce = secrets.token_urlsafe(24)
        login = Login(
            id=new_row_id(),
            account_id=account_id,
            refresh_hash=_hash(nonce),
            expires_at=now() + timedelta(days=REFRESH_DAYS),
        )
        return self._pair(login, nonce) if await self._database.run_unscoped(add) else None

    def _pair(self, login: Login, nonce: str) -> Signed:
        refresh = self._tokens.refresh(
            login.account_id, login.id, nonce, expires_at=login.expires_at
        )
        return Signed(self._tokens.access(login.account_id, login.id), refresh)

    async def _revoke(self, *which: object) -> None:
        good = col(Login.revoked_at).is_(None)
        logins = update(Login).where(*which, good)  # pyright: ignore[reportArgumentType]  conditions
        await self._database.run_unscoped(
            lambda session: session.exec(logins.values(revoked_at=now()))
        )


def _is_repeated(login: Login, nonce: str) -> bool:
    """Return True if the login's current token has `nonce` and is younger than `REPEAT_S`."""
    return (
        login.refresh_hash == _hash(nonce)
        and login.refreshed_at is not None
        and now() - login.refreshed_at < timedelta(seconds=REPEAT_S)
    )


def _replace_password(account_id: str, before: str, after: str, session: Session) -> bool:
    """Replace a password hash. Return False if it is no longer `before`."""
    mine = col(Account.id) == account_id, col(Account.password_hash) == before
    return session.exec(update(Account).where(*mine).values(password_hash=after)).rowcount > 0


def account_name(typed: str) -> str | None:
    """Normalize a typed name so that all spellings map to one account. Return None if the result is
    empty, too long or contains hidden characters.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", typed).casefold()).strip()
    unseen = _HIDDEN.search(folded) or any(unicodedata.category(c) in _UNSEEN for c in folded)
    return folded if 0 < len(folded) <= NAME_CHARS and not unseen else None


def _hash(nonce: str) -> str:
    return hashlib.sha256(nonce.encode()).hexdigest()
