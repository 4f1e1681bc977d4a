"""Task group that raises an error without wrapping it in a group. Entry point: `bare_group`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def bare_group() -> AsyncGenerator[TaskGroup]:
    """Open a task group that raises the first error instead of an ExceptionGroup."""
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as e:
        first = _first(e)
        raise first from first.__cause__


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
