"""Tokens that are not good: whoever made them, and whatever their headers say."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.service.at_hand import AtHand, bearer, opened, problem
from tests.service.chatting import KEY
from treadle.errors import AgentError
from treadle.service.tokens import Tokens, signing_key
from treadle.types import now


def good(claims: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    at = now()
    return {
        "iss": "treadle",
        "aud": "treadle/access",
        "jti": "token_1",
        "iat": at,
        "exp": at + timedelta(minutes=5),
        **(claims or {}),
        **more,
    }


def by_hand(header: dict[str, Any], claims: dict[str, Any], key: bytes) -> str:
    """Signed as no library would let us."""
    encoded = [
        base64.urlsafe_b64encode(
            json.dumps(part, default=lambda at: int(at.timestamp())).encode()
        ).rstrip(b"=")
        for part in (header, claims)
    ]
    signature = (
        hmac.new(key, b".".join(encoded), hashlib.sha256).digest()
        if header.get("alg") != "none"
        else b""
    )
    return b".".join([*encoded, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


async def refused(hand: AtHand, token: str) -> None:
    answer = await hand.http.get("/runs/run_1", headers=bearer(token))
    problem(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_tokens_that_are_not_ours_or_not_in_their_time_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        headers = await hand.registered()
        mine = jwt.decode(headers["Authorization"].split()[1], options={"verify_signature": False})
        who = {"sub": mine["sub"], "sid": mine["sid"]}
        assert (
            await hand.http.get("/tasks", headers=bearer(jwt.encode(good(who), KEY)))
        ).status_code == 200
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        for token in (
            "",
            "x",
            "a.b.c",
            "x" * 5000,
            jwt.encode(good(who), b"another key of thirty-two bytes.."),  # foreign
            jwt.encode(good(who, exp=now() - timedelta(seconds=1)), KEY),  # expired
            jwt.encode({k: v for k, v in good(who).items() if k != "exp"}, KEY),
            jwt.encode(good(who, aud="treadle/refresh"), KEY),
            jwt.encode(good(who, aud="other"), KEY),
            jwt.encode(good(who, iss="other"), KEY),
            jwt.encode(good({"sub": who["sub"]}), KEY),
            jwt.encode(good(who, sid="nobody"), KEY),
            jwt.encode(good(who, sub="somebody else"), KEY),
            jwt.encode(good(who), KEY + b"k" * 32, algorithm="HS512"),
            by_hand({"alg": "HS512", "typ": "JWT"}, good(who), KEY),
            by_hand({"alg": "none", "typ": "JWT"}, good(who), b""),  # ht-007
            by_hand({"alg": "HS256", "typ": "JWT"}, good(who), public),  # ht-008
            jwt.encode(good(who), private, algorithm="RS256"),
            by_hand({"alg": "HS256", "kid": "../../dev/null"}, good(who), b""),  # ht-011
            by_hand({"alg": "HS256", "jku": "http://127.0.0.1:9/"}, good(who), b"whose"),  # ht-012
            hand.http.cookies["treadle_refresh"],
        ):
            await refused(hand, token)


async def test_a_token_stands_in_the_header_and_nowhere_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as hand:
        token = (await hand.registered())["Authorization"].split()[1]
        for headers in (
            {},
            {"Authorization": f"Basic {token}"},
            {"Authorization": token},
            {"Cookie": f"access_token={token}"},
        ):
            # ht-013, ht-006
            problem(await hand.http.get(f"/tasks?access_token={token}", headers=headers), 401)
        problem(await hand.http.post("/chat"), 401)


async def test_a_token_of_another_service_with_the_same_key_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with opened(tmp_path / "other") as other:
        headers = await other.registered()
    async with opened(tmp_path) as hand:
        problem(await hand.http.get("/tasks", headers=headers), 401)


def test_a_token_names_what_it_was_made_for() -> None:
    tokens = Tokens(KEY)
    access, refresh = (
        tokens.access("a", "l"),
        tokens.refresh("a", "l", "n", expires_at=now() + timedelta(days=1)),
    )
    named = tokens.verified(access, "access")
    assert named is not None
    assert named[:2] == ("a", "l")
    assert named.nonce
    assert tokens.verified(refresh, "refresh") == ("a", "l", "n")
    assert tokens.verified(access, "refresh") is tokens.verified(refresh, "access") is None
    assert (
        tokens.verified(tokens.access("a", "l", at=now() - timedelta(minutes=16)), "access") is None
    )


def test_access_tokens_of_one_login_and_one_moment_differ() -> None:
    tokens, at = Tokens(KEY), now()
    first, second = (tokens.access("account_1", "login_1", at=at) for _ in range(2))
    assert first != second, "a client that compares tokens sees that its token was renewed"


def test_the_key_is_made_once_for_its_owner_only_and_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    key = signing_key({}, home)
    assert len(key) == 32
    assert signing_key({}, home) == key
    assert stat.S_IMODE((home / "service.key").stat().st_mode) == 0o600
    (home / "service.key").chmod(0o644)
    assert signing_key({}, home) == key
    assert stat.S_IMODE((home / "service.key").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["service.key"]
    assert signing_key({"TREADLE_SERVICE_SECRET": "s" * 32}, tmp_path / "nowhere") == b"s" * 32


def test_a_key_that_is_none_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="at least 32"):
        signing_key({"TREADLE_SERVICE_SECRET": "short"}, tmp_path)
    (tmp_path / "service.key").write_bytes(b"")
    with pytest.raises(AgentError, match="is not a valid key: delete it"):
        signing_key({}, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match="cannot be stored"):
        signing_key({}, tmp_path / "file")
    if os.getuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(AgentError, match="Permission denied"):
            signing_key({}, tmp_path / "closed")
