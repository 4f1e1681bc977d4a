"""The contract of sandboxes, over the one of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from treadle.apps.testing.contracts.sandboxes import *  # noqa: F403  every test of the contract
from treadle.policy.sandboxes import find_sandbox
from treadle.tools.confinement import Sandbox


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    found = find_sandbox(None)
    yield found
    await found.aclose()
