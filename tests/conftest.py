"""Fixtures for every test."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

for variable in [name for name in os.environ if name.startswith("TREADLE_") and not name.startswith("TREADLE_TEST_")]:
    del os.environ[variable]  # before anything is imported or started: what a person has configured is none of a test's

for _number, _default in ((signal.SIGINT, signal.default_int_handler), (getattr(signal, "SIGHUP", signal.SIGINT), signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:  # under nohup, or in the background of a script: processes of the tests would ignore it too
        signal.signal(_number, _default)


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
