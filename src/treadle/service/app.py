"""The service as an ASGI application: its routes, its errors, and what every request passes before them. Entry: `create_app`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from treadle import __version__
from treadle.service.problems import HANDLERS
from treadle.service.state import Service


def create_app(service: Service) -> FastAPI:
    """For any ASGI server; its lifespan opens and closes the service. `request.app.state.service` is it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with service:
            yield

    app = FastAPI(
        title="Treadle",
        version=__version__,
        lifespan=lifespan,
        exception_handlers=HANDLERS,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    return app
