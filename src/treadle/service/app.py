"""The service as an ASGI application: routes, error handlers and the checks before every request.
Entry point: `create_app`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache, partial

from fastapi import FastAPI
from starlette.routing import Route

from treadle import __version__
from treadle.service import auth, chat, conversations, health, openai_api, runs
from treadle.service.border import Border
from treadle.service.forgetting import keep_scrubbed
from treadle.service.mcp_endpoint import McpEndpoint
from treadle.service.openapi import document_of
from treadle.service.page import page_router
from treadle.service.problems import HANDLERS
from treadle.service.resuming import resume_all, take_up
from treadle.service.shares import watch
from treadle.service.state import Service


def create_app(service: Service) -> FastAPI:
    """Build the application for any ASGI server. Its lifespan opens and closes the service, which
    is `request.app.state.service`.
    """
    application = service.application

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with service:
            service.live.spawn(partial(resume_all, service))
            service.live.spawn(partial(take_up, service))
            service.live.spawn(partial(watch, service))
            service.live.spawn(partial(keep_scrubbed, service))
            for job in application.jobs:
                service.live.spawn(partial(job, service.host))
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
    app.state.document = cache(lambda: json.dumps(document_of(app)).encode())
    app.add_middleware(Border, service=service)
    for own in (auth, health, chat, conversations, runs):
        # not include_router, which builds each route a second time, in 10 ms altogether
        app.router.routes.extend(own.router.routes)
    for router in application.routers:
        app.include_router(router)
    app.router.routes.extend(openai_api.router.routes)
    if application.page is not None:
        app.include_router(page_router(application.page))
    if application.mcp is not None:
        app.router.routes.append(Route("/mcp", McpEndpoint(service)))
    return app
