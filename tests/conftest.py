"""Fixtures for every test."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import profiles  # noqa: F401  # before any test chooses settings
from tests.forked_workers import ForkedWorkers, share
from tests.order import Order
from tests.selection import Selection

SHARED = Path(__file__).resolve().parents[2] / "shared"

for variable in [
    name
    for name in os.environ
    if name.startswith("TREADLE_") and not name.startswith("TREADLE_TEST_")
]:
    # before anything is imported or started: what a person has configured is none of a test's
    del os.environ[variable]

# Every HTTP client reads the trust store, the machine's in 20 ms. This one has a single certificate, and its key was thrown away.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("fixtures") / "authority.pem")
os.environ.pop("SSL_CERT_DIR", None)

# a thousand processes of the tests would compile Treadle anew, each for itself
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

for _number, _default in (
    (signal.SIGINT, signal.default_int_handler),
    (getattr(signal, "SIGHUP", signal.SIGINT), signal.SIG_DFL),
):
    # under nohup, or in the background of a script: processes of the tests would ignore it too
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        help="also run the tests that plain pytest leaves out (tests/selection.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Selection(config), "selection")
    given = getattr(config, "workerinput", None)
    if given is None:
        config.pluginmanager.register(ForkedWorkers(), "forked_workers")
        return
    share(config)
    if config.option.all:
        config.pluginmanager.register(Order(given["workercount"]), "order")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off the modules and tests that are collected: it would walk all of
    them again and again, and find them in use.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """More than processors, since many tests wait for processes that they have started: one more,
    and with `--all`, which adds crashes, servers and leases, four.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    more = 4 if config.option.all else 1
    return (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ) + more


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio is what we run on; trio is not supported."""
    return "asyncio"


_numbers = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder. Pytest's own fixture looks for a free name among the folders of all tests
    before, and renews a link to the newest.
    """
    name = re.sub(r"\W", "_", request.node.name)[:26]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def shared() -> Path:
    """The folder of recordings, attacks and benches beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("the folder `shared` is not beside this checkout")
    return SHARED
