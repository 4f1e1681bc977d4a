"""A nursery, and where it is asked for a PostgreSQL, for each worker of the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.nursery import Nursery
from tests.crash.postgres import chaos_server

__all__ = ["chaos_server", "nursery"]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made
