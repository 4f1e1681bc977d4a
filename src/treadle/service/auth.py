"""Registration, login and logout over HTTP. The response contains the access token; a cookie that
scripts cannot read contains the refresh token.

The logic is in accounts.py. Entry point: `router`.
"""

from __future__ import annotations

import logging
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import APIKeyCookie
from pydantic import BaseModel, StringConstraints

from treadle.errors import AgentError
from treadle.service.accounts import HIDDEN, Signed, account_name
from treadle.service.bodies import NO_NUL, RequestModel
from treadle.service.problems import HttpProblem, unauthorized
from treadle.service.signed_in import TheService, Visitor, verified, visitor
from treadle.service.state import Service
from treadle.service.tokens import ACCESS_S, REFRESH_DAYS
from treadle.service.windows import wider_network_of

COOKIE: Final = "treadle_refresh"
COOKIE_PATH: Final = "/auth/"

_SPACES = r"\u0020\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
Username = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=f"^[^{_SPACES}{HIDDEN}][^{HIDDEN}]*$"),
]
Password = Annotated[str, StringConstraints(min_length=8, max_length=256, pattern=NO_NUL)]


class Credentials(RequestModel):
    username: Username
    password: Password


class NewPassword(RequestModel):
    old: Password
    new: Password


class TokenAnswer(BaseModel):
    access_token: str
    token_type: Literal["bearer"] = "bearer"
    expires_in: int = ACCESS_S
    """Lifetime of the access token, in seconds."""


REFRESH = APIKeyCookie(
    name=COOKIE,
    scheme_name="refresh",
    description="Set when you sign in; valid once.",
    auto_error=False,
)
logger = logging.getLogger("treadle.service")
router = APIRouter(tags=["accounts"])


@router.post(
    "/auth/register", status_code=201, responses={409: {"description": "The name is taken."}}
)
async def register(
    credentials: Credentials, request: Request, response: Response, service: TheService
) -> TokenAnswer:
    """Create an account and sign in."""
    service.attempts.registration(_address(request))
    if service.settings.registration == "closed":
        raise HttpProblem(
            403, "Registration is closed: ask the operator of this service for an account."
        )
    if (name := account_name(credentials.username)) is None:
        raise HttpProblem(422, "This name is invalid: use 1 to 64 visible characters.")
    signed = await service.accounts.register(name, credentials.password, network=_network(request))
    if signed is None:
        raise HttpProblem(409, "This name is taken: choose another one.")
    return _answer(signed, response, service, request)


@router.post("/auth/login", responses={401: {"description": "The name or the password is wrong."}})
async def login(
    credentials: Credentials, request: Request, response: Response, service: TheService
) -> TokenAnswer:
    """Sign in."""
    name = account_name(credentials.username)
    with service.attempts.password(_address(request), name or "") as attempt:
        signed = await service.accounts.sign_in(
            name, credentials.password, network=_network(request), trusted=attempt.trusted
        )
        attempt.succeeded = signed is not None
    if signed is None:
        raise unauthorized("The name or the password is wrong.")
    return _answer(signed, response, service, request)


@router.post("/auth/refresh", responses={401: {"description": "Sign in again."}})
async def refresh(
    request: Request,
    response: Response,
    service: TheService,
    _: Annotated[str | None, Depends(REFRESH)],  # only for the OpenAPI document
) -> TokenAnswer:
    """Exchange the refresh cookie for a new token pair."""
    service.limits.stranger(_address(request))
    signed = await service.accounts.renew(_refresh_token(service, request))
    if signed is None:
        await _look(service)  # a second use of the cookie ended its login
        raise unauthorized("Sign in again.")
    return _answer(signed, response, service, request)


@router.post("/auth/logout", status_code=204)
async def logout(request: Request, response: Response, service: TheService) -> None:
    """End the login named by the token or the cookie. Idempotent."""
    if (found := await verified(service, request.scope)) is not None:
        await service.accounts.sign_out(found.login_id)
    else:
        service.limits.stranger(_address(request))
        await service.accounts.sign_out_with(_refresh_token(service, request))
    await _look(service)
    secure = _is_https(service, request)
    response.delete_cookie(
        *_cookie(secure),
        secure=secure,
        httponly=True,
        samesite="strict",
    )


@router.post(
    "/auth/password",
    status_code=204,
    responses={403: {"description": "The old password is wrong."}},
)
async def change_password(
    passwords: NewPassword,
    request: Request,
    found: Annotated[Visitor, Depends(visitor)],
    service: TheService,
) -> None:
    """Change the password and end all other logins."""
    with service.attempts.password(_address(request), found.scope.user_id) as attempt:
        account_id, login_id = found.scope.user_id, found.login_id
        attempt.succeeded = await service.accounts.change_password(
            account_id, login_id, passwords.old, passwords.new, network=_network(request)
        )
    if not attempt.succeeded:
        raise HttpProblem(403, "The old password is wrong.")
    await _look(service)


async def _look(service: Service) -> None:
    """End the streams of logins that have just ended. If the database fails, the periodic look does
    it, and the change itself is made.
    """
    try:
        await service.open_streams.look()
    except AgentError as e:
        logger.warning("cannot look up the logins of open streams: %s", e.message)


def _answer(signed: Signed, response: Response, service: Service, request: Request) -> TokenAnswer:
    secure, age = _is_https(service, request), REFRESH_DAYS * 24 * 3600
    name, path = _cookie(secure)
    response.set_cookie(
        name,
        signed.refresh_token,
        max_age=age,
        path=path,
        secure=secure,
        httponly=True,
        samesite="strict",
    )
    return TokenAnswer(access_token=signed.access_token)


def _cookie(secure: bool) -> tuple[str, str]:
    """Return the name and path of the refresh token's cookie.

    Over TLS the name has the `__Host-` prefix, which browsers accept only from this exact host and
    its root (RFC 6265bis 4.1.3.2), so a neighbouring host cannot set it.
    """
    return (f"__Host-{COOKIE}", "/") if secure else (COOKIE, COOKIE_PATH)


def _refresh_token(service: Service, request: Request) -> str:
    """Return the refresh token; "" if there is none, or if there are several.

    A page on another port or a sibling domain can set another cookie of the same name for another
    path. The service cannot distinguish the two, and one may belong to another person's login. Only
    spaces and tabs around a name are ignored: browsers accept one with other whitespace before
    `__Host-` from anywhere.
    """
    name, _ = _cookie(_is_https(service, request))
    found = [
        value.strip()
        for line in request.headers.getlist("cookie")
        for one in line.split(";")
        for key, _, value in (one.partition("="),)
        if key.strip(" \t") == name
    ]
    return found[0] if len(found) == 1 else ""


def _is_https(service: Service, request: Request) -> bool:
    return request.url.scheme == "https" or (service.settings.public_url or "").startswith("https:")


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _network(request: Request) -> str:
    return wider_network_of(_address(request))
