"""What the protocol's own conformance suite says of our server and our client, against a list of
what is expected to fail.

A failure that is not on the list fails, and so does an entry of the list that passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.fork_server import command
from tests.peers.child import serving
from tests.peers.conformance.suite import Suite, expected, suite_process
from tests.peers.conftest import absent

VERSIONS = ["2025-11-25", "2026-07-28"]
CLIENT: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("client_scenarios.yml").read_text(encoding="utf-8")
)
"""By revision."""
EXTENSIONS = [
    name
    for name in CLIENT["2026-07-28"]
    if name.startswith(("auth/client-", "auth/enterprise-", "auth/dpop", "auth/wif-"))
]
"""The same at each revision, and tried at one."""


@pytest.fixture(scope="session")
def suite() -> Iterator[Suite]:
    with suite_process() as found:
        if isinstance(found, str):
            absent(found)
        yield found


@pytest.fixture(scope="session", params=["everything", "agents", "tasks", "service"])
def server(
    request: pytest.FixtureRequest, suite: Suite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Which of ours, and its address."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    program = command(f"tests.peers.conformance.{request.param}", str(folder))
    with serving(program, folder / "log") as url:
        yield request.param, url


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_of_ours(suite: Suite, server: tuple[str, str], version: str, tmp_path: Path):
    name, url = server
    assert suite.try_server(url, version, tmp_path) == expected(f"{name} {version}")


@pytest.mark.parametrize(
    ("version", "scenario"),
    [(version, scenario) for version, names in CLIENT.items() for scenario in names],
)
def test_our_client(suite: Suite, version: str, scenario: str, tmp_path: Path):
    found = suite.try_client(scenario, version, tmp_path)
    assert found.get(scenario) == expected("client").get(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_scenario_of_a_client_is_left_out(suite: Suite, version: str):
    assert sorted(suite.client_scenarios(version)) == sorted({*CLIENT[version], *EXTENSIONS})
