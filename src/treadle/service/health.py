"""Liveness, readiness and metrics endpoints. Entry point: `router`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials
from msgspec import to_builtins
from pydantic import BaseModel

from treadle.service.metrics import MEDIA_TYPE
from treadle.service.problems import unavailable
from treadle.service.signed_in import BEARER, TheService, visitor

FORWARDED: Final = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)
"""Headers that show that a proxy forwarded a request."""
router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


async def insider(
    request: Request,
    service: TheService,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
) -> None:
    """Require a signed-in user, unless the service listens on loopback only and no proxy sent the
    request, or `open_docs` is true.
    """
    if service.settings.open_docs or (service.is_open and not _is_forwarded(request)):
        return
    await visitor(request, credentials)


def _is_forwarded(request: Request) -> bool:
    """Return True if a proxy evidently forwarded the request: it has forwarding headers, or uses
    HTTP/1.0, which nginx speaks by default.
    """
    return request.scope["http_version"] == "1.0" or any(
        name in request.headers for name in FORWARDED
    )


@router.get("/healthz")
async def alive() -> Alive:
    """Report liveness: the process responds."""
    return Alive()


@router.get("/readyz")
async def ready(service: TheService) -> Alive:
    """Report readiness: the database and the journal respond, and the service is not shutting
    down.
    """
    if not await service.readiness.is_ready():
        raise unavailable("Not ready.")
    return Alive()


@router.get(
    "/metrics",
    dependencies=[Depends(insider)],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(service: TheService) -> Response:
    """Return the metrics in Prometheus text format."""
    used = await service.database.read_unscoped(service.limits.totals.used)
    service.metrics.note_totals(used._asdict(), to_builtins(service.settings.totals))
    return Response(await service.metrics.text(), media_type=MEDIA_TYPE)


@router.get("/openapi.json", dependencies=[Depends(insider)], include_in_schema=False)
async def document(request: Request) -> Response:
    return Response(request.app.state.document(), media_type="application/json")
