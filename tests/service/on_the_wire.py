"""Requests as bytes, for those that no client would send; and tokens as nobody should sign them.

Entry: `ask`, `forgeries`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import time
from dataclasses import dataclass
from typing import Any

Headers = list[tuple[str, str]]
PUBLIC_KEY = b"""-----BEGIN PUBLIC KEY-----
MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf
9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==
-----END PUBLIC KEY-----
"""
HASHES: dict[str, Any] = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}


@dataclass
class Answer:
    status: int
    """0: the connection was closed without a word."""
    headers: dict[str, str]
    body: bytes


def ask(
    port: int,
    method: str,
    target: str,
    headers: Headers | None = None,
    body: bytes = b"",
    *,
    length: bool = True,
) -> Answer:
    """`Host: localhost` where no other is given. `length` False: no Content-Length is added."""
    given = list(headers or [])
    names = {name.lower() for name, _ in given}
    if "host" not in names:
        given.insert(0, ("Host", "localhost"))
    if length and body and "content-length" not in names:
        given.append(("Content-Length", str(len(body))))
    head = "".join(f"{name}: {value}\r\n" for name, value in [*given, ("Connection", "close")])
    return said(
        port, f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("utf-8", "surrogateescape") + body
    )


def said(port: int, data: bytes) -> Answer:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=40) as line:
        try:
            line.sendall(data)
            while piece := line.recv(65_536):
                answer += piece
        except ConnectionError:
            pass
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Answer(
        int(first.split()[1]) if first else 0,
        {name.lower(): value.strip() for name, _, value in pairs},
        body,
    )


def token(header: dict[str, Any], claims: dict[str, Any], key: bytes | None) -> str:
    """`key` None: without a signature."""
    signed = b".".join(_packed(json.dumps(part).encode()) for part in (header, claims))
    digest = HASHES.get(str(header.get("alg")).upper(), hashlib.sha256)
    return (
        signed
        + b"."
        + (_packed(hmac.new(key, signed, digest).digest()) if key is not None else b"")
    ).decode()


def claims_of(good: str) -> dict[str, Any]:
    middle = good.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))


def forgeries(good: str, other: str, key: bytes) -> dict[str, str]:
    """What is no token of ours, made of two that are and the key that signs them.

    `other`: somebody else's.
    """
    claims, theirs = claims_of(good), claims_of(other)
    head, middle, tail = good.split(".")
    now = int(time.time())
    hs256 = {"alg": "HS256", "typ": "JWT"}
    without = {
        f"no {name}": token(hs256, {k: v for k, v in claims.items() if k != name}, key)
        for name in claims
    }
    return {
        **without,
        **{
            f"alg {alg}": token({"alg": alg}, claims, None)
            for alg in ("none", "None", "NONE", "nOnE", "")
        },
        **{
            f"alg {alg} with our key": token({"alg": alg}, claims, key)
            for alg in ("HS384", "HS512", "none", "hs256", "RS256", "ES256", "EdDSA")
        },
        "no alg": token({"typ": "JWT"}, claims, key),
        "signed with a public key": token(hs256, claims, PUBLIC_KEY),
        "signed with nothing": token(hs256, claims, b""),
        "signed with a guess": token(hs256, claims, b"secret"),
        "its signature taken off": f"{head}.{middle}.",
        "half of its signature": f"{head}.{middle}.{tail[:20]}",
        "somebody else's signature": f"{head}.{middle}.{other.split('.')[2]}",
        "somebody else's claims": f"{head}.{other.split('.')[1]}.{tail}",
        "kid a path": token({**hs256, "kid": "../../dev/null"}, claims, b""),
        "kid of SQL": token({**hs256, "kid": "x' UNION SELECT 'k'--"}, claims, b"k"),
        "jku": token({**hs256, "jku": "http://127.0.0.1:9/"}, claims, b"k"),
        "x5u": token({**hs256, "x5u": "http://127.0.0.1:9/"}, claims, b"k"),
        "jwk": token({**hs256, "jwk": {"kty": "oct", "k": "aw"}}, claims, b"k"),
        "crit": token({**hs256, "crit": ["x"], "x": 1}, claims, key),
        "expired": token(hs256, {**claims, "iat": now - 7200, "exp": now - 3600}, key),
        "not yet": token(hs256, {**claims, "nbf": now + 3600}, key),
        "made tomorrow": token(hs256, {**claims, "iat": now + 86_400, "exp": now + 90_000}, key),
        "for refreshing": token(hs256, {**claims, "aud": "treadle/refresh"}, key),
        "of another issuer": token(hs256, {**claims, "iss": "https://evil.example"}, key),
        "somebody else's login": token(hs256, {**claims, "sid": theirs["sid"]}, key),
        "a login that never was": token(
            hs256, {**claims, "sid": "00000000-0000-4000-8000-000000000000"}, key
        ),
        "a number for a name": token(hs256, {**claims, "sub": 1}, key),
        "several names": token(hs256, {**claims, "sub": [claims["sub"], theirs["sub"]]}, key),
        "SQL for a login": token(hs256, {**claims, "sid": "' OR 1=1 --"}, key),
        "no dots": good.replace(".", ""),
        "four parts": f"{good}.x",
        "five parts": f"{head}..{middle}.{tail}.x",
        "nothing": "",
        "a very long one": "a" * 20_000,
        "odd characters": "\udcff\udcfe.a.b",
        "null": "null",
        "undefined": "undefined",
    }


def _packed(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
