"""Signed tokens: access tokens that name a login, and refresh tokens that are exchanged for new
ones.

signed_in.py checks the login itself in the database. Entry points: `Tokens`, `signing_key`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Literal, NamedTuple

import jwt

from treadle._internal.key_file import KEY_BYTES, kept_key
from treadle.errors import AgentError
from treadle.types import now

ALGORITHM = "HS256"
ISSUER = "treadle"
ACCESS_S = 15 * 60
REFRESH_DAYS = 30
VARIABLE = "TREADLE_SERVICE_SECRET"

_REQUIRED = ["exp", "iat", "sub", "sid", "jti", "aud", "iss"]
_LONGEST = 2048
"""Maximum length of a token that is parsed, in characters."""


class Claims(NamedTuple):
    account_id: str
    login_id: str
    nonce: str
    """Unique value of the token. Identifies a login's current refresh token."""


class Tokens:
    """Issuer and verifier of tokens.

    There is one algorithm and one key; a token's own header is not consulted for keys.
    """

    def __init__(self, key: bytes) -> None:
        assert len(key) >= KEY_BYTES, "a key of at least 32 bytes"
        self._key = key

    def access(self, account_id: str, login_id: str, *, at: datetime | None = None) -> str:
        at, lasts = at or now(), timedelta(seconds=ACCESS_S)
        return self._signed("access", account_id, login_id, at, lasts, jti=token_urlsafe(12))

    def refresh(self, account_id: str, login_id: str, nonce: str, *, expires_at: datetime) -> str:
        at = now()
        return self._signed("refresh", account_id, login_id, at, expires_at - at, jti=nonce)

    def verified(self, token: str, use: Literal["access", "refresh"]) -> Claims | None:
        """Verify a token. Return None if it is not ours, is for another use, or has expired."""
        if len(token) > _LONGEST:
            return None
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[ALGORITHM],
                audience=_audience(use),
                issuer=ISSUER,
                options={"require": _REQUIRED},
            )
        except (jwt.PyJWTError, ValueError):
            return None
        sub, sid, jti = claims["sub"], claims["sid"], claims["jti"]
        return (
            Claims(sub, sid, jti)
            if isinstance(sub, str) and isinstance(sid, str) and isinstance(jti, str)
            else None
        )

    def digest(self, text: str) -> str:
        """Return a digest that only holders of the key can compute, 64 characters long."""
        return hmac.new(self._key, f"{ISSUER}/digest {text}".encode(), "sha256").hexdigest()

    def _signed(
        self, use: str, account_id: str, login_id: str, at: datetime, lasts: timedelta, **more: str
    ) -> str:
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "aud": _audience(use),
            "sub": account_id,
            "sid": login_id,
            "iat": at,
            "exp": at + lasts,
            **more,
        }
        return jwt.encode(claims, self._key, algorithm=ALGORITHM)


def _audience(use: str) -> str:
    return f"{ISSUER}/{use}"


def signing_key(env: Mapping[str, str], home: Path) -> bytes:
    """Return the signing key: TREADLE_SERVICE_SECRET, or else the content of `service.key` in
    Treadle's folder, which is created if missing, readable by its owner only.

    Raises AgentError(invalid) for a secret that is too short, and for an unusable folder or file.
    """
    if (given := env.get(VARIABLE, "").strip()) != "":
        if len(given.encode()) < KEY_BYTES:
            raise AgentError(
                "invalid",
                (
                    f"{VARIABLE} is too short: at least {KEY_BYTES} characters, as `openssl rand "
                    "-hex 32` gives them"
                ),
            )
        return given.encode()
    path = home / "service.key"
    try:
        key = kept_key(path)
    except OSError as e:
        raise AgentError(
            "invalid",
            (
                f"the service's key cannot be stored in {str(path)!r}: {e.strerror}: make it "
                f"writable, or set {VARIABLE}"
            ),
        ) from e
    if len(key) < KEY_BYTES:
        raise AgentError(
            "invalid",
            f"{str(path)!r} is not a valid key: delete it; all users must then sign in again",
        )
    return key
