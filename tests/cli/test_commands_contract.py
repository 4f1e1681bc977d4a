"""The contract of commands, over some of ours."""

from __future__ import annotations

import click
import pytest

from treadle.apps.testing.contracts.commands import *  # noqa: F403  every test of the contract
from treadle.cli.app import app


@pytest.fixture(params=["run", "worker", "agents", "doctor"])
def command(request: pytest.FixtureRequest) -> click.Command:
    found = app.get_command(click.Context(app), request.param)
    assert found is not None
    return found
