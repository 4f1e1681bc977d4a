"""Authentication of requests. The token is verified and its login looked up on each request, so a
revocation takes effect immediately. Entry point: `SignedIn`.

    @router.get("/tasks")
    async def tasks(scope: SignedIn) -> …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import bindparam
from sqlmodel import Session, col, select
from starlette.requests import Request
from starlette.types import Scope as ScopeOfRequest

from treadle.service.border import ANSWER, CLAIMS, STRANGER
from treadle.service.database.guard import execute
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import Login
from treadle.service.problems import unauthorized
from treadle.service.state import Service
from treadle.service.tokens import Claims
from treadle.types import now

BEARER = HTTPBearer(
    scheme_name="bearer",
    bearerFormat="JWT",
    description="The access_token of POST /auth/login.",
    auto_error=False,
)

_LOGIN: Final = select(Login.account_id, Login.expires_at, Login.revoked_at).where(
    col(Login.id) == bindparam("login")
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Signed-in user, and the login of the request."""

    scope: Scope
    login_id: str


def service_of(request: Request) -> Service:
    return request.app.state.service


async def _the_service(request: Request) -> Service:
    """Return the service as a dependency. FastAPI calls a synchronous one in a thread."""
    return service_of(request)


TheService = Annotated[Service, Depends(_the_service)]


async def visitor(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]
) -> Visitor:
    """Verify the token of a request. Raises Problem: 401 without a valid one, 429 at the user's
    request limit.
    """
    service = service_of(request)
    if credentials is None:
        raise unauthorized()
    found = await verified(service, request.scope)
    if found is None:
        count_stranger(service, request)
        raise unauthorized("This token is invalid or has expired: sign in again.")
    service.limits.request(found.scope)
    opened_by(request.scope, found)
    return found


def count_stranger(service: Service, request: Request) -> None:
    """Count a request without a valid token, once. Raises Problem(429)."""
    if not request.scope[STRANGER]:
        service.limits.stranger(request.client.host if request.client else "")


def opened_by(scope: ScopeOfRequest, found: Visitor) -> None:
    """Bind the response stream to its login, so that both end together (border.py)."""
    scope[ANSWER].login_id = found.login_id


async def verified(service: Service, scope: ScopeOfRequest) -> Visitor | None:
    """Return the user of a request whose token border.py has verified. None without a valid token,
    or if its login was revoked or has expired.
    """
    claims: Claims | None = scope[CLAIMS]
    if claims is None:
        return None

    def alive(session: Session) -> bool:
        row = execute(session, _LOGIN, {"login": claims.login_id}).first()
        return row is not None and row[0] == claims.account_id and row[2] is None and row[1] > now()

    if not await service.database.read_unscoped(alive):
        return None
    return Visitor(Scope(Identity(claims.account_id, "token")), claims.login_id)


async def signed_in(found: Annotated[Visitor, Depends(visitor)]) -> Scope:
    return found.scope


SignedIn = Annotated[Scope, Depends(signed_in)]
