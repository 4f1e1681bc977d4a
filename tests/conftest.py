"""Fixtures for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio is what we run on; trio is not supported."""
    return "asyncio"


@pytest.fixture
def shared() -> Path:
    """The folder of recordings, attacks and benches beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("the folder `shared` is not beside this checkout")
    return SHARED
