"""The service as an ASGI application: its routes, its errors, and what every request passes before them. Entry: `create_app`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI

from treadle import __version__
from treadle.service import chat, conversations, runs, task_routes
from treadle.service.problems import HANDLERS
from treadle.service.resuming import resume_all
from treadle.service.state import Service


def create_app(service: Service) -> FastAPI:
    """For any ASGI server; its lifespan opens and closes the service. `request.app.state.service` is it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with service:
            service.live.spawn(partial(resume_all, service))
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
    for router in (chat.router, conversations.router, runs.router, task_routes.router):
        app.include_router(router)
    return app
