"""Liveness, readiness and metrics endpoints. Entry point: `router`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials
from msgspec import to_builtins
from pydantic import BaseModel

from treadle.service.metrics import MEDIA_TYPE
from treadle.service.problems import unavailable
from treadle.service.signed_in import BEARER, TheService, visitor

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


async def insider(
    request: Request,
    service: TheService,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
) -> None:
    """Require a signed-in user, unless the service listens on loopback only."""
    if not service.is_open:
        await visitor(request, credentials)


@router.get("/healthz")
async def alive() -> Alive:
    """Liveness: the process answers."""
    return Alive()


@router.get("/readyz")
async def ready(service: TheService) -> Alive:
    """Readiness: the database and the journal answer, and the service is not shutting down."""
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
    """Metrics in Prometheus text format."""
    used = await service.database.read_unscoped(service.limits.totals.used)
    service.metrics.note_totals(used._asdict(), to_builtins(service.settings.totals))
    return Response(await service.metrics.text(), media_type=MEDIA_TYPE)


@router.get("/openapi.json", dependencies=[Depends(insider)], include_in_schema=False)
async def document(request: Request) -> Response:
    return Response(request.app.state.document(), media_type="application/json")
