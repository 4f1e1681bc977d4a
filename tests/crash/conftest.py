"""A nursery for each worker of the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made
