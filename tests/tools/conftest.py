"""What every test of a tool needs: a context with the real things in it."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.policy.guarded_paths import is_secret
from treadle.tools.spill import Spill
from treadle.tools.tool import ToolContext

MakeContext = Callable[..., ToolContext[Any]]
Use = Callable[..., Awaitable[Any]]


@pytest.fixture
def spill() -> Iterator[Spill]:
    spill = Spill()
    yield spill
    spill.close()


@pytest.fixture
def make_context(spill: Spill) -> MakeContext:
    """`make_context(cwd, **fields)`: a call's context; all contexts of one test are of one session
    and share what was seen.
    """
    seen: dict[str, str] = {}

    def make(cwd: Path, **fields: Any) -> ToolContext[Any]:
        known: dict[str, Any] = {
            "deps": None,
            "run_id": "run_1",
            "session_id": "ses_1",
            "call_id": "call_1",
            "user_id": None,
            "cwd": cwd,
            "deadline": None,
            "attempt": 1,
            "idempotency_key": "key_1",
            "spill": spill.write,
            "seen_files": seen,
            "environment": {"PATH": os.environ["PATH"]},
            "is_secret": is_secret,
        }
        return ToolContext(**(known | fields))

    return make


@pytest.fixture
def use(make_context: MakeContext, tmp_path: Path) -> Use:
    """A function that parses and executes one call in `tmp_path`.

    All calls of one test are of one session.
    """

    async def use(tool: Any, **arguments: Any) -> Any:
        return await tool.execute(make_context(tmp_path), tool.parse(json.dumps(arguments)))

    return use
